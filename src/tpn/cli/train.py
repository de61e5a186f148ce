"""tpn train: train a method by episodes."""

import re
import shlex
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from tpn.cli.device_options import TrainingMachineOptions
from tpn.cli.image_options import ImageOptions
from tpn.cli.parsing import Flag, SettingOfRun, parse
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.evaluation.intervals import percent
from tpn.files import resolved
from tpn.images.source_names import check_size
from tpn.images.split import Images
from tpn.methods._config import Config
from tpn.methods._method import Dimensions
from tpn.methods._registry import all_methods, build_method, find_method
from tpn.progress import clock, say
from tpn.runs.folder import Run, RunConfig, find_run
from tpn.training.loop import Outcome
from tpn.training.preflight import carry_out, check
from tpn.training.warm_start import weights_digest

LONGEST_NAME = 40
UNLABELLED = 5
"""Unlabelled images of each class that semi-supervised methods are trained with if not said otherwise."""

AnyConfig = TypeVar("AnyConfig", bound=Config)
AnySetting = TypeVar("AnySetting", bound=Setting)


@dataclass(frozen=True, kw_only=True)
class Train(TrainingMachineOptions, ImageOptions, Generic[AnyConfig, AnySetting]):
    """Train a few-shot method by episodes drawn from the training classes.

    Writes a run folder with the settings, a line of metrics per validation, the weights that were best on the
    validation classes, and what resuming needs. Ctrl-C saves and ends; `--resume` goes on exactly where it was.
    """

    settings: AnyConfig
    episode: AnySetting
    data: str = "quickdraw"
    """Where the images come from: quickdraw (which ships with the package), mini-imagenet:PATH, tiered-imagenet:PATH
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
    What is not given is as there: the backbone, the images and their size. `tpn pretrain` makes such a run."""

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
    outcome = carry_out(run, config, images, machine)
    code = report(outcome, run, config) if machine.processes.first else exit_code(outcome)
    return machine.processes.leave(code)


def split_method(kind: Any, prog: str, arguments: list[str]) -> tuple[str, list[str]]:
    """The method that is named first, and the other arguments. Without a method, the help that holds for all."""
    names = ", ".join(all_methods())
    if not arguments or arguments[0] in ("-h", "--help"):
        parse(kind[Config, Setting], f"{prog} {{{names}}}", arguments or ["--help"])
    if arguments[0].startswith("-"):
        raise TPNError(f"Name the method first: {prog} METHOD {' '.join(arguments)}. The methods are: {names}.")
    return arguments[0], arguments[1:]


def configure(name: str, options: Train[Any, Setting]) -> tuple[Images, RunConfig]:
    """Open the images, and put together what decides the outcome of the run."""
    check_size(options.image_size)
    if options.image_size is not None:  # refuse what no network takes before images are prepared for it
        build_method(name, options.settings, Dimensions(3, options.image_size, way=2, shot=1, train_classes=2))
    images = options.open(options.data)
    return images, RunConfig.on(
        images,
        method=name,
        settings=options.settings,
        episode=options.episode,
        class_seed=options.class_seed,
        seed=options.seed,
        init=initial_folder(options.init),
        init_weights=initial_weights(options),
    )


def initial_folder(init: Path | None) -> str | None:
    """Where the run to start from lies, whatever the folder that the command is called in."""
    return None if init is None else str(resolved(find_run(init).folder))


def initial_weights(options: Train[Any, Setting]) -> str:
    """A digest of the weights to start from; a run to be resumed knows those that it has started from."""
    if options.init is None:
        return ""
    if options.resume and options.out is not None and Run(options.first_run).exists:
        before = Run(options.first_run).read_config()
        if before.init is None:
            raise TPNError(f"{options.out} was not begun with --init: resume it without.")
        if before.init == initial_folder(options.init):
            return before.init_weights
    return weights_digest(options.init)


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
        source = find_run(given.init).read_config()
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
