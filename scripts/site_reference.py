"""The reference of commands and settings in Markdown, made from the help texts of the command line itself."""

import io
import os
import re
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field

from tpn.cli import COMMANDS, main
from tpn.methods._registry import all_methods

SUBCOMMANDS = {"data": ("info", "prepare", "show"), "backbones": ("get",)}
COLUMNS = "100"
INDENT = 26
"""The column where explanations begin in a help text (`tpn.cli.help`)."""


@dataclass
class Section:
    """A group of options of a help text: what is at the left, and its explanation."""

    title: str
    entries: list[list[str]] = field(default_factory=list)


@dataclass
class HelpText:
    """A help text, taken apart."""

    usage: str
    description: list[str]
    sections: list[Section]


def help_of(*arguments: str) -> str:
    """Return the help text of a command."""
    printed = io.StringIO()
    before = os.environ.get("COLUMNS", "")
    os.environ["COLUMNS"] = COLUMNS
    try:
        with redirect_stdout(printed), suppress(SystemExit):
            main([*arguments, "--help"])
    finally:
        os.environ["COLUMNS"] = before  # an empty one counts as none
    return printed.getvalue()


def taken_apart(text: str) -> HelpText:
    """Return the parts of a help text."""
    usage, *blocks = text.strip().split("\n\n")
    parsed = HelpText(usage.removeprefix("usage: "), [], [])
    for block in blocks:
        first, *lines = block.splitlines()
        if not first.endswith(":") or not lines or not lines[0].startswith("  "):
            parsed.description.append(" ".join(block.split()))
            continue
        section = Section(first.rstrip(":"))
        for line in lines:
            if line.startswith("  ") and line[2] != " ":
                beside = len(line) > INDENT and line[INDENT - 2 : INDENT] == "  "
                left, text_at_right = (line[:INDENT].strip(), line[INDENT:]) if beside else (line.strip(), "")
                section.entries.append([left, text_at_right])
            else:
                section.entries[-1][1] = f"{section.entries[-1][1]} {line.strip()}".strip()
        parsed.sections.append(section)
    return parsed


def command_reference() -> str:
    """Return every command with its arguments and options."""
    parts = []
    for name in COMMANDS:
        parts.append(f"## tpn {name}")
        if name == "data":  # explains its sub-commands, in its own form
            parts.append(f"```text\n{help_of(name).strip()}\n```")
        else:
            parts.append(_described(taken_apart(help_of(name)), 3))
        parts += [
            f"### tpn {name} {one}\n\n{_described(taken_apart(help_of(name, one)), 4)}"
            for one in SUBCOMMANDS.get(name, ())
        ]
    return "\n\n".join(parts)


def settings_reference() -> str:
    """Return the settings that each method has besides those of every training."""
    parts = []
    for name, method in all_methods().items():
        settings = taken_apart(help_of("evaluate", "RUN", "--as", name)).sections
        own = [section for section in settings if section.title == f"settings of {name}"]
        table = _table(own[0]) if own else "It has no settings of its own."
        about = f"{method.info.paper}. Transduction: {method.info.transduction}; class balance of the queries: "
        parts.append(f"## {name}\n\n{about}{method.info.class_balance}.\n\n{table}")
    return "\n\n".join(parts)


def _described(text: HelpText, level: int) -> str:
    parts = [f"```text\n{text.usage}\n```", *map(_escaped, text.description)]
    for section in text.sections:
        parts += [f"{'#' * level} {_capital(section.title)}", _table(section)]
    return "\n\n".join(parts)


def _table(section: Section) -> str:
    rows = [f"| {_code(left)} | {_escaped(right)} |" for left, right in section.entries]
    return "\n".join(["| option | meaning |", "|---|---|", *rows])


def _code(text: str) -> str:
    return f"<code>{text.replace('<', '&lt;').replace('|', '&#124;').replace('{', '&#123;')}</code>"


def _escaped(text: str) -> str:
    """Return a text with what Markdown would interpret escaped, but for code between backticks."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece.replace("|", "\\|") if piece.startswith("`") else re.sub(r"([|<*_\[\]])", r"\\\1", piece)
        for piece in pieces
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
