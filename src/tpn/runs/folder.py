"""The folder of a training run.

    config.json             what was trained, on what, how
    metrics.jsonl           a line per validation
    model.safetensors       the weights that were best on validation
    checkpoint.safetensors  what resuming needs

Nothing in it is a pickle: reading a run executes no code.
"""

import hashlib
import json
import math
import os
import platform
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

import tpn
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.files import holding, read_json, write_json
from tpn.images.split import Images
from tpn.methods._config import Config
from tpn.methods._method import Dimensions, Method
from tpn.methods._registry import build_method, find_method
from tpn.training.device import Machine
from tpn.runs.settings_json import from_json
from tpn.runs.tensors import not_finite, read_tensors, write_tensors

FORMAT = 4
SHIPPED = Path(tpn.__file__).parent / "weights"
"""Runs that come with the package, without what resuming would need."""
UNTIL: dict[str, Any] = {"episodes": 1, "patience": 0}
"""Settings that say when a training ends; a training that goes on may change them."""
ABOUT = ("format", "written_with")
"""What config.json says besides the settings."""


@dataclass(frozen=True)
class RunConfig:
    """What was trained, on what, how: all that decides the outcome of a run."""

    method: str
    settings: Config
    episode: Setting
    data: str
    image_size: int
    channels: int
    train_classes: int
    mean: tuple[float, ...]
    """Of the training images, in each channel, for values of 0 to 1."""
    std: tuple[float, ...]
    data_digest: str
    """A digest of the images: with others, it would be another run."""
    class_seed: int
    seed: int
    init: str | None = None
    """The run whose weights it started from."""
    init_weights: str = ""
    """A digest of those weights."""

    def __post_init__(self) -> None:
        for name, least in (("image_size", 1), ("channels", 1), ("train_classes", 1)):
            if getattr(self, name) < least:
                raise TPNError(f"{name} must be at least {least}, not {getattr(self, name)}.")
        if len(self.mean) != self.channels or len(self.std) != self.channels:
            raise TPNError(f"mean and std must have a number for each of the {self.channels} channels.")

    @classmethod
    def on(cls, images: Images, **settings: Any) -> "RunConfig":
        """The settings of a run on these images: what is given, and what the images say."""
        return cls(
            data=images.spec,
            image_size=images.image_size,
            channels=images.channels,
            train_classes=len(images.split("train").classes),
            mean=images.mean,
            std=images.std,
            data_digest=images.digest,
            **settings,
        )

    @property
    def digest(self) -> str:
        """What ties weights to their run: its settings, but for where things lie and when to stop."""
        content = asdict(replace(self, data="", init=None, settings=replace(self.settings, **UNTIL)))
        content["pictures"] = content.pop("data_digest")
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def dimensions(self) -> Dimensions:
        """What the network is built for."""
        way, shot = self.episode.way, self.episode.shot
        return Dimensions(self.channels, self.image_size, way, shot, self.train_classes, self.mean, self.std)

    def differences(self, other: "RunConfig") -> list[str]:
        """The settings in which two runs differ, in words."""
        mine, others = flatten(asdict(self)), flatten(asdict(other))
        return [
            f"{name} is {others.get(name)}, not {mine.get(name)}"
            for name in {**mine, **others}
            if mine.get(name) != others.get(name)
        ]


def circumstances(machine: Machine) -> dict[str, Any]:
    """With what a run is trained: these, but for the first two, may change its last digits, or more."""
    return {
        "tpn": tpn.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        **machine.facts,
    }


