"""SIGKILL at random moments and at chosen system calls: the next call of the command ends as if nothing had been."""

import random
import shutil
import signal
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torture.campaign import Campaign, Case
from torture.making import (
    TINY,
    files_of,
    flags,
    trained_methods,
    unfinished,
    write_images,
    write_photos,
)
from torture.sandbox import call, die_at
from tpn.cli import main
from tpn.methods._registry import find_method

CALLS = ("fsync", "replace", "rename", "unlink", "mkdir", "open", "pwrite")
"""The system calls, as functions of `os`, at which a process is killed."""
MOST_KILLS = 6
"""In a row, before the command may end."""
LABEL = ("label", "copy", "embed")


@dataclass(frozen=True)
class Command:
    """A command line, and what it leaves that must be the same however often it was killed."""

    arguments: list[str]
    results: Callable[[Path], dict[str, bytes]]


class Kills(Campaign):
    """Kill a command several times in a row, then let it end; compare what it leaves with an undisturbed call."""

    name, wanted, slice = "kills", 300, 1

    def prepare(self) -> None:
        warnings.simplefilter("ignore")
        self.images, self.photos = self.workspace / "images", self.workspace / "photos"
        if not self.photos.is_dir():
            write_images(self.images)
            write_photos(self.photos)
        self.run_folder = self.workspace / "network"
        if not (self.run_folder / "model.safetensors").is_file():
            shutil.rmtree(self.run_folder, ignore_errors=True)
            data = {"data": f"folder:{self.images}", "cache": self.workspace / "cache"}
            code, printed = call(main, ["train", "tpn", *flags(**TINY, **data, out=self.run_folder)])
            assert code == 0, printed
        self.expected: dict[str, dict[str, bytes]] = {}

    def run(self, number: int, chance: random.Random) -> Case:
        kinds = [f"train {method}" for method in trained_methods()] + ["pretrain", "prepare", "paper", *LABEL]
        kind = kinds[number % len(kinds)]
        folder = self.workspace / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        kills = 0
        command = self.command(kind, folder)
        how = chance.choice(("moments", *CALLS))
        for _ in range(MOST_KILLS):
            code, _ = _kill(command.arguments, how, chance)
            if code != -signal.SIGKILL:
                break
            kills += 1
        _clear_copies(command.arguments)
        code, printed = call(main, command.arguments)
        case = Case(f"{kind}, killed {kills} times at {how}", max(1, kills), evidence=[folder])
        if code != 0:
            case.failures.append(f"the next call ended with code {code}: {printed[-500:]}")
            return case
        if kind not in self.expected:
            self.expected[kind] = self.undisturbed(kind)
        found = command.results(folder)
        if found != self.expected[kind]:
            differing = sorted(
                name for name in {*found, *self.expected[kind]} if found.get(name) != self.expected[kind].get(name)
            )
            case.failures.append(f"not the same: {', '.join(differing)}")
        if left := unfinished(folder):
            case.failures.append(f"left behind: {', '.join(left)}")
        return case

    def undisturbed(self, kind: str) -> dict[str, bytes]:
        """Return what the command leaves if it is not killed."""
        folder = self.workspace / "undisturbed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        command = self.command(kind, folder)
        code, printed = call(main, command.arguments)
        assert code == 0, printed
        return command.results(folder)

    def command(self, kind: str, folder: Path) -> Command:
        """Return a command that writes into a folder."""
        if kind.startswith("train") or kind == "pretrain":
            first = kind.split()
            settings: dict[str, Any] = {**TINY, "out": folder / "run", "resume": True}
            if kind == "pretrain" or find_method(first[1]).info.learns_from == "mini-batches":
                settings["batch_size"] = 8
            return Command([*first, *flags(**settings)], _results_of_a_run)
        if kind == "prepare":
            source = f"folder:{self.images}"
            return Command(["data", "prepare", source, *flags(image_size=16, cache=folder / "cache")], _store)
        if kind == "paper":
            budget = {"budget": "quick", "episodes": 4, "validations": 2, "validation_episodes": 2, "test_episodes": 4,
                      "image_size": 16, "methods": "protonet", "threads": 1, "out": folder / "paper"}  # fmt: skip
            return Command(["paper", "table1", *flags(**budget)], _numbers_of_paper)
        settings = {"backbone": self.run_folder, "cache": folder / "cache", "out": folder / "labels.csv", "force": True,
                    "threads": 1}  # fmt: skip
        if kind == "embed":
            settings["no_page"] = True
        if kind == "copy":
            shutil.rmtree(folder / "sorted", ignore_errors=True)
            settings |= {"copy_to": folder / "sorted", "suggest": 3}
        return Command(["label", str(self.photos), *flags(**settings)], _labels)


def _kill(arguments: list[str], how: str, chance: random.Random) -> tuple[int, str]:
    """Run a command that is killed after some time, or before or after one of its next system calls."""
    _clear_copies(arguments)
    if how == "moments":
        return call(main, arguments, kill_after=chance.expovariate(1 / 0.4))
    left, before = chance.randint(1, 25), chance.random() < 0.5

    def dying(arguments: list[str]) -> int:
        die_at(how, left, before)
        return main(arguments)

    return call(dying, arguments)


def _clear_copies(arguments: list[str]) -> None:
    """Remove the copies of a command that came to its end, or nearly: their folder must be new."""
    if "--copy-to" in arguments:
        shutil.rmtree(arguments[arguments.index("--copy-to") + 1], ignore_errors=True)


def _results_of_a_run(folder: Path) -> dict[str, bytes]:
    files = files_of(folder)
    return {name: files.get(f"run/{name}", b"") for name in ("config.json", "metrics.jsonl", "model.safetensors")}


def _store(folder: Path) -> dict[str, bytes]:
    return {Path(name).name: content for name, content in files_of(folder).items()}


def _numbers_of_paper(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in files_of(folder).items() if name.endswith((".csv", "model.safetensors"))}


def _labels(folder: Path) -> dict[str, bytes]:
    files = files_of(folder)
    return {name: content for name, content in files.items() if not name.startswith("cache/")}
