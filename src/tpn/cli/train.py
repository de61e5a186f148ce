"""tpn train: train a method by episodes."""

import re
import shlex
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from tpn.cli.machine import TrainingMachineOptions
from tpn.cli.parsing import Flag, SettingOfRun, parse, say
from tpn.cli.pictures import PictureOptions
from tpn.cli.session import describe_setting, warn_of_unlabelled
from tpn.episodes import Sampler, Setting
from tpn.errors import TPNError
from tpn.evaluation.intervals import percent
from tpn.files import UNFINISHED, make_folder, resolved, sweep
from tpn.images import Images, check_size
from tpn.methods import Config, Dimensions, all_methods, build_method, find_method
from tpn.methods.base_classes import BaseClassConfig
from tpn.progress import clock
from tpn.training.checkpoint import State
from tpn.training.initial import check_initial, weights_digest
from tpn.training.loop import Outcome, train, training_sampler, validation_setting
from tpn.training.machine import Machine
from tpn.training.run import Run, RunConfig

LONGEST_NAME = 40
UNLABELLED = 5
"""Unlabelled pictures of each class that semi-supervised methods are trained with if not said otherwise."""

AnyConfig = TypeVar("AnyConfig", bound=Config)
AnySetting = TypeVar("AnySetting", bound=Setting)


@dataclass(frozen=True, kw_only=True)
class Train(TrainingMachineOptions, PictureOptions, Generic[AnyConfig, AnySetting]):
    """Train a few-shot method by episodes drawn from the training classes.

    Writes a run folder with the settings, a line of metrics per validation, the weights that were best on the
    validation classes, and what resuming needs. Ctrl-C saves and ends; `--resume` goes on exactly where it was.
    """

    settings: AnyConfig
    episode: AnySetting
    data: str = "quickdraw"
    """Where the pictures come from: quickdraw (which ships with the package), mini-imagenet:PATH, tiered-imagenet:PATH
    or folder:PATH. `tpn data --help` says more."""
    seed: int = 0
    """Decides the initial weights and the episodes: the same seed gives the same run."""
    out: Path | None = None
    """The run folder; if not given, one in runs/ named after the settings."""
    resume: Flag = False
    """Continue the run in --out (what is not given is as it was there, but for --threads, --device, --precision and
    --compile), or begin it if it does not exist. With more --episodes, or more --patience after a plateau, it trains
    on."""
    init: Path | None = None
    """Start from the best weights of this run: its backbone and, if it is a run of the same method, all that fits.
    What is not given is as there: the backbone, the pictures and their size. `tpn pretrain` makes such a run."""

    @property
    def first_run(self) -> Path:
        """The run whose settings are taken over when resuming."""
        assert self.out is not None
        return self.out

    @property
    def remembered(self) -> dict[str, Any]:
        """The options of the command itself that are taken over when resuming, if its folder tells of any."""
        return {}


def main(arguments: list[str]) -> int:
    name, arguments = split_method(Train, "tpn train", arguments)
    options = read_options(Train, f"tpn train {name}", name, arguments)
    return train_and_report(name, options)


def train_and_report(name: str, options: Train[Any, Setting]) -> int:
    """Train the method of this name as the options say."""
    machine = options.prepare()
    images, config = configure(name, options)
    run = Run(options.out or default_folder(config))
    check(run, config, options.resume, images, machine)
    return report(carry_out(run, config, images, machine), run, config)


def split_method(kind: Any, prog: str, arguments: list[str]) -> tuple[str, list[str]]:
    """The method that is named first, and the other arguments. Without a method, the help that holds for all."""
    names = ", ".join(all_methods())
    if not arguments or arguments[0] in ("-h", "--help"):
        parse(kind[Config, Setting], f"{prog} {{{names}}}", arguments or ["--help"])
    if arguments[0].startswith("-"):
        raise TPNError(f"Name the method first: {prog} METHOD {' '.join(arguments)}. The methods are: {names}.")
    return arguments[0], arguments[1:]


def configure(name: str, options: Train[Any, Setting]) -> tuple[Images, RunConfig]:
    """Open the pictures, and put together what decides the outcome of the run."""
    check_size(options.image_size)
    if options.image_size is not None:  # refuse what no network takes before pictures are prepared for it
        build_method(name, options.settings, Dimensions(3, options.image_size, way=2, shot=1, train_classes=2))
    images = options.open(options.data)
    return images, RunConfig(
        method=name,
        settings=options.settings,
        episode=options.episode,
        data=images.spec,
        image_size=images.image_size,
        channels=images.channels,
        train_classes=len(images.split("train").classes),
        mean=images.mean,
        std=images.std,
        pictures=images.digest,
        class_seed=options.class_seed,
        seed=options.seed,
        init=None if options.init is None else str(resolved(options.init)),
        init_weights=initial_weights(options),
    )


def initial_weights(options: Train[Any, Setting]) -> str:
    """A digest of the weights to start from; a run to be resumed knows those that it has started from."""
    if options.init is None:
        return ""
    if options.resume and options.out is not None and Run(options.first_run).exists:
        before = Run(options.first_run).read_config()
        if before.init is None:
            raise TPNError(f"{options.out} was not begun with --init: resume it without.")
        if before.init == str(resolved(options.init)):
            return before.init_weights
    return weights_digest(options.init)


def carry_out(run: Run, config: RunConfig, images: Images, machine: Machine) -> Outcome:
    """Train in the run's folder."""
    make_folder(run.folder)
    with run.claimed():
        sweep(run.folder)
        return train(run, config, images, machine, lambda state: begin(run, config, images, machine, state))


