"""Ending cleanly when the user or the system asks for it."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """Raised inside long work when a stop was asked for."""


class StopRequest:
    """Whether SIGINT (Ctrl-C) or SIGTERM has come, and which."""

    signal: int | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt  # asked twice: at once, then
        self.signal = number
        print("\nstopping after this step (again to leave at once)", file=sys.stderr, flush=True)

    def raise_if_asked(self) -> None:
        if self.signal is not None:
            raise Stopped


@contextmanager
def listening() -> Iterator[StopRequest]:
    """Take note of SIGINT and SIGTERM instead of dying of them."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may listen
        yield request
        return
    before = {number: signal.signal(number, request.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
