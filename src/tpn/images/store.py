"""A store on disk: a memory-mapped array per split, and a manifest that describes it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from tpn.digests import check_digest
from tpn.errors import TPNError
from tpn.files import read_json
from tpn.images.parallel_decoding import CHANNELS
from tpn.images.source import Source
from tpn.images.split import Images, Split, SplitInfo, check_split

FORMAT = 1
MANIFEST = "manifest.json"


class Store(Images):
    """A complete store: its arrays are memory-mapped, and read when they are used."""

    channels = CHANNELS
    folder: Path

    def __init__(self, source: Source, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.spec = source.spec
        try:
            self._read_manifest(check_digest(read_json(folder / MANIFEST), folder / MANIFEST))
        except (KeyError, TypeError, ValueError, AttributeError) as failure:
            raise TPNError(f"{folder / MANIFEST} is damaged: {failure}.") from failure
        self._opened: dict[str, Split] = {}
        self._mapped: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        """The images of a split, and the bytes of their file."""

    def _read_manifest(self, manifest: dict[str, Any]) -> None:
        if manifest["format"] != FORMAT:
            raise ValueError(f"its format is {manifest['format']}")
        self.layout, self.image_size = str(manifest["layout"]), int(manifest["image_size"])
        self.mean, self.std = tuple(map(float, manifest["mean"])), tuple(map(float, manifest["std"]))
        self.problems, self.remarks = list(manifest["problems"]), list(manifest["remarks"])
        self._classes = {
            split: {str(name): int(count) for name, count in facts["classes"].items()}
            for split, facts in manifest["splits"].items()
        }
        self._checksums = {split: str(facts["sha256"]) for split, facts in manifest["splits"].items()}
        contents = json.dumps([self._classes, self._checksums], sort_keys=True)
        self.digest = hashlib.sha256(contents.encode()).hexdigest()[:16]

    def info(self) -> dict[str, SplitInfo]:
        return {split: self.source.split_info(classes) for split, classes in self._classes.items()}

    def split(self, name: str) -> Split:
        check_split(name)
        if name not in self._classes:
            raise TPNError(f"{self.spec} has no {name} split; it has {', '.join(self._classes)}.")
        if name not in self._opened:
            images = self._map(name)
            self.check_sum(name)
            classes = self._classes[name]
            starts = np.cumsum([0, *classes.values()]).astype(np.int64)
            self._opened[name] = Split(name, images, tuple(classes), starts, self.source.labelled_share)
        return self._opened[name]

    def _map(self, name: str) -> np.ndarray:
        """Map an array, and keep the map: the store may be rebuilt while it is in use."""
        if name in self._mapped:
            return self._mapped[name][0]
        path = self.folder / f"{name}.npy"
        expected = (sum(self._classes[name].values()), self.image_size, self.image_size, CHANNELS)
        try:
            images = np.load(path, mmap_mode="r", allow_pickle=False)
            raw = np.memmap(path, np.uint8, "r")
            if images.shape != expected or images.dtype != np.uint8:
                raise ValueError(f"it holds {images.shape} instead of {expected}")
        except Exception as failure:  # NumPy parses the header as Python source, with all the errors of that
            raise self._damaged(path, failure) from failure
        self._mapped[name] = np.asarray(images), raw
        return self._mapped[name][0]

    def check(self, sums: bool = False) -> None:
        """Raise an error if an array cannot be opened or, with `sums`, has changed since the store was built."""
        for name in self._checksums:
            self._map(name)
            if sums:
                self.check_sum(name)

    def check_sum(self, name: str) -> None:
        """Refuse an array that has changed since the store was built. It takes a second per gigabyte."""
        self._map(name)
        if hashlib.sha256(self._mapped[name][1].data).hexdigest() != self._checksums[name]:
            raise self._damaged(self.folder / f"{name}.npy", "its checksum is wrong")

    def _damaged(self, path: Path, why: object) -> TPNError:
        return TPNError(f"{path} is damaged: {why}. Build it again with `tpn data prepare`.")
