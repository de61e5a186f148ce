"""Decoding images on all cores: this process reads files, workers decode, resize and write into the arrays."""

import hashlib
import multiprocessing as mp
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

from tpn.errors import TPNError
from tpn.files import explaining_failure
from tpn.images.decoding import NotAnImage, decode, scale
from tpn.images.decoding_budget import pixel_budget

CHANNELS = 3
IMAGES_AT_ONCE = 64
BYTES_AT_ONCE = 2**23
FEW = 256
"""Up to this many images are decoded faster than workers start."""


@dataclass(frozen=True)
class Target:
    """The row of a split that an image belongs to."""

    split: str
    row: int


@dataclass(frozen=True)
class Image:
    """An image as its source holds it: the bytes of a file, pixels, or the error that reading it raised."""

    name: str
    content: bytes | np.ndarray | Exception
    targets: list[Target]

    @property
    def size(self) -> int:
        if isinstance(self.content, np.ndarray):
            return self.content.nbytes
        return len(self.content) if isinstance(self.content, bytes) else 0


@dataclass
class Batch:
    """The outcome of decoding a batch of images."""

    images: int
    decoded: list[tuple[list[Target], int]] = field(default_factory=list)
    """The rows that were written, and a digest of the file of each image."""
    failures: list[str] = field(default_factory=list)
    """The images that could not be read, with the reason."""
    histograms: dict[str, np.ndarray] = field(default_factory=dict)
    """Histogram of the values of each channel, by split."""


def decode_all(images: Iterable[Image], files: dict[str, Path], size: int, total: int) -> Iterator[Batch]:
    """Decode images into the rows of these .npy files, and yield the outcome of each batch, in any order."""
    batches = in_batches(images)
    with explaining_failure(next(iter(files.values())).parent):
        if total <= FEW:
            yield from (decode_batch(batch, files, size) for batch in batches)
        else:
            yield from _decode_in_processes(batches, files, size)


def _decode_in_processes(batches: Iterable[list[Image]], files: dict[str, Path], size: int) -> Iterator[Batch]:
    count = processors()
    context = mp.get_context("fork" if "fork" in mp.get_all_start_methods() else None)
    pool = ProcessPoolExecutor(count, context, initializer=_prepare_worker, initargs=(context.Lock(),))
    pending: set[Future[Batch]] = set()
    try:
        for batch in batches:
            if len(pending) >= 2 * count + 2:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
            pending.add(pool.submit(decode_batch, batch, files, size))
        yield from (future.result() for future in pending)
    except BrokenProcessPool as failure:
        raise TPNError(
            "A process that decoded images was killed, perhaps for lack of memory. Nothing incomplete is kept."
        ) from failure
    finally:
        with uninterrupted():
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore further Ctrl-C while cleaning up after the first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def processors() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_batches(images: Iterable[Image]) -> Iterator[list[Image]]:
    """Group images into batches that are large enough to send to a worker."""
    batch: list[Image] = []
    size = 0
    for image in images:
        batch.append(image)
        size += image.size
        if len(batch) >= IMAGES_AT_ONCE or size >= BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def decode_batch(batch: list[Image], files: dict[str, Path], size: int) -> Batch:
    """Decode a batch of images into their rows."""
    result = Batch(sum(len(image.targets) for image in batch))
    written: dict[str, list[np.ndarray]] = {}
    with _Rows(files, size) as rows:
        for image in batch:
            try:
                pixels, digest = _pixels(image, size)
            except NotAnImage as failure:
                result.failures.extend([f"{image.name}: {failure}"] * len(image.targets))
                continue
            for target in image.targets:
                rows.write(target, pixels)
                written.setdefault(target.split, []).append(pixels)
            result.decoded.append((image.targets, digest))
    for split, images in written.items():
        result.histograms[split] = histogram(np.stack(images))
    return result


def histogram(pixels: np.ndarray) -> np.ndarray:
    """Count how often each value occurs in each channel."""
    return np.stack([np.bincount(pixels[..., channel].ravel(), minlength=256) for channel in range(CHANNELS)])


def _pixels(image: Image, size: int) -> tuple[np.ndarray, int]:
    """Return the pixels of an image, and a digest of its file that is never 0."""
    content = image.content
    if isinstance(content, Exception):
        raise NotAnImage(str(content))
    raw = content.tobytes() if isinstance(content, np.ndarray) else content
    digest = int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little") or 1
    return (scale(content, size) if isinstance(content, np.ndarray) else decode(content, size)), digest


def values_start(path: Path) -> int:
    """Return the offset of the values in an .npy file."""
    with open(path, "rb") as stream:
        np.lib.format.read_magic(stream)
        np.lib.format.read_array_header_1_0(stream)
        return stream.tell()


class _Rows:
    """The rows of .npy files, open for writing."""

    def __init__(self, files: dict[str, Path], size: int) -> None:
        self._files, self._bytes = files, size * size * CHANNELS
        self._open: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> "_Rows":
        return self

    def write(self, target: Target, pixels: np.ndarray) -> None:
        handle, start = self._open.get(target.split) or self._opened(target.split)
        content, place = memoryview(pixels.tobytes()), start + target.row * self._bytes
        while content:  # a nearly full disk writes a part, and fails at the rest
            count = os.pwrite(handle, content, place)
            content, place = content[count:], place + count

    def _opened(self, split: str) -> tuple[int, int]:
        path = self._files[split]
        self._open[split] = os.open(path, os.O_WRONLY), values_start(path)
        return self._open[split]

    def __exit__(self, *_: object) -> None:
        for handle, _start in self._open.values():
            os.close(handle)


def _prepare_worker(large_alone: AbstractContextManager[object]) -> None:
    """Leave Ctrl-C to the main process, and end when it ends, even if it is killed. Large images take turns."""
    pixel_budget.large_alone = large_alone
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # some decoders print warnings about an image
    parent = mp.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
