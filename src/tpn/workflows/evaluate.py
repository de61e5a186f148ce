"""Test a trained method on classes that it has never seen."""

import os
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tpn.backbones._registry import Network, backbone_name
from tpn.episodes.setting import BatchNorm, Setting
from tpn.errors import TPNError
from tpn.evaluation.intervals import Mean
from tpn.evaluation.protocol import Evaluation
from tpn.evaluation.subject import Subject, head_on_features, open_run
from tpn.images.opening import open_images
from tpn.images.split import Images
from tpn.methods._config import ClassifierConfig
from tpn.methods._head import Head
from tpn.methods._method import Method
from tpn.methods._registry import find_method, list_methods
from tpn.progress import showing
from tpn.results import Result
from tpn.runs.folder import find_run
from tpn.training.device import computing
from tpn.training.preflight import warn_of_unlabelled
from tpn.workflows.keywords import build, option_fields, refuse_unknown, take, takes
from tpn.workflows.options import EvaluateOptions

if TYPE_CHECKING:
    import torch

QUERY_OPTIONS = {"way", "query", "query_counts", "query_dirichlet", "query_classes", "open_classes", "whole"}
CLASS_BALANCE = {"unknown": "not used", "estimated": "estimated", "equal": "assumed equal"}
"""What a method knows of the class balance of the queries, in words."""


@dataclass(frozen=True)
class EvaluationResult(Result):
    """Result of a test: mean accuracy over episodes, with its 95 % confidence interval."""

    accuracy: float
    ci95: float | None
    """Half the width of the 95 % confidence interval (None for a single episode)."""
    seconds: float
    method: str
    transduction: str
    """Whether queries share information: by the method (yes), by batch normalisation (bn), or not at all (no)."""
    class_balance: str
    """What the method knows of the class balance of the queries: nothing (unknown), it estimates it (estimated), or it
    assumes classes of equal size (equal)."""
    batch_norm: BatchNorm
    data: str
    split: str
    classes: int
    """Classes in the split."""
    episode: Setting
    episodes: int
    seed: int
    run: str | None
    """The run folder, if a run was tested."""
    accuracies: np.ndarray = field(repr=False)
    """The accuracy of each episode, on the queries that belong to one of its classes."""
    auroc: float | None = None
    """Open set: the area under the ROC curve by which the confidence tells queries of no class apart."""
    auroc_ci95: float | None = None
    """Half the width of its 95 % confidence interval."""
    head_settings: dict[str, Any] = field(default_factory=dict)
    """The settings of the head, if a head was tested."""

    @property
    def mean(self) -> Mean:
        """The accuracy with its interval."""
        return Mean(self.accuracy, self.ci95)

    @property
    def setting(self) -> str:
        """The data and episodes of the test, in one line."""
        return f"{self.data}, {self.split} split ({self.classes} classes): {self.episode}, {self.episodes} episodes"

    def to_dict(self) -> dict[str, Any]:
        episode = asdict(self.episode)
        return {
            "accuracy": self.accuracy,
            "ci95": self.ci95,
            **{name: episode[name] for name in ("way", "shot", "query")},
            "episodes": self.episodes,
            "seconds": self.seconds,
            "method": self.method,
            "transduction": self.transduction,
            "class_balance": self.class_balance,
            **({} if self.auroc is None else {"auroc": self.auroc, "auroc_ci95": self.auroc_ci95}),
            **({"head_settings": self.head_settings} if self.head_settings else {}),
            "batch_norm": self.batch_norm,
            "data": self.data,
            "split": self.split,
            "seed": self.seed,
            "run": self.run,
            **episode,  # the rest of the setting
        }

    def summary(self) -> str:
        interval = "" if self.ci95 is None else "  (95 % interval)"
        confidence = "" if self.auroc is None else f"  open set      AUROC {Mean(self.auroc, self.auroc_ci95)}\n"
        settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.head_settings.items())
        return (
            f"{self.method} on {self.setting}\n"
            f"  accuracy      {self.mean}{interval}\n{confidence}"
            f"  transduction  {self.transduction}, batch norm with {self.batch_norm} statistics\n"
            f"  class balance of the queries: {CLASS_BALANCE[self.class_balance]}\n"
            + (f"  head          {settings}\n" if settings else "")
            + f"  time          {self.seconds:.1f} s"
        )


@takes(EvaluateOptions, Setting)
def evaluate(
    method: str | os.PathLike[str] | Method,
    data: str | Images | None = None,
    *,
    as_method: str | None = None,
    backbone: str | Network | None = None,
    progress: bool = True,
    **options: Any,
) -> EvaluationResult:
    """Test a trained method on episodes of classes that it has never seen.

    Parameters
    ----------
    method : path, str or Method
        A run (its folder, or the result of `tpn.train`), a loaded method, or the name of a method that needs no
        training (such as "protonet") to test on features.
    data : str or Images, optional
        The source of the images: quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH, folder:PATH, or the result of
        `tpn.images_from` or `tpn.open_images`. By default the data of the run.
    as_method : str, optional
        Test the weights of the run as another method that has the same ones: soft-kmeans for a run of protonet,
        tpn-semi for one of tpn, reptile-bn for one of reptile, discriminative-k-shot for one of classifier-baseline.
        Or test its backbone with any head (laplacian-shot, tim, …); the settings of the head are keywords too.
    backbone : str, nn.Module or callable, optional
        The network of the run, if it is one of your own.
    progress : bool, default=True
        Show a progress bar.
    {options}

    Returns
    -------
    EvaluationResult
        Prints as a short table; has `accuracy`, `ci95`, `accuracies` and the setting.

    Notes
    -----
    The setting of the episodes (way, shot, query, …) is by default that of the training of the run. With the name of a
    method, its own settings are keywords too.

    Examples
    --------
    >>> import tpn
    >>> result = tpn.evaluate("mini-conv4", "mini-imagenet:mini-imagenet.zip", shot=1)  # doctest: +SKIP
    >>> print(result)  # doctest: +SKIP
    """
    return evaluate_all({"": method}, data, as_method, backbone, progress, options, "evaluate")[""]


