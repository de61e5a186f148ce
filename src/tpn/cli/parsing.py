"""Options from dataclasses: a documented field is a flag, and a keyword of the Python call that a command makes."""

import io
import os
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from tpn.cli.help import flag_name, help_text
from tpn.errors import TPNError
from tpn.workflows.settings import Setting

NARROWEST = 40
HELP = ("-h", "--help")

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class EpisodeFlags(Setting):
    """episodes (what is not given is as in the training of the run)"""

    def __post_init__(self) -> None:
        """Check nothing here: the call that gets what was given fills in the rest, and checks it."""


def unchecked(kind: type[Kind]) -> type[Kind]:
    """Return the same settings without their checks: the call that gets what was given checks them."""
    return type(kind.__name__, (kind,), {"__doc__": kind.__doc__, "__post_init__": lambda self: None})


def parse(kind: Any, prog: str, arguments: list[str], default: Any = None) -> Any:
    """Read a command line into the dataclass `kind`, or print its help and exit."""
    if any(argument in HELP for argument in arguments):
        print(help_text(kind, prog, default))
        sys.exit(0)
    import tyro

    messages = io.StringIO()
    if shutil.get_terminal_size().columns < NARROWEST:  # tyro cannot set its text in less
        os.environ["COLUMNS"] = str(NARROWEST)
    try:
        with redirect_stderr(messages), redirect_stdout(messages):
            return tyro.cli(kind, prog=prog, args=arguments, default=default, config=(tyro.conf.OmitArgPrefixes,))
    except SystemExit:
        raise TPNError(_paragraph(messages.getvalue())) from None


def given(options: Any, arguments: list[str]) -> dict[str, Any]:
    """Return the options that the command line names, as keywords: groups of options are flattened."""
    flags = {argument.partition("=")[0].replace("_", "-") for argument in arguments if argument.startswith("--")}
    named: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            named |= given(value, arguments)
        elif flags & {f"--{flag_name(field)}", f"--no-{flag_name(field)}"}:
            named[field.name] = value
    return named


def _paragraph(box: str) -> str:
    """Return the text inside the box that tyro draws around its messages, without the title on its upper edge."""
    lines = [line for line in (line.strip("│╭╮╰╯ ") for line in box.splitlines()) if line]
    if len(lines) > 1 and set(lines[1]) == {"-"}:  # the box of a terminal that knows ASCII only
        lines = lines[2:]
    text = " ".join(line for line in lines if not line.startswith(("─", "---")) and not line.endswith("─"))
    for rest in (" Argument helptext:", " Got errors:"):  # what --help says again, and what Python made of it
        text = text.partition(rest)[0]
    return text
