"""From the labels of images, of any kind, to named classes and the rows of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64
from torch import Tensor

from tpn.errors import TPNError
from tpn.images.split import describe
from tpn.text import as_text

UNLABELLED = -1
"""What scikit-learn and LabelPropagator write for a missing label."""

ClassNames = Sequence[str] | Mapping[Any, str]
"""The name of each class: by its number, or by its label."""


@dataclass(frozen=True)
class ClassGroups:
    """The classes of a split, and how its rows are grouped by them."""

    classes: tuple[str, ...]
    starts: Int64[np.ndarray, "bounds"]
    order: Int64[np.ndarray, "image"] | None
    """The place of each row in the data; None if the data are grouped by class already."""


def group_by_class(labels: Any, count: int, names: ClassNames | None, what: str, prefix: str = "") -> ClassGroups:
    """Group rows by class, each class in the order of its rows.

    Classes are sorted by name; numbered classes without names are in the order of their numbers. `what` names the data
    in error messages, and `prefix` is put before the name of each class.
    """
    values = _label_array(labels, what)
    if len(values) != count:
        raise TPNError(f"{what} has {count:,} images, but {len(values):,} labels.")
    if values.dtype.kind == "i" and (values == UNLABELLED).any():
        row = int(np.argmax(values == UNLABELLED))
        raise TPNError(
            f"{what} has the label -1 in row {row}, which means that the class is unknown. Leave out the rows without "
            "a class; to propagate labels to them, use tpn.LabelPropagator."
        )
    unique, numbers = np.unique(values, return_inverse=True)
    texts = [as_text(f"{prefix}{_name(label, names, what)}") for label in unique.tolist()]
    if len(set(texts)) < len(texts):
        raise TPNError(f"{what} has two classes with the same name, {max(texts, key=texts.count)!r}.")
    if names is not None:
        by_name = sorted(range(len(texts)), key=texts.__getitem__)
        texts, numbers = [texts[index] for index in by_name], np.argsort(by_name)[numbers]
    order = np.argsort(numbers, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))]).astype(np.int64)
    grouped = bool((order == np.arange(count)).all())
    return ClassGroups(tuple(texts), starts, None if grouped else order)


def _label_array(labels: Any, what: str) -> np.ndarray:
    """Labels as an array of integers or of strings."""
    try:
        values: np.ndarray = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as failure:
        raise TPNError(f"The labels of {what} cannot be read as an array: {failure}.") from failure
    if values.ndim != 1:
        shown = values if isinstance(labels, list | tuple) else labels
        raise TPNError(f"{what} needs one label for each image, not {describe(shown)}.")
    if values.dtype.kind == "O":
        values = _from_objects(values, what)
    if values.dtype.kind == "f":
        if not (np.isfinite(values).all() and (values == np.rint(values)).all()):
            raise TPNError(f"The labels of {what} are numbers with fractions or NaN: they must be integers or strings.")
    elif values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "backslashreplace")
    elif values.dtype.kind not in "iubU":
        raise TPNError(f"The labels of {what} are of type {values.dtype}: they must be integers or strings.")
    return values if values.dtype.kind == "U" else values.astype(np.int64)


def _from_objects(values: np.ndarray, what: str) -> np.ndarray:
    """Python objects (a pandas column, say) as integers, if all are, or as strings."""
    items = values.tolist()
    for row, item in enumerate(items):
        if not isinstance(item, str | int | np.integer | np.str_):
            raise TPNError(f"The label of row {row} of {what} is {item!r}: it must be an integer or a string.")
    return np.array(items if all(not isinstance(item, str) for item in items) else list(map(str, items)))


def _name(label: int | str, names: ClassNames | None, what: str) -> str:
    if names is None:
        return str(label)
    try:
        if isinstance(label, int) and label < 0 and not isinstance(names, Mapping):
            raise IndexError
        return str(names[label])  # type: ignore[index]
    except (LookupError, TypeError):
        raise TPNError(f"class_names has no name for the label {label!r} of {what}.") from None