def evaluate_all(
    methods: "dict[str, str | os.PathLike[str] | Method]",
    data: str | Images | None,
    as_method: str | None,
    backbone: str | Network | None,
    progress: bool,
    options: dict[str, Any],
    caller: str,
) -> dict[str, EvaluationResult]:
    """Test several methods on the same episodes."""
    given = dict(options)
    heads = [name for name in methods.values() if is_method_name(name)]
    kinds = [EvaluateOptions, Setting, *(find_method(str(name)).Config for name in heads)]
    if as_method is not None:
        kinds.append(find_method(as_method).Config)
    refuse_unknown(caller, {name: None for name in given if name not in option_fields(*kinds)}, *kinds)
    test = build(EvaluateOptions, given)
    episode = take(Setting, given)
    with showing(progress), computing(test.threads, test.device) as device:
        found = {
            name: find_subject(method, data, as_method, backbone, test, episode, given, device)
            for name, method in methods.items()
        }
        if len(data_of := {subject.data for subject, _ in found.values()}) > 1:
            one, other, *_ = sorted(data_of)
            raise TPNError(
                f"The runs were trained on {one} and {other}: give --data to choose the one to compare them on."
            )
        setting = common_setting({name: setting for name, (_, setting) in found.items()}, episode)
        for subject, _ in found.values():
            subject.check(setting)
            warn_of_unlabelled(subject.method.info, setting)
        results = {}
        for name, (subject, _) in found.items():
            [outcome] = subject.test([setting], test.episodes, test.seed, test.batch_norm, name or "evaluating")
            results[name] = as_result(outcome, subject, setting, test, methods[name])
        return results


def is_method_name(method: Any) -> bool:
    """Return whether it is the name of a method, and not a run folder."""
    return isinstance(method, str) and method in list_methods() and not find_run(method).exists


def common_setting(settings: dict[str, Setting | None], given: dict[str, Any]) -> Setting:
    """Return the setting of the test of all runs: that of their trainings, which must agree."""
    known = {name: setting for name, setting in settings.items() if setting is not None}
    if not known:
        return Setting(**given)
    (first, setting), *others = known.items()
    for name, other in others:
        if other != setting:
            raise TPNError(
                f"{first} and {name} were trained on different episodes: choose those to compare them on "
                "with --way, --shot, --query and similar options."
            )
    return setting


def find_subject(
    method: str | os.PathLike[str] | Method,
    data: str | Images | None,
    as_method: str | None,
    backbone: str | Network | None,
    test: EvaluateOptions,
    episode: dict[str, Any],
    settings: dict[str, Any],
    device: "torch.device",
) -> tuple[Subject, Setting | None]:
    """Return the subject of the test and, for a run, the setting of its training updated by the given options."""
    if isinstance(method, Method):
        if data is None:
            raise TPNError("Give --data to choose what to test the method on.")
        images = data if isinstance(data, Images) else open_images(data, method.dimensions.image_size, cache=test.cache)
        return Subject(method.to(device), images.spec, images.split(test.split)), None
    run = find_run(method)
    if is_method_name(method):
        method = str(method)
        if not isinstance(data, Images):
            raise TPNError(f"{method} is a method, not a run folder: train it first, or give it features.")
        setting = Setting(**episode)
        chosen = take(find_method(method).Config, dict(settings))
        return head_on_features(method, chosen, data, test.split, setting), None
    if backbone is not None:
        backbone_name(backbone)
    chosen = {} if as_method is None else take(find_method(as_method).Config, dict(settings))
    subject = open_run(
        run, data, test.split, cache=test.cache, as_method=as_method, backbone=backbone, settings=chosen, device=device
    )
    assert subject.config is not None
    return subject, inherited(subject.config.episode, episode)


def inherited(trained: Setting, given: dict[str, Any]) -> Setting:
    """Return the setting of training updated by the given options; any option for queries resets unbalanced queries."""
    if QUERY_OPTIONS & given.keys():
        trained = replace(trained, query_counts=None, query_dirichlet=None, query_classes=None)
    return replace(trained, **given)


def as_result(
    outcome: Evaluation, subject: Subject, setting: Setting, test: EvaluateOptions, method: Any
) -> EvaluationResult:
    """Combine the outcome of a test with a description of the test."""
    return EvaluationResult(
        accuracy=outcome.mean.value,
        ci95=outcome.mean.ci95,
        seconds=outcome.seconds,
        method=subject.name,
        transduction=subject.transduction(test.batch_norm),
        class_balance=subject.method.info.class_balance,
        batch_norm=subject.batch_norm(test.batch_norm),
        data=subject.data,
        split=test.split,
        classes=len(subject.split.classes),
        episode=setting,
        episodes=test.episodes,
        seed=test.seed,
        run=None if subject.config is None else os.fspath(method),
        accuracies=outcome.accuracies,
        auroc=None if outcome.auroc is None else outcome.auroc.value,
        auroc_ci95=None if outcome.auroc is None else outcome.auroc.ci95,
        head_settings=own_settings(subject.method) if isinstance(subject.method, Head) else {},
    )


def own_settings(method: Method) -> dict[str, Any]:
    """Return the settings of a head that are not those of its training."""
    training = {one.name for one in fields(ClassifierConfig)}
    return {one.name: getattr(method.config, one.name) for one in fields(method.config) if one.name not in training}
