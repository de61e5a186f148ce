"""Beginning a training, or going on with one: what is refused before anything is written, and what is said."""

import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.errors import TPNError, TPNWarning
from tpn.files import make_folder, sweep
from tpn.images.split import Images
from tpn.methods._method import Info
from tpn.methods._registry import build_method, find_method
from tpn.methods.classifier_baseline import BaseClassConfig
from tpn.progress import say
from tpn.runs.folder import Run, RunConfig
from tpn.training.checkpoint import State
from tpn.training.device import Machine
from tpn.training.loop import Outcome, train, training_sampler, validation_setting
from tpn.training.warm_start import check_initial


def check(run: Run, config: RunConfig, resume: bool, images: Images, machine: Machine) -> None:
    """Refuse what cannot be trained, or not there. Nothing is written yet, and nothing is ever overwritten."""
    machine.prepare(build_method(config.method, config.settings, config.dimensions))
    _, colon, path = config.data.partition(":")
    if colon and run.folder.resolve().is_relative_to(path):
        raise TPNError(f"{run.folder} lies among the images of {config.data}: choose another --out.")
    if find_method(config.method).info.unlabelled == "needs" and not config.episode.unlabelled:
        raise TPNError(f"{config.method} learns from unlabelled images: --unlabelled must be at least 1.")
    validation = images.split("val")
    training_sampler(config, images.split("train"))
    EpisodeSampler(validation, validation_setting(config, validation), config.seed)
    if run.exists:
        check_continuing(run, config, resume)
        return
    machine.processes.check(config.settings)
    check_initial(config)
    if run.folder.is_dir():
        if any(not path.name.startswith(".") for path in run.folder.iterdir()):
            raise TPNError(f"{run.folder} exists, holds files and is not a run folder. Choose another --out.")
    elif run.folder.exists():
        raise TPNError(f"{run.folder} is a file. Choose another --out.")


def check_continuing(run: Run, config: RunConfig, resume: bool) -> None:
    """Refuse to touch a run that is there already, but to continue it as it was begun."""
    if not resume:
        raise TPNError(f"The run folder {run.folder} exists. Continue it with --resume, or choose another with --out.")
    before = replace(run.read_config(), data=config.data, init=config.init)  # they may have been moved
    if before.data_digest != config.data_digest:
        raise TPNError(
            f"The run in {run.folder} was begun with other images than those that {config.data} has now. "
            "Bring them back (--data, --image-size and --class-seed decide), or choose another --out."
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


def carry_out(run: Run, config: RunConfig, images: Images, machine: Machine) -> Outcome:
    """Train in the run's folder, which the first of several processes holds for all of them."""
    make_folder(run.folder)
    with run.claimed() if machine.processes.first else nullcontext():
        if machine.processes.first:
            sweep(run.folder)
        return train(run, config, images, machine, lambda state: begin(run, config, images, machine, state))


def begin(run: Run, config: RunConfig, images: Images, machine: Machine, state: State) -> None:
    """All that there was could be read: write the settings down, and say what is about to happen."""
    if run.exists and (changes := run.changed_circumstances(machine)):
        say(f"Note: {'; '.join(changes)}, so this may not end in exactly the weights of an unbroken run.")
    longer = run.exists and run.read_config().settings.episodes != config.settings.episodes
    if longer and config.settings.schedule != "halve":
        say("Note: the learning rate now falls towards the new end, so this is not as one training of that length.")
    if not run.exists or run.read_config() != config:
        run.write_config(config, machine)
    way = validation_setting(config, images.split("val")).way
    if way != config.episode.way:
        say(f"Note: there are no more than {way} classes to validate on, so validation is {way}-way.")
    warn_of_unlabelled(find_method(config.method).info, config.episode)
    what = f"{config.episode}, {config.settings.episodes} episodes"
    if isinstance(config.settings, BaseClassConfig):
        batches = f"{config.settings.episodes} mini-batches of {config.settings.batch_size} images"
        what = f"{config.train_classes} classes, {batches}, validated on {config.episode}"
    start = f", from the weights of {config.init}" if config.init else ""
    start = f", from episode {state.episode} on" if state.episode else start
    say(f"Training {config.method} on {config.data}, {what}{start}, in {run.folder}")


def warn_of_unlabelled(info: Info, setting: Setting) -> None:
    """Say so if unlabelled images are there for nothing, or missing."""
    if setting.unlabelled and info.unlabelled == "ignores":
        warnings.warn(f"{info.name} makes nothing of the images of --unlabelled.", TPNWarning, stacklevel=2)
    if not setting.unlabelled and info.unlabelled == "needs":
        warnings.warn(
            f"{info.name} is made for unlabelled images, and there are none: give --unlabelled, for example 20.",
            TPNWarning,
            stacklevel=2,
        )
