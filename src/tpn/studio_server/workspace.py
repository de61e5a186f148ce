"""A folder that is open in the studio: session, features, guesses and pictures together."""

import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.labelling.exports import FORMATS, parse_export
from tpn.labelling.folder_labels import FolderLabels
from tpn.labelling.labelled_folder import LabelledFolder, label_by_list
from tpn.labelling.session import Session
from tpn.labelling.session_state import NONE
from tpn.progress import showing
from tpn.studio_server.embedding_worker import EmbeddingWorker
from tpn.studio_server.events import Events
from tpn.studio_server.first_screen import FirstScreen
from tpn.studio_server.guess_worker import GuessWorker
from tpn.studio_server.marks import Marks, as_codes, is_given
from tpn.studio_server.standing import Standing
from tpn.studio_server.thumbnails import Thumbnails
from tpn.text import as_text, printable

NEAREST = 6
MOST_NAMED = 50
KEPT = "graph"
"""The folder in the session that keeps the graph between starts."""


class Workspace:
    """Everything that the pages of one folder share."""

    def __init__(
        self,
        images: LabelledFolder,
        session: Session,
        backbone: str | None,
        cache: Path,
        title: str,
        n_jobs: int | None = None,
    ) -> None:
        self.images, self.session, self.title = images, session, title
        self.events, self.standing, self.thumbnails = Events(), Standing(), Thumbnails(cache)
        self.marks, self.screen = Marks(session, images.names), FirstScreen()
        self.feed = EmbeddingWorker(
            images.path, images.names, backbone, cache, session.folder / KEPT, self._fed, self.screen, n_jobs
        )
        self.worker = GuessWorker(self.marks, self.feed, self._told, n_jobs)
        self._writing = threading.Lock()

    def start(self, features: np.ndarray | None = None) -> None:
        """Begin to embed and to guess."""
        self.worker.start()
        self.feed.start(features)

    def close(self) -> None:
        """Stop everything; the session is released."""
        self.events.close()
        self.feed.stop()
        self.worker.stop()
        self.thumbnails.close()
        self.session.close()

    def _fed(self) -> None:
        self.events.send(kind="progress", **self.progress())
        self.worker.wake()

    def _told(self, **event: Any) -> None:
        if event.get("kind") in ("guesses", "check"):
            newest, given, ready = self.worker.published, is_given(self.marks.read()[1]), self.feed.ready
            confidence = np.where(given, 1.0, newest.confidence / 10_000)[ready]
            self.standing.add(int(given.sum()), confidence, given[ready], self.worker.check)
        self.events.send(**event)

    # actions

    def act(self, action: Any) -> int:
        """Carry out an action of a page, whose images are numbers."""
        if not isinstance(action, dict) or not isinstance(action.get("id", ""), str):
            raise TPNError("An action must be an object with an id that is text.")
        known = ("do", "id", "name", "to", "into", "colour")
        plain = {key: action[key] for key in known if key in action}
        if "changes" in action:
            plain["changes"] = [self._with_paths(change) for change in _list(action["changes"])]
        revision = self.session.act(plain)
        self.worker.wake()
        self.events.send(kind="acted", do=plain.get("do"), revision=revision)
        return revision

    def _with_paths(self, change: Any) -> dict[str, Any]:
        if not isinstance(change, dict):
            raise TPNError("Each change must be an object.")
        numbers = _list(change.get("images"))
        names = self.images.names
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < len(names) for n in numbers):
            raise TPNError(f"Images must be numbers from 0 to {len(names) - 1}.")
        rest = {key: change[key] for key in ("to", "label") if key in change}
        return {**rest, "paths": [names[number] for number in numbers]}

    def take_list(self, name: str, text: str) -> dict[str, Any]:
        """Take the labels of a list that was chosen in the page."""
        suffix = ".json" if name.lower().endswith(".json") else ".csv"
        listed = LabelledFolder(self.images.path, self.images.names, {})
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"list{suffix}"
            file.write_text(text, encoding="utf-8")
            label_by_list(listed, [file])
        before = self.session.labels
        new = sum(before.get(path) != label for path, label in listed.labels.items())
        self.session.take(listed.labels, printable(name))
        self.worker.wake()
        self.events.send(kind="acted", revision=self.session.revision)
        return {"taken": new, "notes": listed.problems.sentences}

    def export(self, text: str, min_confidence: float, force: bool) -> dict[str, Any]:
        """Write labels in one of the formats."""
        export = parse_export(text)
        target = Path(os.path.expanduser(export.path))
        export = export._replace(path=target)
        with self._writing, showing(False):
            export.check(self.images.path, force)
            return {"labels": export.write(self.folder_labels(min_confidence)), "path": str(target.absolute())}

    def folder_labels(self, min_confidence: float = 0.0) -> FolderLabels:
        """Return labels and guesses as `tpn.label_folder` does."""
        from tpn.labelling.session_engine import Guesses
        from tpn.labelling.session_guesses import as_folder_labels

        _, marks, names = self.session.snapshot()
        numbers = sorted(names, key=lambda number: names[number])
        place = {number: index for index, number in enumerate(numbers)} | {NONE: len(numbers)}
        count = len(self.images.names)
        codes = np.full(count, -1)
        for path, mark in marks.items():
            if path in self.marks.index and mark in place:
                codes[self.marks.index[path]] = place[mark]
        newest = self.worker.published
        table = np.full(2**15, -1)
        for number, index in place.items():
            if number >= 0:
                table[number] = index
        best = np.where(newest.best >= 0, table[newest.best], np.where(newest.best == NONE, len(numbers), -1))
        best = np.where((codes >= 0)[:, None] & (np.arange(3) == 0), codes[:, None], best)  # newer than the guesses
        confidence = np.where(codes >= 0, 1.0, np.minimum(newest.confidence / 10_000, 0.9999))
        guesses = Guesses(
            best, newest.probability / 255, confidence, newest.familiarity / 255, codes >= 0, np.zeros(count, bool)
        )
        found = as_folder_labels(
            self.images.path, self.images.names, [names[number] for number in numbers], codes, guesses,
            self.worker.groups, self.worker.suggested,
        )  # fmt: skip
        found.kept[:] &= found.given | (confidence >= min_confidence)
        gone = [place for place in np.flatnonzero(found.kept) if not (self.images.path / found.paths[place]).exists()]
        found.kept[gone] = False
        return found

    # what pages ask for

    def progress(self) -> dict[str, Any]:
        """Return how far embedding is."""
        feed = self.feed
        return {"done": feed.done, "total": len(feed.names), "failed": len(feed.failed), "error": feed.error}

    def state(self) -> dict[str, Any]:
        """Return everything but the single images."""
        newest, check = self.worker.published, self.worker.check
        names = self.images.names
        contradicted = [
            {"image": int(self.worker.rows[one.index]), "given": one.given, "other": one.other, "sure": one.probability}
            for one in (check.contradictions if check is not None else [])
        ]
        return {
            **self.session.describe(),
            "title": self.title,
            "folder": as_text(str(self.images.path)),
            "folder_gone": not self.images.path.is_dir(),
            "images": len(names),
            "progress": self.progress(),
            "failed": [as_text(names[place]) for place in list(self.feed.failed)[:MOST_NAMED]],
            "notes": self.images.problems.sentences,
            "guesses": {"version": newest.version, "revision": newest.revision, "seconds": newest.seconds},
            "standing": {**self.standing.describe(), "labels": int(is_given(self.marks.read()[1]).sum())},
            "check": contradicted,
            "map": self.worker.map is not None,
            "error": self.worker.error,
            "backbone": self.feed.network,
            "advice": self.feed.advice,
            "formats": {name: {"title": one.title, "folder": one.folder} for name, one in FORMATS.items()},
        }

    def arrays(self, have: int = -1) -> bytes:
        """Return marks and guesses of all images, column by column, in little-endian numbers.

        Guesses of the version that the page has already are left out: then flags come after the marks.

        A header of four uint32: number of images, version of the guesses, their revision, revision of the marks. Then
        mark (int16), best classes (3 x int16, by rank), confidence (uint16), probabilities (3 x uint8, by rank),
        familiarity and flags (uint8: 1 embedded, 2 unreadable).
        """
        newest = self.worker.published
        revision, mark = self.marks.read()
        count = len(self.images.names)
        flags = self.feed.ready.astype(np.uint8)
        flags[list(self.feed.failed)] = 2
        guesses: list[np.ndarray] = [
            newest.best.T.astype("<i2"),
            newest.confidence.astype("<u2"),
            newest.probability.T,
            newest.familiarity,
        ]
        head = np.array([count, newest.version, newest.revision, revision], "<u4")
        parts = [head, mark.astype("<i2"), *([] if have == newest.version else guesses), flags]
        return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)

    def detail(self, number: int) -> dict[str, Any]:
        """Return what is known of one image: its path, and the labelled images that are nearest to it."""
        names = self.images.names
        near: list[int] = []
        worker = self.worker
        points, rows = worker.points, worker.rows
        place = int(np.searchsorted(rows, number))
        if points is not None and place < len(rows) and rows[place] == number:
            from tpn.labelling.session_neighbours import nearest_labelled

            labelled = np.flatnonzero(as_codes(self.marks.read()[1])[rows] >= 0)
            near = (
                [int(rows[one]) for one in nearest_labelled(points, labelled, place, NEAREST)] if len(labelled) else []
            )
        file = self.images.path / names[number]
        try:
            size = file.stat().st_size
        except OSError:
            size = -1
        group = int(worker.groups[number])
        alike = np.flatnonzero(worker.groups == group).tolist() if group >= 0 else []
        return {"image": number, "path": as_text(names[number]), "bytes": size, "near": near, "alike": alike}


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TPNError("A list was expected.")
    return value
