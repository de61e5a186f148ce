"""The estimator on hostile arrays: probabilities that are finite and sum to one, or a ValueError; never NaN."""

import random
import warnings
from typing import Any

import numpy as np

from torture.campaign import Campaign, Case
from torture.sandbox import GIGABYTE, forked

SCALES = (0.0, 1e-320, 1e-300, 1e-155, 1e-30, 1e-8, 1.0, 1e8, 2e19, 1e30, 1e38, 1e155, 1e300, 1.7e308)
MOST_SECONDS = 20


class Estimator(Campaign):
    """Fit `tpn.LabelPropagator` on arrays with extreme, equal, missing and degenerate values."""

    name, wanted, slice = "estimator", 1000, 5

    def prepare(self) -> None:
        import tpn.semi_supervised.label_propagator  # noqa: F401 (slow to import in each process)

    def run(self, number: int, chance: random.Random) -> Case:
        points, labels, settings, what = hostile(chance)

        def work() -> str:
            warnings.simplefilter("ignore")
            import tpn

            try:
                model = tpn.LabelPropagator(**settings).fit(points, labels)
                found = {
                    "label_distributions_": model.label_distributions_,
                    "predict_proba": model.predict_proba(points),
                }
                predicted = model.predict(points)
            except ValueError as refusal:
                return "" if str(refusal) else "a ValueError that says nothing"
            for name, values in found.items():
                if not np.isfinite(values).all():
                    return f"{name} is not finite"
                if not np.allclose(values.sum(1), 1, atol=1e-6) or values.min() < 0:
                    return f"the rows of {name} are no distributions"
            known = np.asarray(labels) != -1
            return "" if set(predicted) <= set(np.asarray(labels)[known]) else "it predicts what is no class"

        ended = forked(work, MOST_SECONDS)
        case = Case(f"{what}, {settings}")
        if ended.traceback or ended.code:
            case.failures.append(ended.traceback or f"ended with code {ended.code}")
        elif ended.result:
            case.failures.append(ended.result)
        if ended.memory > GIGABYTE:
            case.failures.append(f"it took {ended.memory / 1e9:.1f} GB")
        return case


def hostile(chance: random.Random) -> tuple[Any, Any, dict[str, Any], str]:
    """Return points, labels, settings of the estimator, and what is special about them."""
    numbers = np.random.default_rng(chance.randrange(2**32))
    count, width, classes = chance.choice((2, 3, 5, 30, 200)), chance.choice((1, 2, 16)), chance.choice((2, 3, 7))
    points = numbers.normal(size=(count, width))
    what = [f"{count} points of {width} numbers"]
    if chance.random() < 0.6:
        scale = chance.choice(SCALES)
        with np.errstate(over="ignore"):
            points = points * scale
        what.append(f"scale {scale:g}")
    if chance.random() < 0.3:
        rows = numbers.random(count) < 0.3
        with np.errstate(over="ignore"):
            points[rows] = points[rows] * chance.choice(SCALES)
        what.append("some rows scaled")
    if chance.random() < 0.3:
        points[numbers.integers(0, count, count // 2)] = points[0]
        what.append("copies")
    if chance.random() < 0.2:
        points[:] = points[:1]
        what.append("all equal")
    if chance.random() < 0.1:
        points[numbers.integers(count), numbers.integers(width)] = chance.choice((np.nan, np.inf, -np.inf))
        what.append("not finite")
    if chance.random() < 0.5:
        with np.errstate(over="ignore"):
            points = points.astype(np.float32)
        what.append("float32")
    labels = np.full(count, -1)
    labelled = numbers.permutation(count)[: max(1, min(count, chance.choice((1, classes, 2 * classes))))]
    labels[labelled] = numbers.integers(0, classes, len(labelled))
    return points, labels, settings_of(chance, len(set(labels) - {-1})), ", ".join(what)


def settings_of(chance: random.Random, classes: int) -> dict[str, Any]:
    """Return settings of the estimator, some of them extreme."""
    settings: dict[str, Any] = {"n_neighbors": chance.choice((1, 5, 10))}
    if chance.random() < 0.3:
        settings["length_scale"] = chance.choice(("local", 1e-300, 1e-30, 1.0, 1e30, 1e300))
    if chance.random() < 0.3:
        settings["alpha"] = chance.choice((0.0, 0.5, 0.99, 1 - 1e-12))
    if chance.random() < 0.3:
        settings["class_prior"] = chance.choice((None, "estimated", [1e308] * classes, [1e-320] * classes))
    return settings
