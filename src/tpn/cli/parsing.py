"""Options from dataclasses: a documented field is a flag."""

import io
import os
import shutil
from contextlib import redirect_stderr
from dataclasses import dataclass
from typing import Any, TypeVar

import tyro

from tpn.episodes.setting import Setting
from tpn.errors import TPNError

NARROWEST = 40

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
    if shutil.get_terminal_size().columns < NARROWEST:  # tyro cannot set its text in less
        os.environ["COLUMNS"] = str(NARROWEST)
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


def _paragraph(box: str) -> str:
    """The text inside the box that tyro draws around its messages, without the title on its upper edge."""
    lines = [line for line in (line.strip("│╭╮╰╯ ") for line in box.splitlines()) if line]
    if len(lines) > 1 and set(lines[1]) == {"-"}:  # the box of a terminal that knows ASCII only
        lines = lines[2:]
    text = " ".join(line for line in lines if not line.startswith(("─", "---")) and not line.endswith("─"))
    for rest in (" Argument helptext:", " Got errors:"):  # what --help says again, and what Python made of it
        text = text.partition(rest)[0]
    return text
