"""QuickDraw: 345 classes of 100 drawings each, 28x28 grey values. It ships with the package.

The split is fixed: 215 classes for training, 50 for validation and 80 for testing (`classes.json`). The drawings are
Google's Quick, Draw! data under CC BY 4.0 (`LICENSE.txt`); `scripts/make_quickdraw.py` made the archive.
"""

import json
import zipfile
from functools import cache
from importlib.resources import files

import numpy as np
from jaxtyping import UInt8

from tpn.images.split import Images, Split, SplitInfo, check_split, resize

SIZE = 28
DRAWINGS_PER_CLASS = 100
MEAN, STD = (0.0,), (1.0,)
"""Values are not normalised: the background is 0, as is the padding of convolutions. (With the drawings' own mean and
deviation, 0.154 and 0.314, TPN was half a point to a point less accurate.)"""


class QuickDraw(Images):
    """The drawings that come with the package, at their own size or resized."""

    layout = "drawings that come with the package"
    channels = 1
    mean, std = MEAN, STD

    def __init__(self, image_size: int | None = None) -> None:
        self.spec = "quickdraw"
        self.digest = "quickdraw"
        self.image_size = image_size or SIZE
        self._classes: dict[str, list[str]] = json.loads(_read("classes.json"))
        self._opened: dict[str, Split] = {}

    def info(self) -> dict[str, SplitInfo]:
        return {split: SplitInfo(len(names), len(names) * DRAWINGS_PER_CLASS) for split, names in self._classes.items()}

    def split(self, name: str) -> Split:
        check_split(name)
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name]

    def _open(self, name: str) -> Split:
        classes, images = self._classes[name], _drawings(name)
        if self.image_size != SIZE:
            images = resize(images, self.image_size)
        return Split(name, images, tuple(classes), np.arange(len(classes) + 1) * DRAWINGS_PER_CLASS)


@cache
def _drawings(split: str) -> UInt8[np.ndarray, "image height width 1"]:
    """Return all drawings of a split: decompressed once per process, 27 MB in total."""
    with files(__name__).joinpath("drawings.zip").open("rb") as archive, zipfile.ZipFile(archive) as drawings:
        images: np.ndarray = np.load(drawings.open(f"{split}.npy"), allow_pickle=False)[..., None]
    return images


def _read(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()
