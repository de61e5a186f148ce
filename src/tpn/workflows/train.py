"""Train a few-shot method by episodes, or resume a training."""

import os
import re
import shlex
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpn.backbones._registry import backbone_name as name_of_backbone
from tpn.backbones._registry import check_backbone
from tpn.episodes.setting import Setting
from tpn.errors import Interrupted, TPNError
from tpn.evaluation.intervals import percent
from tpn.images.opening import open_images
from tpn.images.source_names import check_size
from tpn.images.split import Images
from tpn.methods._config import Config
from tpn.methods._method import Method
from tpn.methods._registry import find_method, register_method
from tpn.progress import clock, showing
from tpn.results import Result
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run, find_run
from tpn.runs.loading import load_run
from tpn.training.device import Execution, check_compiler, compilation_pays, computing, own_device
from tpn.training.distributed import find_processes
from tpn.training.image_sizes import check_last_size
from tpn.training.loop import Callbacks, Outcome
from tpn.training.preflight import check, train_in_folder
from tpn.training.setup import Training
from tpn.training.warm_start import initial_weights
from tpn.workflows.keywords import build, refuse_unknown, take, takes
from tpn.workflows.options import TrainingDeviceOptions, TrainOptions

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

LONGEST_NAME = 40
UNLABELLED = 5
"""Default number of unlabelled images per class in the training of semi-supervised methods."""


