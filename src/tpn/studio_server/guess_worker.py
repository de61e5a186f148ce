"""Propagation in the background: after every action, for the newest labels only."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tpn.labelling.session_state import NONE, SKIP
from tpn.studio_server.embedding_worker import EmbeddingWorker
from tpn.studio_server.marks import NONE_CODE, Marks, as_codes

if TYPE_CHECKING:
    from tpn.labelling.folder_graph import FolderGraph
    from tpn.labelling.session_checks import Check
    from tpn.labelling.session_engine import Guesses
    from tpn.studio_server.guessing import Guessing

GROWTH = 1.6
"""The graph is built again when there are this many times as many features."""
FEWEST_IMAGES = 12
IDLE, IDLE_TURNS = 0.8, 3.0
"""Seconds without an action before labels are checked: so many, and so many times what the last guesses took."""
MOST_POSTPONED = 4
"""Suggestions wait for newer guesses at most this often in a row."""


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
    """Keeps guesses up to date in a thread. Nobody waits for it: whoever asks gets the newest answer.

    A turn takes the newest labels; actions that happen meanwhile are all taken by the next turn. Everything but the
    guesses themselves gives way to a new action: suggestions are postponed, checks and the map are left and gone on
    with later.
    """

    def __init__(self, marks: Marks, feed: EmbeddingWorker, tell: Callable[..., None], n_jobs: int | None) -> None:
        self.marks, self.feed, self._tell, self._n_jobs = marks, feed, tell, n_jobs or -1
        self.number = len(feed.names)
        self.published = self._blank(0, 0)
        self.suggested = np.zeros(0, np.int64)
        self.groups = np.full(self.number, -1, np.int32)
        self.map: np.ndarray | None = None
        self.check: Check | None = None
        self.error = ""
        self._guessing: Guessing | None = None
        self._postponed, self._checked = 0, -1
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="guesses", daemon=True)

    @property
    def rows(self) -> np.ndarray:
        """The images that take part."""
        return np.zeros(0, np.int64) if self._guessing is None else self._guessing.graph.rows

    @property
    def points(self) -> np.ndarray | None:
        """The scaled features of `rows`."""
        return None if self._guessing is None else self._guessing.graph.points

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
        self._take_features()
        if self._guessing is None:
            return
        began = time.perf_counter()
        revision, marks = self.marks.read()
        rows = self.rows
        codes = as_codes(marks)[rows]
        guesses = self._guessing.guess(codes)
        self.published = self._publish(guesses, rows, revision, time.perf_counter() - began)
        self._tell(kind="guesses", version=self.published.version)
        if self._wake.is_set() and self._postponed < MOST_POSTPONED:
            self._postponed += 1
            return
        self._postponed = 0
        free = (codes < 0) & (marks[rows] != SKIP)
        self.suggested = rows[self._guessing.suggest(guesses, free)]
        self._tell(kind="next", version=self.published.version)
        self._when_idle(self._guessing, revision, codes)

    def _take_features(self) -> None:
        """Take the graph that was kept; or build it again if there are many more features, or all of them."""
        feed = self.feed
        if feed.graph is not None:
            if self._guessing is None or self._guessing.graph is not feed.graph:
                self._use(feed.graph, is_kept=True)
            return
        count, known = int(feed.ready.sum()), len(self.rows)
        complete = feed.finished and count > known
        if feed.features is None or not (complete or count >= max(FEWEST_IMAGES, GROWTH * known)):
            return
        rows = np.flatnonzero(feed.ready)
        if len(rows) < 3:
            return
        from tpn.labelling.folder_graph import FolderGraph

        self._use(FolderGraph.build(feed.features, rows, self._n_jobs, feed.finished))

    def _use(self, graph: "FolderGraph", is_kept: bool = False) -> None:
        from tpn.studio_server.guessing import Guessing

        self._guessing = Guessing(graph, is_kept)
        self.check, self._checked = None, -1  # it speaks of the rows of the graph before
        if graph.engine.groups is not None:
            groups = np.full(self.number, -1, np.int32)
            groups[graph.rows] = graph.engine.groups
            self.groups = groups
            self._tell(kind="groups")
        if graph.places is not None:
            self._show_map(graph.rows, graph.places)

    def _when_idle(self, guessing: "Guessing", revision: int, codes: np.ndarray) -> None:
        """Check the labels, keep the graph and draw the map, while nobody labels."""
        goes_on = lambda: not self._wake.is_set()  # noqa: E731
        if self._wake.wait(max(IDLE, IDLE_TURNS * self.published.seconds)):
            return
        if self._checked != revision:
            check = guessing.check(codes, goes_on)
            if check is None:
                return
            self.check, self._checked = check, revision
            self._tell(kind="check")
        whole = self.feed.finished and not self.feed.error
        if whole:
            guessing.keep(self.feed.kept, self.feed.source)
        if self.map is None and (places := guessing.draw_map(goes_on)) is not None:
            self._show_map(guessing.graph.rows, places)
            if whole:
                guessing.keep(self.feed.kept, self.feed.source, with_map=True)

    def _show_map(self, rows: np.ndarray, places: np.ndarray) -> None:
        everywhere = np.full((self.number, 2), np.nan, np.float32)
        everywhere[rows] = places
        self.map = everywhere
        self._tell(kind="map")

    def _publish(self, guesses: "Guesses | None", rows: np.ndarray, revision: int, seconds: float) -> Published:
        blank = self._blank(self.published.version + 1, revision, seconds)
        if guesses is None:
            return blank
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
