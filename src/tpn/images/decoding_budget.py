"""What decoders of images share in a process: the pixels in decoding at the same time, and standard error."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

LARGE = 2**24
"""Images with more pixels are decoded one at a time, over all processes, and reduced before they are converted."""


class PixelBudget:
    """Lets threads decode images at the same time as long as these have at most `LARGE` pixels together."""

    def __init__(self) -> None:
        self._used = 0
        self._changed = threading.Condition()
        self.large_alone: AbstractContextManager[object] = nullcontext()
        """A lock that the processes of a pool share."""

    @contextmanager
    def share(self, pixels: int) -> Iterator[None]:
        """Wait until there is room for an image, and keep it; an image that is too large has all of it."""
        cost = min(pixels, LARGE)
        with self._changed:
            self._changed.wait_for(lambda: self._used + cost <= LARGE)
            self._used += cost
        try:
            with self.large_alone if pixels > LARGE else nullcontext():
                yield
        finally:
            with self._changed:
                self._used -= cost
                self._changed.notify_all()


class SilentErrors:
    """Sends what C libraries print on standard error nowhere while at least one thread asks for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._kept = -1

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._kept = _redirect()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._kept >= 0:
                os.dup2(self._kept, 2)
                os.close(self._kept)
                self._kept = -1


def _redirect() -> int:
    """Redirect standard error to nowhere; return where it went before, or -1 if it is closed."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
        kept = os.dup(2)
    except (OSError, ValueError):
        return -1
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return kept


pixel_budget = PixelBudget()
silent_errors = SilentErrors()
