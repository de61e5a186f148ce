"""Folders of images, and labels of them, for the tests of labelling."""

from pathlib import Path

import numpy as np

from tests.images.making import encode, smooth
from tpn.labelling.folder_labels import FolderLabels

NAMES = ["a.png", "b c.png", "dir/Ünï.png", "写真/猫.png", "z.png"]


def write_images(folder, names=NAMES, seed=0):
    """Images that all differ, with these names."""
    rng = np.random.default_rng(seed)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encode(smooth(rng, 16)))
    return folder


def outcome(names, predicted, folder="nowhere", classes=("cat", "dog"), suggested=(), **arrays):
    """Labels of images, not found by any network."""
    number = len(names)
    default = {
        "confidence": np.linspace(0.5, 0.9, number),
        "given": np.zeros(number, bool),
        "kept": np.ones(number, bool),
    }
    return FolderLabels(
        folder=Path(folder),
        title="my photos",
        paths=list(names),
        classes=list(classes),
        predicted=np.array(predicted),
        **{name: np.array(arrays.get(name, values)) for name, values in default.items()},
        suggested=np.array(suggested, int),
        unreached=0,
        backbone="a network",
    )
