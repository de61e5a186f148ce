"""The labels of a session as an array, by the number of the image."""

import threading
from itertools import repeat

import numpy as np

from tpn.labelling.session import Session
from tpn.labelling.session_state import NONE, SKIP

NONE_CODE = 2**14
"""The class of images of none of the classes in the propagation."""


class Marks:
    """The marks of all images: the number of a class, NONE, SKIP, or -1. Made once for each revision of the session."""

    def __init__(self, session: Session, names: list[str]) -> None:
        self.session = session
        self.index = {name: place for place, name in enumerate(names)}
        self._lock = threading.Lock()
        self._newest = (-1, np.full(len(names), -1, np.int16))

    def read(self) -> tuple[int, np.ndarray]:
        """Return the newest revision and its marks (int16, not to be changed)."""
        with self._lock:
            if self._newest[0] != self.session.revision:
                revision, marks, _ = self.session.snapshot()
                places = np.fromiter(map(self.index.get, marks, repeat(-1)), np.int64, len(marks))
                values = np.fromiter(marks.values(), np.int16, len(marks))
                array = np.full(len(self.index), -1, np.int16)
                array[places[places >= 0]] = values[places >= 0]
                self._newest = (revision, array)
            return self._newest


def as_codes(marks: np.ndarray) -> np.ndarray:
    """Return the class of each image as the propagation takes it: -1 where none was given."""
    return np.where(marks == NONE, NONE_CODE, np.where(marks == SKIP, -1, marks)).astype(np.int64)


def is_given(marks: np.ndarray) -> np.ndarray:
    """Return which images were given a class, or none of the classes."""
    return np.asarray((marks != -1) & (marks != SKIP))
