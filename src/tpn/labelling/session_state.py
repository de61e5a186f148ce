"""The state of a labelling session: classes and labels, as the actions of its journal make them."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tpn.errors import TPNError
from tpn.labelling.journal import Action
from tpn.labelling.label_lists import NO_LABEL

NONE, SKIP = -2, -3
"""Marks instead of a class: the image is of none of the classes; it is not to be suggested again."""
MARKS = {"none": NONE, "skip": SKIP}
LONGEST_NAME = 200

Undo = Callable[[], None]


@dataclass
class LabelClass:
    """A class of the user's."""

    name: str
    colour: str = ""
    """As #rrggbb, or empty: one of the palette."""


@dataclass
class SessionState:
    """Classes, labels and the history of actions. `apply` is the only way to change it."""

    classes: dict[int, LabelClass] = field(default_factory=dict)
    """By number. A number is never used again, so colours stay when classes come and go."""
    marks: dict[str, int] = field(default_factory=dict)
    """Path -> number of its class, NONE or SKIP."""
    revision: int = 0
    """The number of actions so far, undo and redo included."""
    done: list[tuple[Action, Undo]] = field(default_factory=list)
    undone: list[Action] = field(default_factory=list)
    _next: int = 0

    @property
    def labels(self) -> dict[str, str]:
        """Path -> class, of the labelled images."""
        return {path: self.classes[mark].name for path, mark in self.marks.items() if mark >= 0}

    def find(self, name: Any) -> int:
        """Return the number of a class."""
        for number, class_ in self.classes.items():
            if class_.name == name:
                return number
        raise TPNError(f"There is no class {name!r}.")

    def apply(self, action: Action) -> Undo:
        """Carry out an action. Returns how to take it back as if it had never been; refuses what is not possible."""
        kind = action.get("do")
        undone = self.undone
        if kind == "undo":
            self._undo()
        elif kind == "redo":
            self._redo()
        else:
            undo = self._carry_out(action)
            self.undone = []
            self.done.append((action, undo))
        self.revision += 1

        def take_back() -> None:
            self.revision -= 1
            if kind == "undo":
                self._redo()
            elif kind == "redo":
                self._undo()
            else:
                self.done.pop()[1]()
                self.undone = undone

        return take_back

    def _undo(self) -> None:
        if not self.done:
            raise TPNError("There is nothing to undo.")
        action, undo = self.done.pop()
        undo()
        self.undone.append(action)

    def _redo(self) -> None:
        if not self.undone:
            raise TPNError("There is nothing to redo.")
        action = self.undone.pop()
        self.done.append((action, self._carry_out(action)))

    def _carry_out(self, action: Action) -> Undo:
        kinds: Mapping[Any, Callable[[Action], Undo]] = {
            "label": self._label,
            "add class": lambda action: self._add(class_name(action.get("name")), action.get("colour", ""))[1],
            "rename class": self._rename,
            "merge classes": self._merge,
            "colour class": self._colour,
            "remove class": self._remove,
        }
        kind = action.get("do")
        if not isinstance(kind, str) or kind not in kinds:
            raise TPNError(f"Unknown action {kind!r}: choose one of {', '.join(kinds)}, undo, redo.")
        return kinds[kind](action)

    def _label(self, action: Action) -> Undo:
        changes = [_check_change(change) for change in _list(action.get("changes"), "changes")]
        undos: list[Undo] = []
        for change in changes:
            if change["to"] == "label":
                name = class_name(change.get("label"))
                if any(class_.name == name for class_ in self.classes.values()):
                    mark: int | None = self.find(name)
                else:
                    mark, remove = self._add(name)
                    undos.append(remove)
            else:
                mark = MARKS.get(change["to"])
            undos.append(self._mark(change["paths"], mark))

        def undo_all() -> None:
            for undo in reversed(undos):
                undo()

        return undo_all

    def _mark(self, paths: Iterable[str], mark: int | None) -> Undo:
        before = {path: self.marks.get(path) for path in paths}

        def put(marks: Mapping[str, int | None]) -> None:
            for path, value in marks.items():
                if value is None:
                    self.marks.pop(path, None)
                else:
                    self.marks[path] = value

        put(dict.fromkeys(before, mark))
        return lambda: put(before)

    def _add(self, name: str, colour: Any = "") -> tuple[int, Undo]:
        self._check_free(name)
        number, self._next = self._next, self._next + 1
        self.classes[number] = LabelClass(name, check_colour(colour))

        def undo() -> None:
            del self.classes[number]
            self._next = number

        return number, undo

    def _rename(self, action: Action) -> Undo:
        class_, name = self.classes[self.find(action.get("name"))], class_name(action.get("to"))
        if class_.name != name:
            self._check_free(name)
        before, class_.name = class_.name, name

        def undo() -> None:
            class_.name = before

        return undo

    def _colour(self, action: Action) -> Undo:
        class_ = self.classes[self.find(action.get("name"))]
        before, class_.colour = class_.colour, check_colour(action.get("colour"))

        def undo() -> None:
            class_.colour = before

        return undo

    def _merge(self, action: Action) -> Undo:
        number, into = self.find(action.get("name")), self.find(action.get("into"))
        if number == into:
            raise TPNError("A class cannot be merged into itself.")
        return self._drop(number, into)

    def _remove(self, action: Action) -> Undo:
        return self._drop(self.find(action.get("name")), None)

    def _drop(self, number: int, into: int | None) -> Undo:
        members = [path for path, mark in self.marks.items() if mark == number]
        unmark = self._mark(members, into)
        before = dict(self.classes)
        del self.classes[number]

        def undo() -> None:
            self.classes = before
            unmark()

        return undo

    def _check_free(self, name: str) -> None:
        if any(class_.name == name for class_ in self.classes.values()):
            raise TPNError(f"There is a class {name!r} already: merge the two instead.")


def class_name(given: Any) -> str:
    """Return the name of a class without spaces around it; refuse what cannot be one."""
    if not isinstance(given, str):
        raise TPNError(f"The name of a class must be text, not {given!r}.")
    name: str = unicodedata.normalize("NFC", given.strip())
    if not name or len(name) > LONGEST_NAME or not all(mark.isprintable() for mark in name):
        raise TPNError(f"The name of a class must have 1 to {LONGEST_NAME} printable characters.")
    if name.lower() in NO_LABEL:
        raise TPNError(f"{name!r} cannot be the name of a class: it means that an image has no label.")
    return name


def check_colour(colour: Any) -> str:
    """Return a colour as #rrggbb, or empty."""
    if not isinstance(colour, str) or (colour and (len(colour) != 7 or colour[0] != "#")):
        raise TPNError(f"A colour must have the form #rrggbb, not {colour!r}.")
    if colour and any(digit not in "0123456789abcdef" for digit in colour[1:].lower()):
        raise TPNError(f"A colour must have the form #rrggbb, not {colour!r}.")
    return str(colour).lower()


def _check_change(change: Any) -> dict[str, Any]:
    if not isinstance(change, dict) or change.get("to") not in ("label", "clear", *MARKS):
        raise TPNError("Each change must have `to`: label, none, skip or clear.")
    if not all(isinstance(path, str) for path in _list(change.get("paths"), "paths")):
        raise TPNError("Each path must be text.")
    return change


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise TPNError(f"An action needs a list of {name} that is not empty.")
    return value
