"""The folder of a training run.

    config.json             what was trained, on what, how
    metrics.jsonl           a line per validation
    model.safetensors       the weights that were best on validation
    checkpoint.safetensors  what resuming needs

Nothing in it is a pickle: reading a run executes no code.
"""

import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import tpn
from tpn.episodes import Setting
from tpn.errors import TPNError
from tpn.files import read_json, write_json
from tpn.methods import Config, Dimensions, Method, build_method, find_method
from tpn.training.settings import from_json
from tpn.training.tensors import read_tensors, write_tensors

if sys.platform != "win32":
    import fcntl

FORMAT = 1
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
    seed: int

    @property
    def dimensions(self) -> Dimensions:
        """What the network is built for."""
        return Dimensions(self.channels, self.image_size, self.episode.way, self.episode.shot, self.train_classes)

    def differences(self, other: "RunConfig") -> list[str]:
        """The settings in which two runs differ, in words."""
        mine, others = flatten(asdict(self)), flatten(asdict(other))
        return [
            f"{name} is {others.get(name)}, not {mine.get(name)}"
            for name in {**mine, **others}
            if mine.get(name) != others.get(name)
        ]


def circumstances() -> dict[str, Any]:
    """With what a run is written."""
    return {
        "tpn": tpn.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
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

    def write_config(self, config: RunConfig) -> None:
        write_json(self.config_file, {"format": FORMAT, **asdict(config), "written_with": circumstances()})

    def changed_circumstances(self) -> list[str]:
        """What is different now from when the run began, and may make its continuation differ in the last digits."""
        before, now = read_json(self.config_file).get("written_with", {}), circumstances()
        return [
            f"{name} was {before.get(name)} and is {now[name]}"
            for name in ("torch", "threads")
            if before.get(name) != now[name]
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
            lines = self.metrics_file.read_bytes().splitlines()
        except OSError as failure:
            raise TPNError(f"Cannot read {self.metrics_file}: {failure.strerror}.") from failure
        metrics = []
        for number, line in enumerate(lines, 1):
            try:
                metrics.append({"episode": 0, **json.loads(line)})
            except (ValueError, TypeError) as failure:
                raise TPNError(
                    f"{self.metrics_file} is damaged in line {number}: it is not a JSON object."
                ) from failure
        return metrics

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the folder, so that no second process trains in it at the same time."""
        if sys.platform == "win32":  # it has no such locks
            yield
            return
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TPNError(
                    f"Another process is training in {self.folder}. Wait for it, or stop it first."
                ) from None
            yield
        finally:
            os.close(handle)


def load(folder: str | os.PathLike[str]) -> Method:
    """The method that was trained in a run folder, with its best weights, ready to be used.

    >>> import tpn
    >>> method = tpn.load("runs/quickdraw")
    """
    run = Run(folder)
    config = run.read_config()
    method = build_method(config.method, config.settings, config.dimensions)
    if not run.model_file.is_file():
        raise TPNError(
            f"{run.folder} has no weights yet: it was stopped before its first validation. "
            "Continue it with `tpn train ... --resume`."
        )
    tensors, _ = read_tensors(run.model_file)
    load_weights(method, tensors, run.model_file)
    return method.eval()


def load_weights(method: Method, tensors: dict[str, torch.Tensor], source: Path) -> None:
    """Put tensors into a method of the same shape, keeping the method's memory layout."""
    try:
        method.load_state_dict(tensors)
    except RuntimeError as failure:
        reason = " ".join(str(failure).split())
        raise TPNError(f"{source} does not fit the settings of its run: {reason}") from failure


def save_weights(method: Method, path: Path, facts: dict[str, Any]) -> None:
    """Write a method's weights."""
    write_tensors(path, method.state_dict(), facts)
