"""The page that shows the labels of a folder: each class from the most to the least confident image."""

import base64
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tpn.images.decoding import NotAnImage, thumbnail
from tpn.labelling.folder_labels import FolderLabels
from tpn.progress import progress
from tpn.text import as_text, counted

MOST_IMAGES = 2400
MOST_OF_A_CLASS, LEAST_OF_A_CLASS = 60, 4
MOST_CLASSES = MOST_IMAGES // LEAST_OF_A_CLASS
SIZE = 112
SECOND_SHOWN = 0.1
"""A second guess of less confidence is not shown."""
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)


def make_page(labels: FolderLabels) -> str:
    """Make the page (HTML) of a labelled folder; it holds all images that it shows."""
    examples = {class_: choose_examples(labels, class_) for class_ in range(min(len(labels.classes), MOST_CLASSES))}
    place = {path: index for index, path in enumerate(labels.paths)}
    contradicted = labels.contradicted[:MOST_OF_A_CLASS]
    doubted = [place[path] for path, *_ in contradicted]
    shown = [*examples.values(), labels.suggested, np.array(doubted, int)]
    wanted = sorted({int(index) for indices in shown for index in indices})
    thumbnails = _thumbnails(labels, wanted)
    counts = f"{counted(len(labels.paths), 'images')}, {counted(len(labels.classes), 'classes')}"
    return TEMPLATES.get_template("page.html").render(
        title=f"{labels.title}: {counts}",
        totals=labels.totals(),
        backbone=as_text(labels.backbone),
        some_doubtful=not labels.kept.all(),
        suggestions=[_figure(labels, i, thumbnails, guess=True) for i in map(int, labels.suggested)],
        contradicted=[
            {**_figure(labels, index, thumbnails), "seems": f"{other} ({100 * sure:.0f} %)", "given": label}
            for index, (_, label, other, sure) in zip(doubted, contradicted, strict=True)
        ],
        doubt=labels.doubt(),
        classes=[_section(labels, class_, indices, thumbnails) for class_, indices in examples.items()],
        more_classes=counted(len(labels.classes) - MOST_CLASSES, "more classes are")
        if len(labels.classes) > MOST_CLASSES
        else "",
    )


def choose_examples(labels: FolderLabels, class_: int) -> np.ndarray:
    """Choose images of a class: a few given ones first, then from the most to the least confident.

    If there are many, a third is spread evenly, and the others are the least confident ones: mistakes are there.
    """
    room = max(LEAST_OF_A_CLASS, min(MOST_OF_A_CLASS, MOST_IMAGES // len(labels.classes)))
    members = np.flatnonzero(labels.predicted == class_)
    order = members[np.lexsort((-labels.confidence[members], ~labels.given[members]))]
    given = order[labels.given[order]][: max(1, room // 5)]
    others = order[~labels.given[order]]
    room = min(room - len(given), len(others))
    if room == 0:
        return np.asarray(given)
    tail = len(others) - (2 * room) // 3 if room < len(others) else 0
    spread = np.linspace(0, tail, room - (len(others) - tail), endpoint=False).astype(int)
    return np.concatenate([given, others[spread], others[tail:]])


def _thumbnails(labels: FolderLabels, wanted: list[int]) -> dict[int, str]:
    files = [labels.folder / labels.paths[index] for index in wanted]
    thumbnails: dict[int, str] = {}
    with (
        warnings.catch_warnings(),  # which decoding in several threads at once may leave silenced
        ThreadPoolExecutor() as pool,
        progress("drawing", len(wanted), "images") as advance,
    ):
        for index, image in zip(wanted, pool.map(_thumbnail, files), strict=True):
            thumbnails[index] = image
            advance(1)
    return thumbnails


def _thumbnail(file: Path) -> str:
    """Return a small JPEG in base64, or an empty text if the image cannot be read (any more)."""
    try:
        if not file.is_file():  # reading a pipe would wait for somebody to fill it
            return ""
        return base64.b64encode(thumbnail(file.read_bytes(), SIZE)).decode()
    except (OSError, NotAnImage):
        return ""


def _section(labels: FolderLabels, class_: int, indices: np.ndarray, thumbnails: dict[int, str]) -> dict[str, Any]:
    given, found, doubtful = labels.count(class_)
    total = given + found + doubtful
    words = [f"{given:,} given", f"{found:,} labelled", *([f"{doubtful:,} too doubtful"] if doubtful else [])]
    words += [f"{len(indices):,} of {total:,} shown"] if len(indices) < total else []
    figures = [_figure(labels, index, thumbnails) for index in map(int, indices)]
    return {"name": labels.classes[class_], "total": f"{total:,}", "counts": ", ".join(words), "figures": figures}


def _figure(labels: FolderLabels, index: int, thumbnails: dict[int, str], guess: bool = False) -> dict[str, str]:
    given = labels.given[index]
    return {
        "kind": "given" if given else "" if labels.kept[index] else "doubtful",
        "path": as_text(labels.paths[index]),
        "image": thumbnails[index],
        "confidence": "given" if given else f"{100 * labels.confidence[index]:.0f} %",
        "guess": labels.classes[labels.predicted[index]] if guess and labels.predicted[index] >= 0 else "",
        "seems": "",
        "second": _second(labels, index) if not given else "",
    }


def _second(labels: FolderLabels, index: int) -> str:
    """Return the second guess of an image, if it is worth a word."""
    if labels.second is None or labels.second_confidence is None or labels.second[index] < 0:
        return ""
    sure = float(labels.second_confidence[index])
    return f"or {labels.classes[labels.second[index]]} {100 * sure:.0f} %" if sure >= SECOND_SHOWN else ""
