"""Checks of the estimator's parameters. scikit-learn has such checks, but not for others to import."""

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

PRECOMPUTED = ("precomputed", "precomputed_affinity")
METRICS = ("euclidean", "cosine", *PRECOMPUTED)
SEARCHES = ("auto", "exact", "approximate")
PRIOR_MODELS = ("auto", "discriminant", "linear", "prototypes", "none")

NO_FEATURES = ("auto", "none")
"""Prior models that need no features."""


def check_parameters(model: Any) -> None:
    """Check all parameters of a LabelPropagator, but for those that depend on the classes."""
    check_integer("n_neighbors", model.n_neighbors, 1)
    if isinstance(model.alpha, str):
        check_choice("alpha", model.alpha, ("auto",))
    else:
        check_number("alpha", model.alpha, 0, 1, closed=True)
    if isinstance(model.estimator, str):
        check_choice("estimator", model.estimator, PRIOR_MODELS)
    elif not hasattr(model.estimator, "fit") or not hasattr(model.estimator, "predict_proba"):
        raise refusal(
            "estimator", f"one of {', '.join(PRIOR_MODELS)}, or a classifier with predict_proba", model.estimator
        )
    if isinstance(model.rounds, str):
        check_choice("rounds", model.rounds, ("auto",))
    else:
        check_integer("rounds", model.rounds, 0)
    if not isinstance(model.learn_graph, bool | np.bool_):
        check_choice("learn_graph", model.learn_graph, ("auto",))
    elif model.learn_graph and model.metric in PRECOMPUTED:
        raise refusal("learn_graph", "'auto' or False where metric is precomputed, since there are no features", True)
    if isinstance(model.class_prior, str):
        check_choice("class_prior", model.class_prior, ("estimated",))
    if isinstance(model.length_scale, str):
        check_choice("length_scale", model.length_scale, ("local",))
    else:
        check_number("length_scale", model.length_scale, 0)
    check_choice("metric", model.metric, METRICS)
    if model.metric.startswith("precomputed") and not (
        isinstance(model.estimator, str) and model.estimator in NO_FEATURES
    ):
        raise refusal(
            "estimator", "'auto' or 'none' where metric is precomputed, since there are no features", model.estimator
        )
    check_choice("search", model.search, SEARCHES)
    check_number("tol", model.tol, 0)
    check_integer("max_iter", model.max_iter, 1)
    if model.n_jobs is not None:
        check_integer("n_jobs", model.n_jobs, -(2**31))


def float_types(X: Any) -> list[type]:
    """Return the types that points are kept in, the first for all others: half precision becomes single, not double."""
    return [np.float32] if getattr(X, "dtype", None) == np.float16 else [np.float64, np.float32]


def check_weights(sample_weight: Any, number: int) -> np.ndarray | None:
    """Return the weights of points, if there are any: finite, not negative, and not all zero."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim == 0:
        weights = np.full(number, float(weights))
    if weights.shape != (number,):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(number,)}: one weight for each point.")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be finite numbers that are not negative, and not all zero.")
    return weights


def class_balance(class_prior: Any, classes: np.ndarray) -> np.ndarray | None:
    """Return the class balance that the user gave, if any: positive numbers with the sum of one."""
    if class_prior is None or isinstance(class_prior, str):
        return None
    if isinstance(class_prior, dict):
        names = classes.tolist()
        if set(class_prior) != set(names):
            different = sorted(map(str, set(class_prior) ^ set(names)))
            raise ValueError(
                f"class_prior must have one entry for each class; these differ: {', '.join(different[:10])}."
            )
        class_prior = [class_prior[name] for name in names]
    prior = np.asarray(class_prior, np.float64)
    if prior.shape != classes.shape or not np.isfinite(prior).all() or (prior <= 0).any():
        raise ValueError(f"class_prior must be {len(classes)} positive numbers, one for each class: {class_prior}.")
    prior = np.maximum(prior / prior.max(), np.finfo(np.float64).tiny)
    return np.asarray(prior / prior.sum())


def check_integer(name: str, value: Any, least: int, owner: str = "LabelPropagator") -> None:
    """Refuse anything but whole numbers from `least` on."""
    if type(value) is bool or not isinstance(value, Integral) or int(value) < least:
        raise refusal(name, f"an integer of at least {least}", value, owner)


def check_number(
    name: str,
    value: Any,
    above: float,
    below: float = float("inf"),
    closed: bool = False,
    owner: str = "LabelPropagator",
) -> None:
    """Refuse anything but numbers between the bounds; `closed` includes the lower one."""
    usable = type(value) is not bool and isinstance(value, Real)
    if not usable or not (value >= above if closed else value > above) or not value < below:
        raise refusal(name, f"a number in {'[' if closed else '('}{above:g}, {below:g})", value, owner)


def check_choice(name: str, value: Any, choices: Collection[str], owner: str = "LabelPropagator") -> None:
    """Refuse text that is none of the choices, and anything that is no text."""
    if not isinstance(value, str) or value not in choices:
        raise refusal(name, f"one of {', '.join(map(repr, choices))}", value, owner)


def refusal(name: str, wanted: str, value: Any, owner: str = "LabelPropagator") -> ValueError:
    """Return an error as scikit-learn words it."""
    return ValueError(f"The {name!r} parameter of {owner} must be {wanted}. Got {value!r} instead.")
