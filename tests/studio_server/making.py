"""Folders of drawings, and workspaces of them, for the tests of the studio."""

import time
from pathlib import Path

import numpy as np
from PIL import Image

from tpn.images.opening import open_images
from tpn.labelling.labelled_folder import find_images
from tpn.labelling.session import Session, session_folder
from tpn.studio_server.workspace import Workspace

CLASSES, EACH = 3, 10


def write_drawings(folder: Path, classes: int = CLASSES, each: int = EACH) -> dict[str, str]:
    """Write drawings that ship with the package as PNG files, shuffled; return the class of each."""
    split = open_images("quickdraw").split("val")
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    pairs = [(class_, row) for class_ in range(classes) for row in range(each)]
    truth = {}
    for number, place in enumerate(rng.permutation(len(pairs))):
        class_, row = pairs[place]
        pixels = np.asarray(split.images[int(split.starts[class_]) + row]).squeeze()
        name = f"drawing {number:02}.png"
        Image.fromarray(pixels).resize((64, 64)).save(folder / name)
        truth[name] = split.classes[class_]
    return truth


def made_up_features(truth: dict[str, str], names: list[str], seed: int = 0) -> np.ndarray:
    """Return features by which classes can be told apart, so that tests need not wait for a network."""
    rng = np.random.default_rng(seed)
    centres = {name: rng.normal(0, 1, 48) for name in sorted(set(truth.values()))}
    return np.stack([centres[truth[name]] + rng.normal(0, 0.35, 48) for name in names]).astype(np.float32)


def make_workspace(folder: Path, truth: dict[str, str], cache: Path) -> Workspace:
    images = find_images(folder)
    workspace = Workspace(images, Session(session_folder(images.path, None)), "mini-conv4", cache, "drawings", 1)
    workspace.start(made_up_features(truth, images.names))
    return workspace


def until(condition, seconds=60.0):
    """Wait until a condition holds, and return its value. A server may have to load torch first, on a busy machine."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.03)
