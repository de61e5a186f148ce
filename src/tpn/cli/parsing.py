"""Options from dataclasses: a documented field is a flag."""

import io
import sys
from contextlib import redirect_stderr
from dataclasses import dataclass
from typing import Any, TypeVar

import tyro

from tpn.episodes import Setting
from tpn.errors import TPNError

Options = TypeVar("Options")
Flag = tyro.conf.FlagCreatePairsOff[bool]


@dataclass(frozen=True)
class SettingOfRun(Setting):
    """What an episode is made of. What is not given is as in the run, whatever default is shown here."""

    def __post_init__(self) -> None:
        """Nothing to judge yet: the settings of the run are still to come."""


def parse(kind: Any, prog: str, arguments: list[str], default: Options | None = None) -> Any:
    """Read a command line into the dataclass `kind`; fields that it leaves out are as in `default`."""
    messages = io.StringIO()
    try:
        with redirect_stderr(messages):
            return tyro.cli(
                kind,
                prog=prog,
                args=arguments,
                default=default,
                config=(tyro.conf.OmitArgPrefixes,),
            )
    except SystemExit as end:
        if end.code in (0, None):
            raise
        raise TPNError(_paragraph(messages.getvalue())) from None


def say(text: str) -> None:
    """Tell the user something that is not the result: on standard error."""
    print(text, file=sys.stderr, flush=True)


def _paragraph(box: str) -> str:
    """The text inside the box that tyro draws around its messages."""
    lines = [line.strip("│╭╮╰╯ ") for line in box.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith("─") and not line.endswith("─"))
