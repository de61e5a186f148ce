"""Embedding in the background: features arrive in chunks, while images are looked at and labelled.

torch is loaded in the thread, after the first screen of pictures; and not at all if the graph of the same files by the
same network was kept.
"""

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tpn.errors import TPNError
from tpn.images.dataset_index import Problems
from tpn.images.decoding import NotAnImage, thumbnail
from tpn.images.file_containers import LARGEST_FILE
from tpn.progress import showing
from tpn.studio_server.first_screen import FirstScreen

if TYPE_CHECKING:
    from tpn.labelling.folder_graph import FolderGraph, KeptGraph
    from tpn.labelling.networks import LazyNetwork

CHUNK = 128
MOST_TRIED = 50
"""Files without features that are tried again before a kept graph is taken."""
UNREADABLE = "it cannot be read as an image"


class EmbeddingWorker:
    """Embeds the images of a folder in a thread. `features[ready]` are those that are there."""

    def __init__(
        self,
        folder: Path,
        names: list[str],
        backbone: str | None,
        cache: Path,
        kept: Path,
        changed: Callable[[], None],
        screen: FirstScreen,
        n_jobs: int | None = None,
    ) -> None:
        self.folder, self.names, self.backbone, self.cache = folder, names, backbone, cache
        self._kept_folder, self._screen, self._n_jobs = kept, screen, n_jobs or -1
        self.network = backbone or ""
        """The name of the network, once it is chosen."""
        self.advice = ""
        """How to get a better one."""
        self.graph: FolderGraph | None = None
        """The graph that was kept; then there are no features."""
        self.source = ""
        """What identifies the features."""
        self.features: np.ndarray | None = None
        self.ready = np.zeros(len(names), bool)
        self.failed: dict[int, str] = {}
        """Images that cannot be read, and why."""
        self.done = 0
        self.error = ""
        """Why embedding stopped, if it did."""
        self._changed, self._stop = changed, threading.Event()
        self._given: np.ndarray | None = None
        self._thread = threading.Thread(target=self._run, name="embedding", daemon=True)

    @property
    def finished(self) -> bool:
        return self.done == len(self.names) or self.error != ""

    @property
    def kept(self) -> "KeptGraph":
        """Where the graph is kept between starts."""
        from tpn.labelling.folder_graph import KeptGraph

        return KeptGraph(self._kept_folder)

    def start(self, features: np.ndarray | None = None) -> None:
        """Begin; or take features that are there already."""
        self._given = features
        self._thread.start()

    def stop(self) -> None:
        """Stop after the present chunk."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def _run(self) -> None:
        try:
            if ("torch" if self._given is None else "sklearn") not in sys.modules:
                self._screen.wait(self._stop)
            if self._given is not None:
                self._take(self._given)
            else:
                self._embed_all()
        except TPNError as failure:
            self.error = failure.command_line_text
        except Exception as failure:  # must be seen in the page, not only in the terminal
            self.error = (
                f"Embedding has stopped ({failure!r}): the other pictures get no guesses. Your labels are safe; start "
                "`tpn studio` again to continue."
            )
        self._changed()

    def _take(self, features: np.ndarray) -> None:
        from tpn.labelling.folder_graph import source_of_features

        self.network = "features"
        self.source = source_of_features(features)
        if not self._take_kept():
            self.features, self.done = features, len(self.names)
            self.ready[:] = True

    def _embed_all(self) -> None:
        from tpn.backbones._pretrained import DEFAULT
        from tpn.labelling.folder_graph import source_of_files
        from tpn.labelling.network_choice import ADVICE, best_at_hand, name_network, published_key

        self.network = self.backbone or best_at_hand(self.cache)
        self.advice = ADVICE if self.backbone is None and self.network == DEFAULT.name else ""
        name_network(self.backbone, self.network)
        key, network = published_key(self.network), None
        if key is None:  # a network that only torch can tell from others
            network = self._find_network()
            key = network.key
        self.source = source_of_files(key, self.folder, self.names)
        if self._take_kept():
            return
        network = _loaded_once(network or self._find_network())
        with showing(False):
            for start in range(0, len(self.names), CHUNK):
                if self._stop.is_set():
                    return
                self._embed(network, start)
                self._changed()

    def _find_network(self) -> "LazyNetwork":
        import torch

        from tpn.labelling.networks import find_network

        return find_network(self.network, torch.device("cpu"), self.cache)

    def _take_kept(self) -> bool:
        """Take the graph of the same features from an earlier start, if there is one."""
        graph = self.kept.open(self.source, self._n_jobs)
        if graph is None or (len(graph.rows) and graph.rows[-1] >= len(self.names)):
            return False
        ready = np.zeros(len(self.names), bool)
        ready[graph.rows] = True
        missing = np.flatnonzero(~ready).tolist()
        if len(missing) > MOST_TRIED or any(self._is_readable(self.names[place]) for place in missing):
            return False
        self.ready, self.failed = ready, dict.fromkeys(missing, UNREADABLE)
        self.graph, self.done = graph, len(self.names)
        return True

    def _is_readable(self, name: str) -> bool:
        """Return whether an image can be read now: that it could not be read before may have been the disk's fault."""
        file = self.folder / name
        try:
            if not file.is_file() or file.stat().st_size > LARGEST_FILE:  # reading a pipe would wait
                return False
            thumbnail(file.read_bytes(), 16)
        except (OSError, NotAnImage, MemoryError):
            return False
        return True

    def _embed(self, network: "LazyNetwork", start: int) -> None:
        import torch

        from tpn.labelling.embedding import embed

        names = self.names[start : start + CHUNK]
        problems = Problems()
        try:
            used, rows = embed(self.folder, names, network, self.cache, torch.device("cpu"), problems)
        except TPNError:
            if not problems.sentences:  # not the images: the network, or the cache
                raise
            used, rows = [], np.zeros((0, 0), np.float32)
        place = {name: start + index for index, name in enumerate(names)}
        if len(used):
            if self.features is None:
                self.features = np.zeros((len(self.names), rows.shape[1]), np.float32)
            indices = np.array([place[name] for name in used])
            self.features[indices] = rows
            self.ready[indices] = True
        for name in set(names) - set(used):
            self.failed[place[name]] = UNREADABLE
        self.done = start + len(names)


def _loaded_once(network: "LazyNetwork") -> "LazyNetwork":
    """Keep the network between chunks."""
    return replace(network, load=cache(network.load))