@dataclass(frozen=True)
class TrainingRun(Result):
    """A trained run. It can be passed wherever a run folder is expected."""

    folder: Path
    config: RunConfig
    metrics: list[dict[str, Any]]
    """A line per validation: episode, train_loss, train_accuracy, val_accuracy, val_ci95, lr, best."""
    episodes: int
    """Number of training episodes (or mini-batches)."""
    best_accuracy: float
    """The best mean accuracy on the validation classes."""
    best_episode: int
    seconds: float
    plateau: bool
    """Whether it ended because the validation accuracy reached a plateau."""

    def __fspath__(self) -> str:
        return str(self.folder)

    def load(self) -> Method:
        """Load the trained method with its best weights."""
        return load_run(Run(self.folder), self.config)

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Plot the learning curve; write the plot to `path`, if given."""
        from tpn.evaluation.plots.learning_curve import draw_learning_curve

        title = f"{self.config.method} on {self.config.data}, {self.config.episode}"
        return draw_learning_curve(self.metrics, title, None if path is None else Path(path))

    def to_dict(self) -> dict[str, Any]:
        names = ("episodes", "best_accuracy", "best_episode", "seconds", "plateau")
        return {
            "run": str(self.folder),
            "method": self.config.method,
            "data": self.config.data,
            **{name: getattr(self, name) for name in names},
            "metrics": self.metrics,
        }

    def rows(self) -> list[dict[str, Any]]:
        return self.metrics

    def summary(self) -> str:
        one, several = find_method(self.config.method).info.counted_in
        why = " (validation has reached a plateau)" if self.plateau else ""
        return (
            f"Trained {self.config.method} for {self.episodes} {several}{why} in {clock(self.seconds)}. "
            f"Best on validation: {percent(self.best_accuracy, None)} at {one} {self.best_episode}.\n"
            f"The run is in {self.folder}."
        )


@takes(TrainOptions, Setting, Config)
def train(
    method: str | type[Method] | None = None,
    data: str | Images | None = None,
    *,
    on_step: Callable[[dict[str, Any]], None] | None = None,
    on_validation: Callable[[dict[str, Any]], None] | None = None,
    progress: bool = True,
    **options: Any,
) -> TrainingRun:
    """Train a few-shot method by episodes drawn from the training classes.

    Writes a run folder with the settings, a line of metrics per validation, the weights that were best on the
    validation classes, and a checkpoint. With `resume=True`, a training that was stopped (KeyboardInterrupt) or killed
    continues exactly where it was.

    Parameters
    ----------
    method : str or subclass of Method, default="tpn"
        The method to train: one of `tpn.list_methods()`, or a class of your own.
    data : str or Images, default="quickdraw"
        The source of the images: quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH, folder:PATH, or the result of
        `tpn.images_from` or `tpn.open_images`.
    on_step, on_validation : callable, optional
        Called with a dict: after each optimiser step with episode, loss, accuracy and lr; after each validation with
        the line of metrics.
    progress : bool, default=True
        Show a progress bar.
    {options}

    Returns
    -------
    TrainingRun
        The run folder, its metrics, and `load()`; pass it to `tpn.evaluate` and the other functions.

    Notes
    -----
    A method's own settings (`tpn train METHOD --help` lists them) are keywords too.

    Examples
    --------
    >>> import tpn
    >>> run = tpn.train("tpn", "quickdraw", episodes=1000, out="runs/first")  # doctest: +SKIP
    >>> tpn.evaluate(run, shot=1)  # doctest: +SKIP
    """
    given = dict(options)
    where = build(TrainingDeviceOptions, given)
    with showing(progress), computing(where.threads, where.device) as found:
        execution = find_execution(found, where)
        images, run, config, resume = configure(method, data, given, "train")
        execution = choose_compilation(execution, where, run, config)
        check(run, config, execution, resume)
        training = Training.build(run, config, images, execution)
        outcome = train_in_folder(training, Callbacks(on_step, on_validation))
    return finished(run, config, outcome)


def is_first_process() -> bool:
    """Return whether this process prints messages, if torchrun started several."""
    return find_processes().first


def leave_processes(code: int) -> int:
    """Exit with this code if this is one of several processes of torchrun; otherwise return the code."""
    return find_processes().leave(code)


def finished(run: Run, config: RunConfig, outcome: Outcome) -> TrainingRun:
    """Return the trained run; raise Interrupted if a signal ended it early."""
    state = outcome.state
    if outcome.stopped_by is not None:
        command = f"tpn train {config.method} --out {shlex.quote(str(run.folder))} --resume"
        text = f"Stopped and saved at episode {state.episode}. Continue with: {command}"
        raise Interrupted(text, signal.Signals(outcome.stopped_by))
    return TrainingRun(
        folder=run.folder,
        config=config,
        metrics=run.read_metrics(),
        episodes=state.episode,
        best_accuracy=state.best_accuracy,
        best_episode=state.best_episode,
        seconds=state.seconds,
        plateau=outcome.plateau,
    )


def find_execution(device: "torch.device", options: TrainingDeviceOptions) -> Execution:
    """Determine device and precision, and connect to the other processes if torchrun started several."""
    processes = find_processes()
    device = own_device(device, processes)
    processes.connect(device)
    if options.compile and options.no_compile:
        raise TPNError("Give --compile or --no-compile, not both.")
    execution = Execution(device, processes=processes).with_precision(options.precision, options.compile)
    if options.compile:
        check_compiler(device)
    return execution


def choose_compilation(execution: Execution, options: TrainingDeviceOptions, run: Run, config: RunConfig) -> Execution:
    """Compile the backbone if the user did not decide, and it pays; a resumed run keeps what it began with."""
    if options.compile or options.no_compile:
        return execution
    before = run.was_compiled
    return replace(execution, compile=compilation_pays(config, execution) if before is None else before)


def configure(
    method: str | type[Method] | None,
    data: str | Images | None,
    given: dict[str, Any],
    caller: str,
    first_run: Callable[[Path, Setting], Path] = lambda out, setting: out,
) -> tuple[Images, Run, RunConfig, bool]:
    """Open the images, and combine everything that determines the outcome of a run.

    Options that are not given come from the run to resume, from the run of a warm start, or from the method's defaults.
    `first_run` returns the run in `out` whose settings are used when resuming.
    """
    before = before_resuming(given, first_run)
    name = method_name(method, before, given)
    kind = find_method(name)
    if "backbone" in given:
        given["backbone"] = name_of_backbone(given["backbone"])
    settings: Config = kind.Config() if before is None else before.settings
    episode = (
        Setting(unlabelled=UNLABELLED if kind.info.unlabelled == "needs" else 0) if before is None else before.episode
    )
    defaults: dict[str, Any] = {}
    if before is not None:
        names = ("image_size", "class_seed", "seed", "init")
        data = before.data if data is None and not before.data.startswith("arrays:") else data
        defaults = {name: getattr(before, name) for name in names}
    elif given.get("init") is not None:
        source = find_run(given["init"]).read_config()
        settings = replace(settings, backbone=source.settings.backbone)
        data = source.data if data is None and not source.data.startswith("arrays:") else data
        defaults = {"image_size": source.image_size, "class_seed": source.class_seed}
    if isinstance(data, Images) and data.are_features and before is None:
        settings = replace(settings, backbone="identity")
    settings, episode = replace(settings, **take(kind.Config, given)), replace(episode, **take(Setting, given))
    options = build(TrainOptions, given := {**defaults, **given})
    refuse_unknown(caller, given, TrainOptions, Setting, kind.Config)
    check_backbone(settings.backbone, settings.drop_block, options.image_size)
    check_size(options.image_size)
    images = data if isinstance(data, Images) else open_training_images("quickdraw" if data is None else data, options)
    check_last_size(settings, images.image_size)
    config = RunConfig.on(
        images,
        method=name,
        settings=settings,
        episode=episode,
        class_seed=options.class_seed,
        seed=options.seed,
        **initial_weights(options.init, before),
        began_as="" if before is None else before.began_as,
    )
    return images, Run(options.out or default_folder(config)), config, options.resume


def before_resuming(given: dict[str, Any], first_run: Callable[[Path, Setting], Path]) -> RunConfig | None:
    """Return the settings of the run to resume, if there is one."""
    if not given.get("resume") or given.get("out") is None:
        return None
    run = Run(first_run(Path(given["out"]), Setting(split_seed=given.get("split_seed", 0))))
    return run.read_config() if run.exists else None


def method_name(method: str | type[Method] | None, before: RunConfig | None, given: dict[str, Any]) -> str:
    """Return the name of the method to train; refuse to resume a run of another."""
    if isinstance(method, type):
        method = register_method(method).info.name
    if before is not None and method not in (None, before.method):
        raise TPNError(
            f"{given['out']} is a run of {before.method}, not of {method}: it cannot be resumed as {method}."
        )
    return before.method if before is not None else method or "tpn"


def open_training_images(spec: str, options: TrainOptions) -> Images:
    """Open the images of a source with these options."""
    return open_images(
        spec, options.image_size, cache=options.cache, strict=options.strict, class_seed=options.class_seed
    )


def default_folder(config: RunConfig) -> Path:
    """Return a run folder named after the settings, such as runs/tpn-quickdraw-5way-5shot-seed0."""
    setting = config.episode
    kind, _, path = config.data.partition(":")
    name = re.sub(r"\.(zip|tar|tgz|tar\.\w+)$", "", Path(path).name)[:LONGEST_NAME]
    data = f"{kind}-{name}" if kind in ("folder", "arrays") else kind
    return Path("runs", f"{config.method}-{data}-{setting.way}way-{setting.shot}shot-seed{config.seed}")
