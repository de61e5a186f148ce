"""Preflight checks, before a training writes anything, and notes to the user."""

import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from tpn.episodes.setting import Setting
from tpn.errors import TPNError, TPNWarning
from tpn.files import make_folder, resolved, sweep
from tpn.methods._config import ClassifierConfig
from tpn.methods._method import Info
from tpn.methods._registry import find_method
from tpn.progress import say
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run
from tpn.training.device import Execution
from tpn.training.loop import Callbacks, Outcome, train
from tpn.training.setup import Training, validation_setting
from tpn.training.validation import check_metrics
from tpn.training.warm_start import check_initial


def check(run: Run, config: RunConfig, execution: Execution, resume: bool) -> None:
    """Refuse to train in a folder with other content. Nothing is written here, and nothing is ever overwritten."""
    _, colon, path = config.data.partition(":")
    if colon and run.folder.resolve().is_relative_to(path):
        raise TPNError(f"{run.folder} lies among the images of {config.data}: choose another --out.")
    if find_method(config.method).info.unlabelled == "needs" and not config.episode.unlabelled:
        raise TPNError(f"{config.method} learns from unlabelled images: --unlabelled must be at least 1.")
    if config.episode.open_classes or config.episode.whole:
        flag = "--open-classes" if config.episode.open_classes else "--whole"
        raise TPNError(f"{flag} is for tests: training needs queries of the classes of an episode.")
    if run.exists:
        check_resuming(run, config, resume)
        return
    execution.processes.check(config.settings)
    check_initial(config)
    folder = resolved(run.folder)  # NEW/.. leads to a folder that exists, although NEW does not
    if folder.is_dir():
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise TPNError(f"{run.folder} exists, holds files and is not a run folder. Choose another --out.")
    elif folder.exists():
        raise TPNError(f"{run.folder} is a file. Choose another --out.")


def check_resuming(run: Run, config: RunConfig, resume: bool) -> None:
    """Refuse to change an existing run, except to resume it with its own settings."""
    if not resume:
        raise TPNError(f"The run folder {run.folder} exists. Continue it with --resume, or choose another with --out.")
    before = replace(run.read_config(), data=config.data, init=config.init)  # both may have moved
    if before.data_digest != config.data_digest:
        raise TPNError(
            f"The run in {run.folder} was begun with other images than those that {config.data} has now. "
            "Restore them, or give the --data, --image-size and --class-seed of the run, or choose another --out."
        )
    settings = config.settings
    longer: dict[str, Any] = {
        "episodes": max(before.settings.episodes, settings.episodes),
        "patience": settings.patience,
    }
    if differences := replace(before, settings=replace(before.settings, **longer)).differences(config):
        raise TPNError(
            f"{run.folder} belongs to other settings: {'; '.join(differences)}. "
            "Resume it without changing them, or choose another --out."
        )


def train_in_folder(training: Training, callbacks: Callbacks = Callbacks()) -> Outcome:  # noqa: B008
    """Train in the run folder, which the first of several processes locks for all of them."""
    run, first = training.run, training.execution.processes.first
    make_folder(run.folder)
    with run.claimed() if first else nullcontext():
        if first:
            sweep(run.folder)
        training.restore()
        check_metrics(run, training.state.validations)
        if first:
            announce(training)
        return train(training, callbacks)


def announce(training: Training) -> None:
    """Print what is about to be trained, and notes on what may be unexpected."""
    run, config, state = training.run, training.config, training.state
    if run.exists and (changes := run.changed_circumstances(training.execution.facts)):
        say(f"Note: {'; '.join(changes)}, so this may not end in exactly the weights of an uninterrupted run.")
    longer = run.exists and run.read_config().settings.episodes != config.settings.episodes
    if longer and config.settings.schedule != "halve":
        say("Note: the number of episodes has changed, and with it the schedule of the learning rate.")
    way = validation_setting(config, training.validation).way
    if way != config.episode.way:
        say(f"Note: there are only {way} validation classes, so validation is {way}-way.")
    warn_of_unlabelled(find_method(config.method).info, config.episode)
    what = f"{config.episode}, {config.settings.episodes} episodes"
    if isinstance(config.settings, ClassifierConfig):
        batches = f"{config.settings.episodes} mini-batches of {config.settings.batch_size} images"
        what = f"{config.train_classes} classes, {batches}, validated on {config.episode}"
    start = f", from the weights of {config.init}" if config.init else ""
    start = f", from episode {state.episode} on" if state.episode else start
    say(f"Training {config.method} on {config.data}, {what}{start}, in {run.folder}")


def warn_of_unlabelled(info: Info, setting: Setting) -> None:
    """Warn if a method ignores unlabelled images, or lacks them."""
    if setting.unlabelled and info.unlabelled == "ignores":
        warnings.warn(f"{info.name} ignores unlabelled images; --unlabelled has no effect.", TPNWarning, stacklevel=2)
    if not setting.unlabelled and info.unlabelled == "needs":
        warnings.warn(
            f"{info.name} is made for unlabelled images, but there are none: give --unlabelled, for example 20.",
            TPNWarning,
            stacklevel=2,
        )
