"""Wrong command lines, generated from the definitions of the options: each is refused in one paragraph, with code 2."""

import os
import random
import shutil
import warnings
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from torture.campaign import Campaign, Case
from torture.making import TINY, flags, trained_methods
from torture.sandbox import call, forked
from tpn.cli import COMMANDS, main
from tpn.cli.help import flag_name
from tpn.workflows.settings import method_settings

AT_ONCE = 20
MOST_SECONDS = 15
WRONG: dict[Any, tuple[str, ...]] = {
    int: ("x", "1.5", "", "-1000000", "9" * 40, "nan", "1e3", "--", "0x10"),
    float: ("x", "", "nan", "-1e9", "1e400", "1,5", "--", "[]"),
    Path: ("", "\0", "/proc/nowhere/file", "/dev/null/x"),
    str: ("", "\0", "nothing-of-this-name", "x" * 100_000, "../../../..", "💥"),
}
ODD = ("-", "--no-such-option", "-x", "--=", "", "--help=1", "\0", "--way=", "x" * 100_000)


@dataclass(frozen=True)
class Option:
    """An option of a command, and values that it cannot have."""

    flag: str
    wrong: tuple[str, ...]


class CommandLines(Campaign):
    """Each case tries several command lines in one process, of which each has one thing wrong."""

    name, wanted, slice = "commands", 2000, 1

    def prepare(self) -> None:
        warnings.simplefilter("ignore")
        self.run_folder = self.workspace / "run"
        if not (self.run_folder / "model.safetensors").is_file():
            code, printed = call(main, ["train", "tpn", *flags(**{**TINY, "episodes": 2}, out=self.run_folder)])
            assert code == 0, printed
        self.options = {name: options_of(name) for name in COMMANDS if name not in ("methods", "backbones", "data")}
        self.here = self.workspace / "here"

    def run(self, number: int, chance: random.Random) -> Case:
        shutil.rmtree(self.here, ignore_errors=True)
        self.here.mkdir()
        lines = [self.line(chance) for _ in range(AT_ONCE)]

        def work() -> list[str]:
            os.chdir(self.here)
            failures = []
            for line in lines:
                code, printed = call(main, line, most_seconds=MOST_SECONDS)
                said = " ".join(line)[:200]
                if code != 2:
                    failures.append(f"tpn {said!r} ended with code {code}: {printed[-300:]!r}")
                elif not printed.startswith("tpn: ") or len(printed.strip().splitlines()) != 1 or len(printed) > 6000:
                    failures.append(f"tpn {said!r} said {printed[:300]!r}")
            if left := os.listdir(self.here):
                failures.append(f"left behind: {left}")
            return failures

        ended = forked(work, 20.0 * AT_ONCE)
        case = Case(f"{AT_ONCE} wrong command lines", AT_ONCE)
        case.failures = ended.result or ([] if ended.code == 0 and not ended.traceback else [ended.traceback or "died"])
        return case

    def line(self, chance: random.Random) -> list[str]:
        """Return a command line with one thing wrong."""
        name = chance.choice(list(self.options))
        valid = self.valid(name, chance)
        kind = chance.random()
        if kind < 0.75:
            option = chance.choice([option for option in self.options[name] if option.wrong])
            return [*valid, f"--{option.flag}", chance.choice(option.wrong)]
        if kind < 0.85:
            option = chance.choice(self.options[name])
            return [*valid, f"--{option.flag}x", "1"]
        if kind < 0.95:
            return [*valid, chance.choice(ODD)] if chance.random() < 0.9 else [chance.choice(ODD)]
        return [chance.choice(("Train", "eval", "data", "paper")), "nothing-of-this-name"]

    def valid(self, name: str, chance: random.Random) -> list[str]:
        """Return a whole command, which would take long if it were not refused."""
        run = str(self.run_folder)
        method = chance.choice(trained_methods())
        return {
            "label": ["label", str(self.workspace), "--out", "labels.csv"],
            "predict": ["predict", run, "nothing.png", "--support", "nothing"],
            "train": ["train", method, "--out", "new"],
            "pretrain": ["pretrain", "--out", "new"],
            "splits": ["splits", "tpn-semi", "--out", "new"],
            "evaluate": ["evaluate", run, "--episodes", "100000"],
            "compare": ["compare", run, run],
            "paper": ["paper", "table1", "--out", "new"],
            "plot": ["plot", run, "--out", "new"],
            "benchmark": ["benchmark", run, "--out", "new"],
        }.get(name, [name])


def options_of(command: str) -> list[Option]:
    """Return the options of a command, from the dataclass that defines them."""
    from importlib import import_module

    module = import_module(f"tpn.cli.{command}")
    own = {key.lower(): value for key, value in vars(module).items() if isinstance(value, type)}
    kind = own.get(command) or own[f"{command}command"]  # Train, Label, …
    kinds = [kind, *([method_settings("tpn")] if command in ("train", "splits", "pretrain") else [])]
    found: dict[str, Option] = {}
    for one in kinds:
        _collect(one, found)
    return list(found.values())


def _collect(kind: Any, found: dict[str, Option]) -> None:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint = hints[field.name]
        plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if is_dataclass(plain):
            _collect(plain, found)
        elif not _is_positional(hint) and not isinstance(plain, str):
            found[flag_name(field)] = Option(flag_name(field), _wrong(plain))


def _is_positional(hint: Any) -> bool:
    return "Positional" in repr(hint) or "positional" in repr(hint).lower()


def _wrong(hint: Any) -> tuple[str, ...]:
    """Return values that no option of this type can have; none for a type that takes nearly everything."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _wrong(parts[0])
    if origin in (Union, UnionType):
        return _wrong(next(part for part in parts if part is not NoneType)) if len(parts) == 2 else ()
    if origin is tuple:
        return tuple(value for value in _wrong(parts[0]) if value != "--")
    if origin is Literal:
        return ("nothing-of-this-name", "", "1.5")
    return ("",) if hint in (Path, str) else WRONG.get(hint, ())
