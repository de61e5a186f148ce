"""Propagation in the background: after every action, for the newest labels only."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tpn.labelling.session import Session
from tpn.labelling.session_checks import Check, check_labels
from tpn.labelling.session_engine import Engine, Guesses
from tpn.labelling.session_map import lay_out
from tpn.labelling.session_neighbours import find_neighbours, near_duplicates
from tpn.labelling.session_state import NONE, SKIP
from tpn.labelling.suggestions import doubts, suggest
from tpn.semi_supervised.feature_scaling import FeatureScaler
from tpn.studio_server.embedding_worker import EmbeddingWorker

NONE_CODE = 2**14
"""The class of images of none of the classes in the propagation."""
GROWTH = 1.6
"""The graph is built again when there are this many times as many features."""
FEWEST_IMAGES = 12
NEXT, POOL = 24, 3000
"""Images that are suggested at once, and the most doubtful ones that they are chosen from."""
IDLE = 0.8
"""Seconds without an action before labels are checked."""


@dataclass(frozen=True)
class Published:
    """The newest guesses for all images, in the compact form that pages get."""

    version: int = 0
    revision: int = 0
    best: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int16))
    probability: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.uint8))
    confidence: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint16))
    """In ten-thousandths."""
    familiarity: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    seconds: float = 0.0


class GuessWorker:
    """Keeps guesses up to date in a thread. Nobody waits for it: whoever asks gets the newest answer."""

    def __init__(self, session: Session, feed: EmbeddingWorker, tell: Callable[..., None], n_jobs: int | None) -> None:
        self.session, self.feed, self._tell, self._n_jobs = session, feed, tell, n_jobs
        self.number = len(feed.names)
        self._index = {name: place for place, name in enumerate(feed.names)}
        self.published = self._blank(0, 0)
        self.suggested = np.zeros(0, np.int64)
        self.groups = np.full(self.number, -1, np.int32)
        self.map: np.ndarray | None = None
        self.check: Check | None = None
        self.check_revision = -1
        self.points: np.ndarray | None = None
        self.rows = np.zeros(0, np.int64)
        """The images that take part."""
        self.error = ""
        self._engine: Engine | None = None
        self._neighbours: np.ndarray | None = None
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="guesses", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def wake(self) -> None:
        """Something has changed: labels, or features."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._stopped.is_set():
                return
            try:
                self._turn()
                self.error = ""
            except Exception as failure:  # must be seen in the page
                self.error = f"Guessing has failed: {failure!r}"
                self._tell(kind="state")

    def _turn(self) -> None:
        began = time.perf_counter()
        self._take_features()
        revision, marks, _ = self.session.snapshot()
        if self._engine is None:
            return
        codes = self.codes(marks)
        guesses = self._engine.guess(codes[self.rows])
        skipped = np.array([marks.get(self.feed.names[row]) == SKIP for row in self.rows])
        free = (codes[self.rows] < 0) & ~skipped
        self.published = self._publish(guesses, revision, time.perf_counter() - began)
        self._tell(kind="guesses", version=self.published.version)
        self.suggested = self.rows[self._suggest(guesses, free)]
        self._tell(kind="next", version=self.published.version)
        self._when_idle(revision, codes)

    def codes(self, marks: dict[str, int]) -> np.ndarray:
        """Return the class of each image as the propagation takes it."""
        codes = np.full(self.number, -1)
        for path, mark in marks.items():
            place = self._index.get(path)
            if place is not None and mark != SKIP:
                codes[place] = NONE_CODE if mark == NONE else mark
        return codes

    def _take_features(self) -> None:
        """Build the graph again if there are many more features, or all of them."""
        count = int(self.feed.ready.sum())
        complete = self.feed.finished and count > len(self.rows)
        if self.feed.features is None or not (complete or count >= max(FEWEST_IMAGES, GROWTH * len(self.rows))):
            return
        rows = np.flatnonzero(self.feed.ready)
        if len(rows) < 3:
            return
        self.points = FeatureScaler().fit_transform(self.feed.features[rows])
        self.rows = rows
        groups = None
        if self.feed.finished:
            squares, self._neighbours = find_neighbours(self.points, self._n_jobs or -1)
            groups = near_duplicates(squares, self._neighbours, self.points.shape[1])
            everywhere = np.full(self.number, -1, np.int32)
            everywhere[rows] = groups
            self.groups = everywhere
            self._tell(kind="groups")
        self._engine = Engine(self.points, {"n_jobs": self._n_jobs or -1}, groups)

    def _suggest(self, guesses: Guesses | None, free: np.ndarray) -> np.ndarray:
        assert self.points is not None
        assert self._engine is not None
        two = np.full((len(self.rows), 2), 0.5) if guesses is None else guesses.probability[:, :2]
        pool = np.flatnonzero(free)
        if len(pool) > POOL and guesses is None:
            pool = pool[np.linspace(0, len(pool) - 1, POOL).astype(int)]
        elif len(pool) > POOL:
            pool = pool[np.argsort(-doubts(two[pool]), kind="stable")[:POOL]]
        mask = np.zeros(len(self.rows), bool)
        mask[pool] = True
        groups = self._engine.groups
        return suggest(self.points, two, mask, NEXT, None if groups is None else np.where(mask, groups, -1))

    def _when_idle(self, revision: int, codes: np.ndarray) -> None:
        """Draw the map, and check the labels, while nobody labels."""
        assert self._engine is not None
        if self._neighbours is not None and self.map is None and self.points is not None:
            place = lay_out(self.points, self._neighbours, lambda: not self._stopped.is_set())
            everywhere = np.full((self.number, 2), np.nan, np.float32)
            everywhere[self.rows] = place
            self.map = everywhere
            self._tell(kind="map")
        if self._wake.wait(IDLE) or self._stopped.is_set():
            return
        inside = np.where(codes == NONE_CODE, -1, codes)[self.rows]
        check = check_labels(self._engine, inside, goes_on=lambda: not self._wake.is_set())
        if check is not None and self.session.revision == revision:
            self.check, self.check_revision = check, revision
            self._tell(kind="check")

    def _publish(self, guesses: Guesses | None, revision: int, seconds: float) -> Published:
        blank = self._blank(self.published.version + 1, revision, seconds)
        if guesses is None:
            return blank
        rows = self.rows
        blank.best[rows] = np.where(guesses.best == NONE_CODE, NONE, guesses.best)
        blank.probability[rows] = np.rint(255 * guesses.probability)
        blank.confidence[rows] = np.rint(10_000 * guesses.confidence)
        blank.familiarity[rows] = np.rint(255 * guesses.familiarity)
        return blank

    def _blank(self, version: int, revision: int, seconds: float = 0.0) -> Published:
        number = self.number
        return Published(
            version, revision, np.full((number, 3), -1, np.int16), np.zeros((number, 3), np.uint8),
            np.zeros(number, np.uint16), np.zeros(number, np.uint8), seconds,
        )  # fmt: skip
