"""A labelling session: the labels of a folder, changed by actions that are never lost once acknowledged."""

import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tpn.errors import TPNError
from tpn.labelling.journal import FILE, Action, Journal
from tpn.labelling.session_state import SessionState

SESSION_FOLDER = ".tpn"
"""The folder of a session, inside the folder of the images."""


class Session:
    """The labels of a folder, kept in a journal. Safe to be used by several threads.

    Every change is one action: undo takes it back as a whole. Actions may carry an `id`: an action whose id is in the
    journal already is not carried out again, so that a caller who has not heard the answer can ask again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._journal = Journal(folder)
        self._lock = threading.RLock()
        self.state = SessionState()
        self._known: dict[str, int] = {}
        for number, action in enumerate(self._journal.actions, 1):
            try:
                self.state.apply(action)
            except TPNError as failure:
                self.close()
                raise TPNError(f"{self._journal.file} is damaged: action {number} is not possible. {failure}") from None
            self._remember(action)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the session for other processes."""
        self._journal.close()

    @property
    def revision(self) -> int:
        """The number of actions so far."""
        return self.state.revision

    def act(self, action: Action) -> int:
        """Carry out an action and write it to the journal. Returns the revision that has it, once it is on disk."""
        with self._lock:
            known = self._known.get(str(action.get("id", "")))
            if known is not None:
                return known
            kept = {**action, "id": str(action.get("id") or uuid.uuid4().hex), "at": round(time.time(), 3)}
            take_back = self.state.apply(kept)
            try:
                self._journal.append(kept)
            except BaseException:
                take_back()
                raise
            return self._remember(kept)

    def _remember(self, action: Action) -> int:
        self._known[str(action.get("id", uuid.uuid4().hex))] = self.state.revision
        return self.state.revision

    def snapshot(self) -> tuple[int, dict[str, int], dict[int, str]]:
        """Return the revision, the marks (path -> number of the class) and the names of the classes, all at once."""
        with self._lock:
            names = {number: class_.name for number, class_ in self.state.classes.items()}
            return self.state.revision, dict(self.state.marks), names

    def describe(self) -> dict[str, Any]:
        """Return the classes and what can be undone, all at once."""
        with self._lock:
            classes = self.state.classes.items()
            return {
                "revision": self.state.revision,
                "classes": [{"number": number, "name": one.name, "colour": one.colour} for number, one in classes],
                "undo": describe_action(self.state.done[-1][0]) if self.state.done else "",
                "redo": describe_action(self.state.undone[-1]) if self.state.undone else "",
            }

    @property
    def labels(self) -> dict[str, str]:
        """Path -> class of the labelled images."""
        with self._lock:
            return self.state.labels

    def label(self, paths: Iterable[str], label: str) -> int:
        """Give images a label; a class of this name is made if there is none."""
        return self.act({"do": "label", "changes": [{"to": "label", "label": label, "paths": list(paths)}]})

    def mark(self, paths: Iterable[str], to: str) -> int:
        """Mark images as `none` (of the classes) or `skip`, or remove their labels (`clear`)."""
        return self.act({"do": "label", "changes": [{"to": to, "paths": list(paths)}]})

    def take(self, labels: Mapping[str, str], source: str) -> int:
        """Take labels from a list as one action; those that the session has already are left out."""
        known, groups = self.labels, dict[str, list[str]]()
        for path, label in labels.items():
            if known.get(path) != label:
                groups.setdefault(label, []).append(path)
        if not groups:
            return self.revision
        changes = [{"to": "label", "label": label, "paths": paths} for label, paths in groups.items()]
        return self.act({"do": "label", "changes": changes, "from": source})

    def undo(self) -> int:
        """Take back the last action."""
        return self.act({"do": "undo"})

    def redo(self) -> int:
        """Carry out the action again that was taken back last."""
        return self.act({"do": "redo"})


def session_folder(folder: Path, chosen: Path | None) -> Path:
    """Return where the session of a folder is: inside it, if nothing else is chosen."""
    return folder / SESSION_FOLDER if chosen is None else chosen.expanduser()


def has_session(folder: Path, chosen: Path | None = None) -> bool:
    """Return whether a session of this folder was begun."""
    return (session_folder(folder, chosen) / FILE).is_file()


def describe_action(action: Action) -> str:
    """Return an action in a few words, for the button that takes it back."""
    kind = action["do"]
    if kind == "label":
        count = sum(len(change["paths"]) for change in action["changes"])
        images = "1 image" if count == 1 else f"{count:,} images"
        if len(action["changes"]) > 1:
            return f"label {images}"
        (change,) = action["changes"]
        words = {"none": "none of these", "skip": "skip", "clear": "remove label", "label": change.get("label", "")}
        return f"{words[change['to']]}: {images}"
    return f"{kind.removesuffix(' class').removesuffix(' classes')} {action['name']}"