def flatten(nested: dict[str, Any]) -> dict[str, Any]:
    """Settings without the groups they are in."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        flat.update(flatten(value) if isinstance(value, dict) else {name.replace("_", "-"): value})
    return flat


class Run:
    """A run folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.config_file = self.folder / "config.json"
        self.metrics_file = self.folder / "metrics.jsonl"
        self.model_file = self.folder / "model.safetensors"
        self.checkpoint_file = self.folder / "checkpoint.safetensors"

    @property
    def exists(self) -> bool:
        """Has a training begun here?"""
        return self.config_file.is_file()

    def write_config(self, config: RunConfig, machine: Machine) -> None:
        write_json(self.config_file, {"format": FORMAT, **asdict(config), "written_with": circumstances(machine)})

    def changed_circumstances(self, machine: Machine) -> list[str]:
        """What is different now from when the run began, and may make its continuation differ."""
        before, now = read_json(self.config_file).get("written_with"), circumstances(machine)
        if not isinstance(before, dict):
            return ["it is not known with what the run was begun"]
        before = {"processes": 1, **before}
        return [
            f"{name} was {before.get(name)} and is {now[name]}"
            for name in now
            if name not in ("tpn", "python") and before.get(name) != now[name]
        ]

    def read_config(self) -> RunConfig:
        """The settings of this run."""
        if not self.exists:
            there = "is not a run folder: it has no config.json" if self.folder.is_dir() else "does not exist"
            raise TPNError(f"{self.folder} {there}. A run folder is what `tpn train` writes to its --out.")
        content = read_json(self.config_file)
        if content.get("format") != FORMAT:
            raise TPNError(
                f"{self.config_file} has the format {content.get('format')!r}; this version of tpn reads {FORMAT}."
            )
        if "pictures" in content:
            content["data_digest"] = content.pop("pictures")
        try:
            kind = find_method(str(content.get("method"))).Config
            groups = {"settings": kind, "episode": Setting}
            for name, group in groups.items():
                content[name] = from_json(group, content.get(name))
            return from_json(RunConfig, {name: value for name, value in content.items() if name not in ABOUT})
        except TPNError as failure:
            raise TPNError(f"{self.config_file} is damaged: {failure}") from failure

    def read_metrics(self) -> list[dict[str, Any]]:
        """What each validation showed."""
        try:
            return read_metrics(self.metrics_file.read_bytes(), self.metrics_file)
        except OSError as failure:
            raise TPNError(f"Cannot read {self.metrics_file}: {failure.strerror}.") from failure

    def read_weights(self, config: RunConfig) -> dict[str, torch.Tensor]:
        """The best weights of this run."""
        if not self.model_file.is_file():
            raise TPNError(
                f"{self.folder} has no weights (model.safetensors): either it was stopped before its first validation, "
                "and `tpn train ... --resume` will write them, or they were removed, and it must be trained anew."
            )
        tensors, facts = read_tensors(self.model_file)
        if facts.get("run") != config.digest:
            raise TPNError(f"{self.model_file} belongs to another run than the config.json beside it.")
        return tensors

    def claimed(self) -> AbstractContextManager[None]:
        """Hold the folder, so that no second process trains in it at the same time."""
        return holding(self.folder, f"Another process is training in {self.folder}. Wait for it, or stop it first.")


def find_run(name: str | os.PathLike[str]) -> Run:
    """A run to be read: the run folder of this name or, if there is none, the weights of this name in the package."""
    run, shipped = Run(name), Run(SHIPPED / os.fspath(name))
    return shipped if not run.exists and shipped.folder.parent == SHIPPED and shipped.exists else run


def load(folder: str | os.PathLike[str], as_method: str | None = None) -> Method:
    """The method that was trained in a run folder, with its best weights, ready to be used.

    `mini-conv4` is the TPN that comes with the package, trained on miniImageNet (see weights/README.md). `as_method`
    gives another method with the same weights: prototypes learned by `protonet` can be refined by `soft-kmeans`.

    >>> import tpn
    >>> method = tpn.load("runs/quickdraw")
    """
    run = find_run(folder)
    config = run.read_config()
    name = as_method or config.method
    weights = run.read_weights(config)  # which refuses settings that are not those of the weights
    method = build_method(name, settings_for(name, config.settings), config.dimensions)
    if name != config.method and weights.keys() != method.state_dict().keys():
        raise TPNError(f"{folder} is a run of {config.method}, which has other weights than {name} needs.")
    load_weights(method, weights, run.model_file)
    return method.eval()


def settings_for(name: str, settings: Config) -> Config:
    """These settings, as far as they mean the same to a method, with its own defaults for the others."""
    kind = find_method(name).Config
    shared = next(base for base in kind.__mro__ if issubclass(base, Config) and isinstance(settings, base))
    return kind(**{field.name: getattr(settings, field.name) for field in fields(shared)})


def load_weights(method: Method, tensors: dict[str, torch.Tensor], source: Path) -> None:
    """Put tensors into a method of the same shape, keeping the method's memory layout."""
    if broken := not_finite(tensors):
        raise TPNError(f"{source} is damaged: {broken} is not finite.")
    for name, tensor in method.state_dict().items():
        if name in tensors and tensors[name].dtype != tensor.dtype:
            raise TPNError(f"{source} is damaged: {name} is of type {tensors[name].dtype}, not {tensor.dtype}.")
    try:
        method.load_state_dict(tensors)
    except RuntimeError as failure:
        reason = " ".join(str(failure).split())
        raise TPNError(f"{source} does not fit the settings of its run: {reason}") from failure


def save_weights(method: Method, path: Path, facts: dict[str, Any]) -> None:
    """Write a method's weights."""
    write_tensors(path, method.state_dict(), facts)


def read_metrics(content: bytes, source: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl, checked."""
    metrics = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            figures = json.loads(line)
            whole = isinstance(figures["episode"], int) and figures["val_accuracy"] is not None
            whole = whole and all(value is None or math.isfinite(value) for value in figures.values())
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            whole = False
        if not whole:
            raise TPNError(f"{source} is damaged in line {number}: it does not tell of a validation.")
        metrics.append(figures)
    return metrics
