"""What the guess worker computes with: everything that needs scikit-learn, which is imported after the first screen."""

from collections.abc import Callable

import numpy as np

from tpn.errors import TPNError
from tpn.labelling.folder_graph import FolderGraph, KeptGraph
from tpn.labelling.session_checks import Check, check_labels
from tpn.labelling.session_engine import Guesses
from tpn.labelling.session_map import Layout
from tpn.labelling.suggestions import suggest_first
from tpn.studio_server.marks import NONE_CODE

NEXT, POOL = 24, 3000
"""Images that are suggested at once, and as long as there are no guesses the most that they are chosen from."""


class Guessing:
    """Guesses, suggestions, checks and the map of the images of a graph. Images are its rows."""

    def __init__(self, graph: FolderGraph, is_kept: bool = False) -> None:
        self.graph = graph
        self._layout: Layout | None = None
        self._is_kept = is_kept

    def guess(self, codes: np.ndarray) -> Guesses | None:
        """Propagate labels; None if there are fewer than two classes."""
        return self.graph.engine.guess(codes)

    def suggest(self, guesses: Guesses | None, free: np.ndarray) -> np.ndarray:
        """Return the images whose labels would help most, among those that are free."""
        if guesses is not None:
            return self.graph.engine.suggest(guesses, free, NEXT)
        pool = np.flatnonzero(free)
        if len(pool) > POOL:
            pool = pool[np.linspace(0, len(pool) - 1, POOL).astype(int)]
        groups = self.graph.engine.groups
        return np.asarray(pool[suggest_first(self.graph.points[pool], NEXT, None if groups is None else groups[pool])])

    def check(self, codes: np.ndarray, goes_on: Callable[[], bool]) -> Check | None:
        """Check the given labels by each other; None if it must not go on."""
        return check_labels(self.graph.engine, np.where(codes == NONE_CODE, -1, codes), goes_on=goes_on)

    def draw_map(self, goes_on: Callable[[], bool]) -> np.ndarray | None:
        """Go on with the map of a complete graph; returns it once it is finished."""
        if self.graph.places is None and self.graph.neighbours is not None:
            if self._layout is None:
                self._layout = Layout(self.graph.points, self.graph.neighbours)
            if self._layout.advance(goes_on):
                self.graph.places, self._layout = self._layout.places, None
        return self.graph.places

    def keep(self, kept: KeptGraph, source: str, with_map: bool = False) -> None:
        """Keep a complete graph, or its map, for the next start. If that fails, the next start takes longer."""
        try:
            if with_map and self.graph.places is not None:
                kept.save_map(source, self.graph.places)
            elif not self._is_kept and self.graph.neighbours is not None:
                self._is_kept = True
                kept.save(source, self.graph)
        except (TPNError, OSError):
            return
