"""Building the arrays of a store: every image is decoded and resized once."""

import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.files import explaining_failure
from tpn.images.dataset_index import NAMED, DatasetIndex, Problems, Reader
from tpn.images.parallel_decoding import CHANNELS, Image, Target, decode_all, values_start
from tpn.progress import progress
from tpn.text import counted, size_text

BLOCK = 2**22
UNREADABLE = "images cannot be read and are left out"


@dataclass
class Built:
    """A split of a store under construction."""

    file: Path
    classes: dict[str, int]
    """Class -> number of images, in the order of the rows."""
    sources: np.ndarray
    """A digest of the file that each row was decoded from; 0 if it could not be read."""
    histogram: np.ndarray = field(default_factory=lambda: np.zeros((CHANNELS, 256), np.int64))
    """Channel -> how often each value occurs."""

    @property
    def images(self) -> int:
        return sum(self.classes.values())

    def statistics(self) -> tuple[list[float], list[float]]:
        """Return the mean and the standard deviation of each channel, for values from 0 to 1."""
        values = np.arange(256) / 255
        shares = self.histogram / self.histogram.sum(1, keepdims=True)
        means = shares @ values
        deviations = np.sqrt(np.maximum(shares @ values**2 - means**2, 0))
        return [round(float(mean), 6) for mean in means], [round(float(deviation), 6) for deviation in deviations]


def build(index: DatasetIndex, folder: Path, size: int) -> dict[str, Built]:
    """Write an array per split into `folder`. Unreadable images are left out and added to the index's problems."""
    built: dict[str, Built] = {}
    total = sum(count for split in index.splits.values() for count in split.counts.values())
    check_space(folder, total * size * size * CHANNELS)
    for name, split in index.splits.items():
        classes = split.counts
        built[name] = Built(folder / f"{name}.npy", classes, np.zeros(sum(classes.values()), np.uint64))
        make_file(built[name].file, built[name].images, size)
    with progress("preparing images", total, "images") as advance:
        for batch in decode_all(images_of(index), {name: done.file for name, done in built.items()}, size, total):
            for name, histogram in batch.histograms.items():
                built[name].histogram += histogram
            for targets, digest in batch.decoded:
                for target in targets:
                    built[target.split].sources[target.row] = digest
            for failure in batch.failures:
                index.problems.add(UNREADABLE, failure)
            advance(batch.images)
    for name, done in built.items():
        leave_out_gaps(done, name, index.problems, size)
    index.remarks.extend(in_two_splits(built))
    built = {name: done for name, done in built.items() if done.classes}
    for done in built.values():
        with explaining_failure(done.file), open(done.file, "rb") as stream:
            os.fsync(stream.fileno())
    return built


def images_of(index: DatasetIndex) -> Iterator[Image]:
    """Yield every image as its source holds it, with its name and the rows that it belongs to."""
    readers: dict[int, tuple[Reader, dict[Any, list[Target]]]] = {}
    for name, split in index.splits.items():
        _, targets = readers.setdefault(id(split.reader), (split.reader, {}))
        keys = (key for keys in split.classes.values() for key in keys)
        for row, key in enumerate(keys):
            targets.setdefault(key, []).append(Target(name, row))
    for reader, targets in readers.values():
        for key, content in reader.read(targets):
            yield Image(reader.describe(key), content, targets[key])


def check_space(folder: Path, needed: int) -> None:
    """Raise an error if the disk is too small for the store."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise TPNError(
            f"The prepared images need {size_text(needed)} in {folder.parent}, where {size_text(free)} are free. "
            "Free some space, or choose a smaller --image-size or another folder with --cache."
        )


def header(rows: int, size: int) -> bytes:
    """Return the header of an .npy file for this many images; its length does not depend on the number."""
    stream = io.BytesIO()
    facts = {"descr": "|u1", "fortran_order": False, "shape": (rows, size, size, CHANNELS)}
    np.lib.format.write_array_header_1_0(stream, facts)
    return stream.getvalue()


def make_file(path: Path, rows: int, size: int) -> None:
    """Create an .npy file for this many images."""
    start = header(rows, size)
    with explaining_failure(path), open(path, "wb") as stream:
        stream.write(start)
        stream.truncate(len(start) + rows * size * size * CHANNELS)


def leave_out_gaps(split: Built, name: str, problems: Problems, size: int) -> None:
    """Remove the rows of images that could not be read."""
    kept = split.sources != 0
    if kept.all():
        return
    starts = np.cumsum([0, *split.classes.values()])
    counts = {class_: int(kept[starts[i] : starts[i + 1]].sum()) for i, class_ in enumerate(split.classes)}
    for class_ in [class_ for class_, count in counts.items() if count == 0]:
        problems.add("classes have no readable image and are left out", f"{class_!r} ({name})")
        del counts[class_]
    split.classes, rows = counts, np.flatnonzero(kept)
    if split.classes:
        move_up(split.file, rows, size)
    else:
        split.file.unlink()
    split.sources = split.sources[kept]


def move_up(path: Path, rows: np.ndarray, size: int) -> None:
    """Keep only these rows of an .npy file, moving them up in place, without further disk space."""
    one, start = size * size * CHANNELS, values_start(path)
    at_once = max(1, BLOCK // one)
    with explaining_failure(path), open(path, "r+b") as stream:
        place = start
        for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
            for first in range(int(run[0]), int(run[-1]) + 1, at_once):
                stream.seek(start + first * one)
                content = stream.read(min(at_once, int(run[-1]) + 1 - first) * one)
                stream.seek(place)
                place += stream.write(content)
        stream.truncate(place)
        stream.seek(0)
        stream.write(header(len(rows), size))


def in_two_splits(built: dict[str, Built]) -> list[str]:
    """Return a remark for each pair of splits that share identical image files."""
    remarks, names = [], list(built)
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            common = np.intersect1d(built[first].sources, built[second].sources)
            if len(common):
                pairs = {tuple(class_of(built[name], digest) for name in (first, second)) for digest in common}
                examples = "; ".join(f"{one} and {other}" for one, other in sorted(pairs)[:NAMED])
                remarks.append(
                    f"{counted(len(common), f'images are both in the {first} and in the {second} split')}, in the "
                    f"classes {examples}{' …' if len(pairs) > NAMED else ''}"
                )
    return remarks


def class_of(split: Built, source: np.uint64) -> str:
    """Return the class of the first image with this digest."""
    row = np.flatnonzero(split.sources == source)[0]
    ends = np.cumsum(list(split.classes.values()))
    return list(split.classes)[int(np.searchsorted(ends, row, side="right"))]


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
