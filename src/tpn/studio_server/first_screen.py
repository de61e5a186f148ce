"""The first pictures on the screen: heavy work begins after them.

Importing torch and scikit-learn holds Python's global lock for seconds, in which no request is answered.
"""

import threading
import time

QUIET = 0.4
"""Seconds without a request for a picture after which the first screen is complete."""
LONGEST = 4.0
"""Seconds that are waited for a page: nobody may ever open one."""


class FirstScreen:
    """Knows whether a page has got the pictures of its first screen."""

    def __init__(self, longest: float = LONGEST) -> None:
        self._began, self._longest = time.monotonic(), longest
        self._last: float | None = None

    def served(self) -> None:
        """A picture was sent to a page."""
        self._last = time.monotonic()

    @property
    def is_complete(self) -> bool:
        now = time.monotonic()
        return now - self._began > self._longest or (self._last is not None and now - self._last > QUIET)

    def wait(self, stopped: threading.Event) -> None:
        """Wait until the first screen is complete, or until somebody says stop."""
        while not self.is_complete and not stopped.wait(0.05):
            pass
