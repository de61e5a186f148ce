"""Clean stops on SIGINT and SIGTERM."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tpn.progress import tell


class Stopped(Exception):
    """Raised to stop training after a signal."""


class StopRequest:
    """Records the first SIGINT (Ctrl-C) or SIGTERM."""

    signal: int | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt  # the second signal stops at once
        self.signal = number
        tell("\nstopping after this step (repeat to stop at once)")

    def raise_if_asked(self) -> None:
        if self.signal is not None:
            raise Stopped


@contextmanager
def listening() -> Iterator[StopRequest]:
    """Record SIGINT and SIGTERM inside this block, instead of stopping at once."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield request
        return
    before = {number: signal.signal(number, request.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
