"""Run the examples of documentation pages, and compare what they print with what the pages say.

    python -m scripts.run_pages docs/tutorials/*.md            # says where they differ
    python -m scripts.run_pages docs/tutorials/*.md --write    # writes what they print into the pages

Blocks of a page run in its order, in one empty folder. A `python` block runs in the namespace of its page; a `text`
block after it is what it prints. In a `console` block, lines that begin with `$ ` are commands, and the lines after
them what they print. Numbers may differ, and a line with nothing but `…` stands for any lines. A line of Python in a
comment, `<!-- run: … -->`, prepares what a reader has already, such as a folder of pictures.
"""

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpn.cli import main as tpn_command
from tpn.progress import showing

BLOCK = re.compile(r"^(?:```(python|console|text)\n(.*?)^```|<!-- run: (.*?) -->)$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+−]?\d[\d.,:]*")
SKIPPED_LINES = "…"

Change = Callable[[str], str]


class PageError(AssertionError):
    """An example of a page failed, or does not print what the page says."""


@dataclass
class Page:
    """A page, and what its examples have printed."""

    file: Path
    text: str
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})
    printed: str = ""
    """What the last python block printed."""


def run_page(file: Path, change: Change = str) -> str:
    """Run the examples of a page in the current folder; return the page with what they print now.

    `change` may change the source of an example before it runs, for instance to make a training shorter; what such a
    command prints is then left as it is.
    """
    page = Page(file, file.read_text(encoding="utf-8"))
    made, end = [], 0
    for block in BLOCK.finditer(page.text):
        kind, body, preparation = block.groups()
        if preparation:
            _run_python(page, preparation)
            continue
        made += [page.text[end : block.start()], f"```{kind}\n{_run_block(page, kind, body, change)}```"]
        end = block.end()
    return "".join([*made, page.text[end:]])


def differences(said: str, printed: str) -> str:
    """Return what is wrong with the output that a page shows, or an empty text."""
    expected, found = _lines(said), _lines(printed)
    pattern = "".join(r"(?:.*\n)*" if line == SKIPPED_LINES else re.escape(line) + r"\n" for line in expected)
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in found)):
        return ""
    return f"the page says\n{said}\nbut it prints\n{printed}"


def _run_block(page: Page, kind: str, body: str, change: Change) -> str:
    """Run a block; return what should be in it."""
    if kind == "python":
        page.printed = _run_python(page, change(body))
        return body
    if kind == "text":
        printed, page.printed = page.printed or body, ""
        return printed
    made = []
    for command, said in commands(body):
        changed = change(command)
        printed = _run_command(page, changed.replace("\\\n", " "))
        made.append(f"$ {command}\n{printed if changed == command else said}")
    return "".join(made)


def commands(body: str) -> Iterator[tuple[str, str]]:
    """Split a console block into its commands (with their continuation lines) and what each prints."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        length = 1 + next((n for n, line in enumerate(lines) if not line.endswith("\\\n")), 0)
        yield "".join(lines[:length]).rstrip("\n"), "".join(lines[length:])


def _run_python(page: Page, code: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page.file), "exec"), page.namespace)
    return printed.getvalue()


def _run_command(page: Page, command: str) -> str:
    if not command.startswith("tpn "):
        return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout
    printed, notes = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(notes), showing(False):
        code = tpn_command(shlex.split(command)[1:])
    if code:
        raise PageError(f"{page.file}: `{command}` ended with exit code {code}: {notes.getvalue()}")
    return printed.getvalue()


def _lines(text: str) -> list[str]:
    """Return the lines of an output without what may differ: numbers, and the width of columns."""
    return [" ".join(NUMBER.sub("#", line).split()) for line in text.strip().splitlines()]


def check_page(file: Path, change: Change = str) -> None:
    """Run the examples of a page in the current folder; raise an error if they do not print what the page says."""
    said = file.read_text(encoding="utf-8")
    made = run_page(file, change)
    for before, now in zip(BLOCK.finditer(said), BLOCK.finditer(made), strict=True):
        if before.group(1) in ("python", None):
            continue
        shown = [(before.group(2), now.group(2))]
        if before.group(1) == "console":
            pairs = zip(commands(before.group(2)), commands(now.group(2)), strict=True)
            shown = [(said_after, printed) for (_, said_after), (_, printed) in pairs]
        for expected, found in shown:
            if wrong := differences(expected, found):
                raise PageError(f"{file}: {wrong}")


def main() -> int:
    """Run the pages that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true", help="write what the examples print into the pages")
    options = parser.parse_args()
    failed = 0
    for file in [page.resolve() for page in options.pages]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                if options.write:
                    file.write_text(run_page(file), encoding="utf-8")
                else:
                    check_page(file)
            except PageError as error:
                print(error, file=sys.stderr)
                failed += 1
            finally:
                os.chdir(file.parent)
        print(f"{file.name}: {'written' if options.write else 'checked'}", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "100")
    sys.exit(main())