def read_options(kind: Any, prog: str, name: str, arguments: list[str]) -> Any:
    """The options given, on top of the method's defaults or, when resuming, of the run's own settings.

    The dataclass of the options is `kind`, which is generic in the settings of the method and in those of an episode.
    """
    settings = find_method(name).Config
    unlabelled = UNLABELLED if find_method(name).info.unlabelled == "needs" else 0
    flags = {argument.partition("=")[0] for argument in arguments}
    a_setting = SettingOfRun if "--resume" in flags else Setting
    a_config = unchecked(settings) if flags & {"--resume", "--init"} else settings
    defaults = kind[a_config, a_setting](settings=a_config(), episode=a_setting(unlabelled=unlabelled))
    given = parse(kind[a_config, a_setting], prog, arguments, defaults)
    start = kind[settings, Setting](settings=settings(), episode=Setting(unlabelled=unlabelled), out=given.out)
    if given.resume and given.out is not None and Run(given.first_run).exists:
        before = Run(given.first_run).read_config()
        if before.method != name:
            raise TPNError(f"{given.out} is a run of {before.method}, not of {name}: it cannot be resumed as such.")
        start = replace(
            start,
            settings=before.settings,
            episode=before.episode,
            data=before.data,
            image_size=before.image_size,
            class_seed=before.class_seed,
            seed=before.seed,
            init=None if before.init is None else Path(before.init),
            **given.remembered,
        )
    elif given.init is not None:
        source = Run(given.init).read_config()
        start = replace(
            start,
            settings=replace(start.settings, backbone=source.settings.backbone),
            data=source.data,
            image_size=source.image_size,
            class_seed=source.class_seed,
        )
    return parse(kind[settings, Setting], prog, arguments, start)


def unchecked(settings: type[Config]) -> type[Config]:
    """The same settings, not judged: those of the run that they are to be added to are still to come."""
    return type(settings.__name__, (settings,), {"__doc__": settings.__doc__, "__post_init__": lambda self: None})


def default_folder(config: RunConfig) -> Path:
    """runs/tpn-quickdraw-5way-5shot-seed0."""
    setting = config.episode
    kind, _, path = config.data.partition(":")
    name = re.sub(r"\.(zip|tar|tgz|tar\.\w+)$", "", Path(path).name)[:LONGEST_NAME]
    data = f"{kind}-{name}" if kind == "folder" else kind
    return Path("runs", f"{config.method}-{data}-{setting.way}way-{setting.shot}shot-seed{config.seed}")


def check(run: Run, config: RunConfig, resume: bool, images: Images, machine: Machine) -> None:
    """Refuse what cannot be trained, or not there. Nothing is written yet, and nothing is ever overwritten."""
    machine.prepare(build_method(config.method, config.settings, config.dimensions))
    _, colon, path = config.data.partition(":")
    if colon and run.folder.resolve().is_relative_to(path):
        raise TPNError(f"{run.folder} lies among the pictures of {config.data}: choose another --out.")
    if find_method(config.method).info.unlabelled == "needs" and not config.episode.unlabelled:
        raise TPNError(f"{config.method} learns from unlabelled pictures: --unlabelled must be at least 1.")
    validation = images.split("val")
    training_sampler(config, images.split("train"))
    Sampler(validation, validation_setting(config, validation), config.seed)
    if run.exists:
        check_continuing(run, config, resume)
        return
    check_initial(config)
    if run.folder.is_dir():
        if any(path.suffix != UNFINISHED for path in run.folder.iterdir()):
            raise TPNError(f"{run.folder} exists, holds files and is not a run folder. Choose another --out.")
    elif run.folder.exists():
        raise TPNError(f"{run.folder} is a file. Choose another --out.")


def check_continuing(run: Run, config: RunConfig, resume: bool) -> None:
    """Refuse to touch a run that is there already, but to continue it as it was begun."""
    if not resume:
        raise TPNError(f"The run folder {run.folder} exists. Continue it with --resume, or choose another with --out.")
    before = replace(run.read_config(), data=config.data, init=config.init)  # they may have been moved
    if before.pictures != config.pictures:
        raise TPNError(
            f"The run in {run.folder} was begun with other pictures than those that {config.data} has now. "
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
    what = f"{describe_setting(config.episode)}, {config.settings.episodes} episodes"
    if isinstance(config.settings, BaseClassConfig):
        batches = f"{config.settings.episodes} mini-batches of {config.settings.batch_size} pictures"
        what = f"{config.train_classes} classes, {batches}, validated on {describe_setting(config.episode)}"
    start = f", from the weights of {config.init}" if config.init else ""
    start = f", from episode {state.episode} on" if state.episode else start
    say(f"Training {config.method} on {config.data}, {what}{start}, in {run.folder}")


def exit_code(outcome: Outcome) -> int:
    """That of a process which a signal has ended, if one has."""
    return 0 if outcome.stopped_by is None else 128 + signal.Signals(outcome.stopped_by)


def report(outcome: Outcome, run: Run, config: RunConfig) -> int:
    """Say how it ended, and what can be done next."""
    state = outcome.state
    folder = shlex.quote(str(run.folder))
    if outcome.stopped_by is not None:
        again = f"tpn train {config.method} --out {folder} --resume"
        say(f"Stopped and saved at episode {state.episode}. Go on with: {again}")
        return exit_code(outcome)
    why = " (validation has reached a plateau)" if outcome.plateau else ""
    one, several = find_method(config.method).info.counted_in
    print(
        f"Trained {config.method} for {state.episode} {several}{why} in {clock(state.seconds)}. "
        f"Best on validation: {percent(state.best_accuracy, None)} at {one} {state.best_episode}.\n"
        f"The run is in {run.folder}. Test it with: tpn evaluate {folder}"
    )
    if find_method(config.method).info.learns_from == "classes":
        print(f"Train on from its weights, by episodes, with: tpn train tpn --init {folder}")
    return 0
