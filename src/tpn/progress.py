"""Progress: a bar with rate and remaining time on a terminal or in a notebook, plain lines elsewhere."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

Advance = Callable[..., None]
SECONDS_BETWEEN_LINES = 10.0
SLOWEST_PER_SECOND = 0.1
"""Slower rates are shown per hour."""


_shown = ContextVar("shown", default=True)


@contextmanager
def showing(wanted: bool) -> Iterator[None]:
    """Switch progress and remarks on or off inside this block."""
    token = _shown.set(wanted)
    try:
        yield
    finally:
        _shown.reset(token)


def say(text: str) -> None:
    """Print a remark, which is not part of the result, on standard error."""
    if _shown.get():
        tell(text)


def tell(text: str) -> None:
    """Print on standard error. If that fails, because a log fills its disk or was closed, the work goes on without."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        with suppress(OSError, ValueError, AttributeError):  # drop it, or Python reports the rest of the text at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextmanager
def progress(what: str, total: int, unit: str, done: int = 0) -> Iterator[Advance]:
    """Show the progress of `what`; yield a function to call with the number newly done, and values to show.

    >>> with progress("training", total=1000, unit="episodes") as advance:
    ...     advance(1, loss=1.4, accuracy=0.41)
    """
    if not _shown.get():
        yield _silent
    elif sys.stderr.isatty() or "ipykernel" in sys.modules:
        with _bar(what, total, unit, done) as advance:
            yield advance
    else:
        yield _lines(what, total, unit, done)


def _silent(count: int, **figures: float) -> None:
    """Show nothing."""


def clock(seconds: float) -> str:
    """Format seconds as a duration, such as 3:07 or 1:02:45."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _figures(figures: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.3f}" for name, value in figures.items())


@contextmanager
def _bar(what: str, total: int, unit: str, done: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[pace]}"),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, completed=done, pace="", figures="")
        pace = _Pace(total, unit, done)

        def advance(count: int, **figures: float) -> None:
            pace.count(count)
            bar.update(task, advance=count, pace=pace.text(), figures=_figures(figures))

        yield advance


def _lines(what: str, total: int, unit: str, done: int) -> Advance:
    pace = _Pace(total, unit, done)
    last_line = time.monotonic()

    def advance(count: int, **figures: float) -> None:
        nonlocal last_line
        pace.count(count)
        now = time.monotonic()
        if now - last_line >= SECONDS_BETWEEN_LINES:
            last_line = now
            line = f"{what}: {pace.done}/{total}  {pace.text()}  {_figures(figures)}"
            tell(line.rstrip())

    return advance


class _Pace:
    """The rate of progress, and the remaining time."""

    def __init__(self, total: int, unit: str, done: int) -> None:
        self.total, self.unit, self.done, self.first = total, unit, done, done
        self.start = time.monotonic()

    def count(self, count: int) -> None:
        self.done += count

    def text(self) -> str:
        elapsed = time.monotonic() - self.start
        rate = (self.done - self.first) / elapsed if elapsed > 0 else 0.0
        if rate == 0:
            return ""
        pace = f"{rate:.1f} {self.unit}/s" if rate >= SLOWEST_PER_SECOND else f"{3600 * rate:.0f} {self.unit}/h"
        return f"{pace}, {clock((self.total - self.done) / rate)} left"
