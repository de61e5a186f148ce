"""Embedding in the background: features arrive in chunks, while images are looked at and labelled.

torch is loaded in the thread: the page shows the first images before that.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tpn.errors import TPNError
from tpn.images.dataset_index import Problems
from tpn.progress import showing

if TYPE_CHECKING:
    from tpn.labelling.networks import LazyNetwork

CHUNK = 128


class EmbeddingWorker:
    """Embeds the images of a folder in a thread. `features[ready]` are those that are there."""

    def __init__(self, folder: Path, names: list[str], backbone: str, cache: Path, changed: Callable[[], None]) -> None:
        self.folder, self.names, self.backbone, self.cache = folder, names, backbone, cache
        self.features: np.ndarray | None = None
        self.ready = np.zeros(len(names), bool)
        self.failed: dict[int, str] = {}
        """Images that cannot be read, and why."""
        self.done = 0
        self.error = ""
        """Why embedding stopped, if it did."""
        self._changed, self._stop = changed, threading.Event()
        self._thread = threading.Thread(target=self._run, name="embedding", daemon=True)

    @property
    def finished(self) -> bool:
        return self.done == len(self.names) or self.error != ""

    def start(self, features: np.ndarray | None = None) -> None:
        """Begin; or take features that are there already."""
        if features is not None:
            self.features, self.done = features, len(self.names)
            self.ready[:] = True
            self._changed()
            return
        self._thread.start()

    def stop(self) -> None:
        """Stop after the present chunk."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def _run(self) -> None:
        try:
            import torch

            from tpn.labelling.networks import find_network

            with showing(False):
                network = _loaded_once(find_network(self.backbone, torch.device("cpu")))
                for start in range(0, len(self.names), CHUNK):
                    if self._stop.is_set():
                        return
                    self._embed(network, start)
                    self._changed()
        except TPNError as failure:
            self.error = failure.command_line_text
        except Exception as failure:  # must be seen in the page, not only in the terminal
            self.error = f"Embedding has stopped: {failure!r}."
        self._changed()

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
            self.failed[place[name]] = "it cannot be read as an image"
        self.done = start + len(names)


def _loaded_once(network: "LazyNetwork") -> "LazyNetwork":
    """Keep the network between chunks."""
    return replace(network, load=cache(network.load))
