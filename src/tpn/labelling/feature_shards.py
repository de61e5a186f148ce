"""Features in shards: a folder of .npy files with the names of their images, and a manifest."""

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.files import make_folder, read_json, replacing, write_json

MANIFEST = "manifest.json"
KIND, FORMAT = "tpn features", 1


@dataclass(frozen=True)
class Plan:
    """What a folder of shards is to hold: the images in order, the network, and how many images go into a shard."""

    root: str
    """The folder that names are relative to."""
    names: tuple[str, ...]
    backbone: str
    key: str
    """Identifies the network and its weights."""
    shard_size: int

    @property
    def shards(self) -> list[tuple[str, ...]]:
        return [self.names[start : start + self.shard_size] for start in range(0, len(self.names), self.shard_size)]

    @property
    def facts(self) -> dict[str, Any]:
        """What a manifest says of the plan, and what must be the same for the work to go on."""
        names = hashlib.sha256("\0".join(self.names).encode("utf-8", "surrogateescape")).hexdigest()
        return {
            "kind": KIND,
            "format": FORMAT,
            "root": self.root,
            "backbone": self.backbone,
            "network": self.key,
            "images": len(self.names),
            "names_sha256": names,
            "shard_size": self.shard_size,
        }


@dataclass(frozen=True)
class Shard:
    """What came of the images of one shard."""

    names: list[str]
    features: np.ndarray
    unreadable: list[tuple[str, str]]
    """Names and reasons."""


class ShardFolder:
    """A folder of shards that is being written. A shard counts as done once its .json file is there: it comes last."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        manifest = folder / MANIFEST
        if manifest.is_file():
            found = read_json(manifest)
            different = [name for name, value in plan.facts.items() if found.get(name) != value]
            if different:
                what = _MEANING.get(different[0], different[0])
                raise TPNError(f"{folder} holds features of another {what}. Choose a new --out.")
        elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise TPNError(f"{folder} exists and holds something else. Choose a new --out.")
        else:
            make_folder(folder)
            write_json(manifest, {**plan.facts, "complete": False})

    def missing(self) -> list[int]:
        """Return the numbers of the shards that are not done, or damaged."""
        return [number for number in range(len(self.plan.shards)) if not self._is_done(number)]

    def write(self, number: int, shard: Shard) -> None:
        """Write a shard: the features first, then the file that says they are complete."""
        stream = io.BytesIO()
        np.save(stream, np.ascontiguousarray(shard.features, np.float32))
        with replacing(self.folder / f"{_stem(number)}.npy") as file:
            file.write(stream.getvalue())
        facts = {
            "names": shard.names,
            "unreadable": [list(one) for one in shard.unreadable],
            "shape": list(shard.features.shape),
            "sha256": hashlib.sha256(stream.getvalue()).hexdigest(),
        }
        write_json(self.folder / f"{_stem(number)}.json", facts)

    def finish(self) -> None:
        """Say in the manifest that everything is there."""
        write_json(self.folder / MANIFEST, {**self.plan.facts, "complete": True, "shards": len(self.plan.shards)})

    def _is_done(self, number: int) -> bool:
        try:
            facts = read_json(self.folder / f"{_stem(number)}.json")
            content = (self.folder / f"{_stem(number)}.npy").read_bytes()
        except (TPNError, OSError):
            return False
        return facts.get("sha256") == hashlib.sha256(content).hexdigest()


_MEANING = {"root": "folder", "backbone": "network", "network": "network", "names_sha256": "list of images"}


class FeatureShards:
    """The features that `tpn embed` wrote, memory-mapped: rows are read from disk when they are used.

    It has `names` (a path for each row), `shape`, slices and rows (`shards[10:20]`, `shards[[3, 1]]`), and converts to
    one array where one is needed, as in `LabelPropagator().fit(shards, y)`.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        manifest = read_json(self.folder / MANIFEST)
        if manifest.get("kind") != KIND or manifest.get("format") != FORMAT:
            raise TPNError(f"{self.folder} does not hold features that this version of tpn can read.")
        if not manifest.get("complete"):
            raise TPNError(f"{self.folder} is not complete: run the same `tpn embed` command again to finish it.")
        self.backbone = str(manifest["backbone"])
        self.root = Path(manifest["root"])
        self.names: list[str] = []
        self.unreadable: list[tuple[str, str]] = []
        self._parts: list[np.ndarray] = []
        for number in range(int(manifest["shards"])):
            self._add(number)
        widths = {part.shape[1] for part in self._parts if len(part)}
        if len(widths) > 1:
            raise TPNError(f"{self.folder} is damaged: its shards have features of different lengths.")
        self.shape = (len(self.names), next(iter(widths), 0))
        self._starts = np.cumsum([0, *map(len, self._parts)])

    def _add(self, number: int) -> None:
        facts = read_json(self.folder / f"{_stem(number)}.json")
        file = self.folder / f"{_stem(number)}.npy"
        try:
            part = np.load(file, mmap_mode="r", allow_pickle=False)
            names, unreadable = (
                [str(name) for name in facts["names"]],
                [(str(a), str(b)) for a, b in facts["unreadable"]],
            )
        except (OSError, ValueError, EOFError, KeyError, TypeError, SyntaxError) as failure:
            raise TPNError(f"{file} is damaged: run `tpn embed` again to rebuild it.") from failure
        if part.ndim != 2 or part.dtype != np.float32 or len(part) != len(names):
            raise TPNError(f"{file} is damaged: run `tpn embed` again to rebuild it.")
        self.names += names
        self.unreadable += unreadable
        self._parts.append(part)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (row for part in self._parts for row in part)

    def __getitem__(self, rows: int | slice | Sequence[int] | np.ndarray) -> np.ndarray:
        if isinstance(rows, int | np.integer):
            return self[[int(rows)]][0]  # type: ignore[no-any-return]
        wanted = np.arange(len(self))[rows]
        shard = np.searchsorted(self._starts, wanted, side="right") - 1
        out = np.empty((len(wanted), self.shape[1]), np.float32)
        for number in np.unique(shard):
            at = np.flatnonzero(shard == number)
            out[at] = self._parts[number][wanted[at] - self._starts[number]]
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all rows: the memory map itself if there is one shard only."""
        if len(self._parts) == 1 and not copy:
            whole = np.asarray(self._parts[0])
        elif copy is False:
            raise ValueError("features in several shards cannot become one array without copying")
        else:
            whole = self[:]
        return whole if dtype is None or whole.dtype == dtype else whole.astype(dtype)


def is_shard_folder(path: Any) -> bool:
    """Return whether this is a folder that `tpn embed` has written, or begun to."""
    return isinstance(path, str | Path) and Path(path).is_dir()


def _stem(number: int) -> str:
    return f"shard-{number:06}"
