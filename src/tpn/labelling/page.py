"""A page that shows what each image was taken for, from sure to doubtful, and what to label next."""

import base64
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path

import numpy as np

from tpn.images.decoding import NotAnImage, thumbnail
from tpn.labelling.labelling import Labelled
from tpn.progress import progress
from tpn.text import as_text

MOST_IMAGES = 2400
MOST_OF_A_CLASS, LEAST_OF_A_CLASS = 40, 4
MOST_CLASSES = MOST_IMAGES // LEAST_OF_A_CLASS
SIZE = 112

STYLE = """
:root { --ink: #22262b; --faint: #6b747d; --line: #dde2e6; --accent: #2f6fde; --doubt: #e07b00; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 84rem; margin: 2rem auto;
  padding: 0 1.25rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin-bottom: .5rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; padding-bottom: .2rem; border-bottom: 2px solid var(--accent); }
h2 small { color: var(--faint); font-weight: 400; margin-left: .6rem; }
p { max-width: 60rem; margin: .4rem 0; }
nav { columns: 14rem; margin: 1rem 0; font-size: .9em; } nav a { color: var(--accent); text-decoration: none; }
nav small { color: var(--faint); }
div.row { display: flex; flex-wrap: wrap; gap: .5rem; margin: .75rem 0; }
figure { margin: 0; width: 7.2rem; }
figure div { height: 7.2rem; display: flex; align-items: center; justify-content: center; background: #f5f7f9;
  border: 3px solid transparent; border-radius: 4px; overflow: hidden; }
figure img { max-width: 100%; max-height: 100%; display: block; }
figure.given div { border-color: var(--accent); }
figure.doubtful div { border-color: var(--doubt); border-style: dashed; }
figcaption { font-size: .75em; line-height: 1.3; color: var(--faint); overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
figcaption b { color: var(--ink); font-weight: 600; }
"""


def make_page(labelled: Labelled, folder: Path, title: str, facts: Sequence[str]) -> str:
    """Make the page of a labelled folder."""
    chosen = {class_: _examples(labelled, class_) for class_ in range(min(len(labelled.classes), MOST_CLASSES))}
    wanted = sorted({int(index) for indices in [*chosen.values(), labelled.suggestions] for index in indices})
    images: dict[int, str] = {}
    with (
        warnings.catch_warnings(),  # which decoding in several threads at once may leave silenced
        ThreadPoolExecutor() as pool,
        progress("drawing", len(wanted), "images") as advance,
    ):
        for index, image in zip(wanted, pool.map(lambda i: _image(folder / labelled.names[i]), wanted), strict=True):
            images[index] = image
            advance(1)
    parts = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(fact)}</p>" for fact in facts),
        _key(labelled),
        _contents(labelled),
    ]
    if len(labelled.suggestions):
        shown = "".join(_figure(labelled, i, images[i], "guess: ") for i in map(int, labelled.suggestions))
        parts.append(
            "<h2>Label these next</h2><p>Each is typical of many doubtful images; the most helpful first.</p>"
            f"<div class=row>{shown}</div>"
        )
    for class_, indices in chosen.items():
        shown = "".join(_figure(labelled, i, images[i]) for i in map(int, indices))
        parts.append(f"{_heading(labelled, class_, len(indices))}<div class=row>{shown}</div>")
    if len(labelled.classes) > MOST_CLASSES:
        parts.append(f"<p>{len(labelled.classes) - MOST_CLASSES:,} more classes are not shown.</p>")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _examples(labelled: Labelled, class_: int) -> np.ndarray:
    """Images of a class: given ones first, then from the surest to the most doubtful, evenly spread if many."""
    room = max(LEAST_OF_A_CLASS, min(MOST_OF_A_CLASS, MOST_IMAGES // len(labelled.classes)))
    members = np.flatnonzero(labelled.best == class_)
    order = members[np.lexsort((-labelled.confidence[members], ~labelled.given[members]))]
    given = order[labelled.given[order]][: max(1, room // 4)]
    others = order[~labelled.given[order]]
    room = min(room - len(given), len(others))
    spread = np.unique(np.linspace(0, len(others) - 1, room).round().astype(int)) if room else np.zeros(0, int)
    return np.concatenate([given, others[spread]])


def _image(file: Path) -> str:
    """An image as part of the page; nothing if it cannot be read (any more)."""
    try:
        if not file.is_file():  # a pipe would wait for somebody to fill it
            return ""
        return base64.b64encode(thumbnail(file.read_bytes(), SIZE)).decode()
    except (OSError, NotAnImage):
        return ""


def _figure(labelled: Labelled, index: int, thumbnail: str, before: str = "") -> str:
    given, kept = labelled.given[index], labelled.kept[index]
    kind = " class=given" if given else "" if kept else " class=doubtful"
    name = escape(as_text(labelled.names[index]), quote=True)
    sure = "given" if given else f"{100 * labelled.confidence[index]:.0f} %"
    label = f"{escape(before + labelled.classes[labelled.best[index]])} · " if before else ""
    image = f'<img src="data:image/jpeg;base64,{thumbnail}" alt="{name}">' if thumbnail else "not to be had"
    return (
        f'<figure{kind} title="{name}"><div>{image}</div><figcaption>{label}<b>{sure}</b> {name}</figcaption></figure>'
    )


def _count(labelled: Labelled, class_: int) -> tuple[int, int, int]:
    """Given, labelled and too doubtful images of a class."""
    members = labelled.best == class_
    given, kept = members & labelled.given, members & labelled.kept
    return int(given.sum()), int((kept & ~labelled.given).sum()), int((members & ~labelled.kept).sum())


def _heading(labelled: Labelled, class_: int, shown: int) -> str:
    given, found, doubtful = _count(labelled, class_)
    total = given + found + doubtful
    words = [f"{given:,} given", f"{found:,} labelled", *([f"{doubtful:,} too doubtful"] if doubtful else [])]
    more = f", {shown:,} of {total:,} shown" if shown < total else ""
    return f"<h2 id=class-{class_}>{escape(labelled.classes[class_])}<small>{', '.join(words)}{more}</small></h2>"


def _contents(labelled: Labelled) -> str:
    links = [
        f"<a href=#class-{class_}>{escape(labelled.classes[class_])}</a> "
        f"<small>{sum(_count(labelled, class_)):,}</small>"
        for class_ in range(min(len(labelled.classes), MOST_CLASSES))
    ]
    return f"<nav>{'<br>'.join(links)}</nav>"


def _key(labelled: Labelled) -> str:
    said = "Each class from the surest to the most doubtful; blue frames: labels that were given"
    doubtful = "; dashed frames: too doubtful, left without a label" if not labelled.kept.all() else ""
    return f"<p>{said}{doubtful}.</p>"
