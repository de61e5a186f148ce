"""Command-line parsing from dataclasses: each documented field is a flag, and a keyword of the Python call."""

import io
import os
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from tpn.cli.help import flag_name, help_text
from tpn.errors import TPNError
from tpn.workflows.settings import Setting, check_source

NARROWEST = 40
HELP = ("-h", "--help")

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class EpisodeFlags(Setting):
    """episodes (by default as in the training of the run)"""

    def __post_init__(self) -> None:
        """Skip the checks: the Python call fills in the options that are not given, and checks them."""


def unchecked(kind: type[Kind]) -> type[Kind]:
    """Return the settings class without its checks, which the Python call makes."""
    return type(kind.__name__, (kind,), {"__doc__": kind.__doc__, "__post_init__": lambda self: None})


def parse(kind: Any, prog: str, arguments: list[str], default: Any = None) -> Any:
    """Parse a command line into the dataclass `kind`, or print its help and exit."""
    if any(argument in HELP for argument in arguments):
        print(help_text(kind, prog, default))
        sys.exit(0)
    refuse_empty(arguments)
    import tyro

    messages = io.StringIO()
    if shutil.get_terminal_size().columns < NARROWEST:  # the narrowest that tyro supports
        os.environ["COLUMNS"] = str(NARROWEST)
    try:
        with redirect_stderr(messages), redirect_stdout(messages):
            options = tyro.cli(kind, prog=prog, args=arguments, default=default, config=(tyro.conf.OmitArgPrefixes,))
    except SystemExit:
        raise TPNError(_paragraph(messages.getvalue())) from None
    if getattr(options, "data", None) is not None:  # before torch is loaded
        check_source(options.data, getattr(options, "cache", None))
    return options


def refuse_empty(arguments: list[str]) -> None:
    """Refuse empty values, which scripts make of variables that are not set; no option has a use for one."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if argument == "" or (argument.startswith("--") and argument.endswith("=")):
            flag = argument[:-1] or before
            what = f"The value of {flag}" if flag.startswith("--") else "An argument"
            raise TPNError(f"{what} is empty.")


def given(options: Any, arguments: list[str]) -> dict[str, Any]:
    """Return the options given on the command line as flat keywords."""
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
    if len(lines) > 1 and set(lines[1]) == {"-"}:  # the box on an ASCII terminal
        lines = lines[2:]
    text = " ".join(line for line in lines if not line.startswith(("─", "---")) and not line.endswith("─"))
    for rest in (" Argument helptext:", " Got errors:"):  # repeats --help, and Python's own errors
        text = text.partition(rest)[0]
    return text
