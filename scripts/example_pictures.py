"""A folder of pictures for the examples of the README: drawings that ship with the package."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image

import tpn

CLASSES = ("banana", "bicycle", "giraffe", "house", "umbrella")
EACH = 20


def write_pictures(folder: str) -> dict[str, str]:
    """Write drawings as PNG files in any order; return the class of each file."""
    split = tpn.open_images("quickdraw").split("test")
    Path(folder).mkdir()
    answers = {}
    for number, place in enumerate(np.random.default_rng(0).permutation(len(CLASSES) * EACH)):
        index, row = divmod(int(place), EACH)
        start = int(split.starts[split.classes.index(CLASSES[index])])
        pixels = 255 - np.asarray(split.images[start + row]).squeeze()
        name = f"picture-{number:03}.png"
        Image.fromarray(pixels).resize((112, 112)).save(Path(folder, name))
        answers[name] = CLASSES[index]
    return answers


def fill_in(suggestions: str, answers: dict[str, str]) -> None:
    """Write the label of each suggested picture into the list, as a user does by looking at them."""
    with open(suggestions, newline="", encoding="utf-8") as file:
        paths = [row["path"] for row in csv.DictReader(file)]
    with open(suggestions, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "label"), *((path, answers[path]) for path in paths)])
