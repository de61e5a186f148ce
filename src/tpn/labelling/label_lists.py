"""Reading the labels that are known: csv files and, in Python, mappings, pairs and data frames."""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tpn.errors import TPNError
from tpn.files import read_limited
from tpn.labelling.label_json import read_json_labels
from tpn.labelling.spreadsheet_cells import without_guard
from tpn.text import printable

KnownLabels: TypeAlias = str | Path | Mapping[str, str] | Iterable[Any]
DELIMITERS = ",;\t|"
NO_LABEL = {"unlabelled", "unlabeled", "-1"}
"""Texts in the column of labels that mean that an image has none (in small letters)."""
NAMES_OF_COLUMNS = {"file_name": "path"}
"""What other tools call our columns."""


class KnownLabel(NamedTuple):
    """The label of an image, and where it was given."""

    path: str
    label: str
    where: str
    guess: bool = False
    """It was written by `tpn label`, with a confidence below 1, and not changed since."""
    source: int = 0
    """The list that it is from: later lists override earlier ones."""


def label_files(labels: KnownLabels) -> list[Path] | None:
    """Return the csv files, if the labels are given as such."""
    if isinstance(labels, str | os.PathLike):
        return [Path(labels)]
    if isinstance(labels, list | tuple) and all(isinstance(one, str | os.PathLike) for one in labels):
        return [Path(one) for one in labels]
    return None


def read_labels(labels: KnownLabels) -> Iterator[KnownLabel]:
    """Read labels of any kind; entries without a label are left out."""
    files = label_files(labels)
    if files is not None:
        for source, file in enumerate(files):
            if file.suffix.lower() == ".json":
                for number, path, label in read_json_labels(file):
                    if has_label(label):
                        yield KnownLabel(path, label, f"{file.name}, entry {number}", source=source)
                continue
            for number, path, label, guess in read_rows(file):
                yield KnownLabel(path, label, f"{file.name}, row {number}", guess, source)
        return
    for number, pair in enumerate(_pairs(labels), 1):
        try:
            path, label = pair
            path = os.fspath(path)
        except (TypeError, ValueError):
            raise TPNError(f"Entry {number} of --labels is {pair!r}: it must be a pair of path and label.") from None
        missing = label is None or label != label  # NaN, as in a data frame
        if not missing and has_label(str(label)):
            yield KnownLabel(path, str(label).strip(), f"entry {number}")


def _pairs(labels: Any) -> Iterable[Any]:
    if hasattr(labels, "columns"):  # a data frame
        for column in ("path", "label"):
            if column not in labels.columns:
                raise TPNError(f"The table of --labels has no column {column!r}: it must have path and label.")
        return zip(labels["path"], labels["label"], strict=True)
    pairs: Iterable[Any] = labels.items() if hasattr(labels, "items") else labels  # a mapping or a Series, or pairs
    return pairs


def has_label(text: str) -> bool:
    """Return whether a text is a label: it is not empty, and does not say that there is none."""
    return text.strip() != "" and text.strip().lower() not in NO_LABEL


def is_guess(row: Mapping[str, str]) -> bool:
    """Return whether the label of a row is a guess of `tpn label`: its confidence is below 1, and it is as written."""
    try:
        confidence = float(row.get("confidence", "").replace(",", ".") or 1)
    except ValueError:
        return False
    return confidence < 1 and row.get("source") != "doubtful" and row.get("guess") in (None, "", row["label"])


def read_rows(file: Path) -> list[tuple[int, str, str, bool]]:
    """Return row number, path, label, and whether it is a guess, of each row of a csv file that has a label.

    The path may be called `file_name`, as Hugging Face's imagefolder has it.
    """
    text = read_text(file)
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=first.count) if any(mark in first for mark in DELIMITERS) else ","
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as failure:
        raise TPNError(f"{file} is not a csv file: {failure}.") from failure
    header: list[str] | None = None
    found = []
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if header is None:
            header = [NAMES_OF_COLUMNS.get(cell.lower(), cell.lower()) for cell in cells]
            if missing := [column for column in ("path", "label") if column not in header]:
                raise TPNError(
                    f"{file} has no column {missing[0]!r}: its first row must name the columns path and label, such as "
                    f"`path,label`, and it is {printable(first)[:80]!r}."
                )
            continue
        if len(cells) < len(header) and header.index("path") >= len(cells):
            raise TPNError(f"{file} is incomplete in row {number}.")
        path = row[header.index("path")]
        label = cells[header.index("label")] if header.index("label") < len(cells) else ""
        label, path = without_guard(label), without_guard(path)
        if label and not path.strip():
            raise TPNError(f"{file} has a label without a path in row {number}.")
        if has_label(label):
            rest = {name: without_guard(cell) for name, cell in zip(header, cells, strict=False)}
            found.append((number, path, label, is_guess({**rest, "label": label})))
    return found


def read_text(file: Path) -> str:
    """Read a text file in UTF-16 (if its first bytes say so), UTF-8 or Windows-1252."""
    try:
        content = read_limited(file)
    except OSError as failure:
        raise TPNError(f"Cannot read {file}: {failure.strerror or failure}.") from failure
    marks = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    named = next((encoding for mark, encoding in marks.items() if content.startswith(mark)), None)
    for encoding in [named] if named else ["utf-8-sig", "cp1252"]:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise TPNError(f"{file} is not a text file: save it as csv in UTF-8.")
