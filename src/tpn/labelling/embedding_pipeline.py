"""Reading, decoding and embedding image files, all at once, on all cores.

Files are read first and known by their content; only what is new is decoded. On a CPU, each thread decodes a few images
and embeds them itself, with a single-threaded network: threads that share no layer never wait for each other. For a
GPU, threads decode, and the network gets large batches.
"""

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from tpn.backbones.onnx_model import OnnxModel
from tpn.errors import TPNError
from tpn.images.decoding import NotAnImage, decode
from tpn.images.file_containers import LARGEST_FILE, too_large
from tpn.labelling.feature_cache import digest, facts_of
from tpn.labelling.networks import LazyNetwork, Network

IMAGES_AT_ONCE = 32
"""The files of a batch: what is read, looked up and kept together."""
EMBEDDED_AT_ONCE = 4
"""The images that a thread embeds together: more do not fit into the caches of a core."""
KEPT_BYTES = 2**21
"""Larger files are read again to be decoded, rather than kept in memory."""

Outcome: TypeAlias = dict[bytes, np.ndarray | str]
"""Digest -> pixels or features; or the reason why there are none."""
LookUp: TypeAlias = Callable[[Iterable[bytes]], dict[bytes, np.ndarray]]


@dataclass(frozen=True)
class FileRead:
    """A file that was read: its digest, or why it cannot be used."""

    name: str
    facts: str = ""
    digest: bytes = b""
    content: bytes | None = None
    """The bytes, unless they are too many to be kept."""
    why: str = ""


@dataclass
class Batch:
    """The outcome for a few files."""

    contents: dict[str, bytes] = field(default_factory=dict)
    """Name -> digest, of files that could be read."""
    facts: dict[str, str] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """Names and reasons."""
    features: dict[bytes, np.ndarray] = field(default_factory=dict)
    """Digest -> features: those found by `look_up`, and those made."""
    made: dict[bytes, np.ndarray] = field(default_factory=dict)

    def fill(self, files: list[FileRead], outcome: Outcome, failed: Outcome) -> None:
        """Sort what came of the files into the batch; copies of a file that failed before have failed too."""
        self.made = {content: made for content, made in outcome.items() if isinstance(made, np.ndarray)}
        self.features |= self.made
        for file in files:
            if why := file.why or str(failed.get(file.digest, "")):
                self.unreadable.append((file.name, why))
            else:
                self.contents[file.name], self.facts[file.name] = file.digest, file.facts


def embed_files(
    folder: Path,
    names: Iterable[str],
    network: LazyNetwork,
    device: torch.device,
    look_up: LookUp,
    known: dict[bytes, np.ndarray],
) -> Generator[Batch, None, None]:
    """Embed files in batches, in their order; `known` and what `look_up` finds by content is not computed again.

    The network is loaded when the first image needs it. `known` may grow meanwhile, as batches are used.
    """
    remaining = iter(names)
    workers, on_cpu = torch.get_num_threads(), device.type == "cpu"
    ahead = 2 + workers * EMBEDDED_AT_ONCE // IMAGES_AT_ONCE
    reading: deque[Future[list[FileRead]]] = deque()
    waiting: deque[tuple[list[FileRead], Batch, list[Future[Outcome]]]] = deque()
    asked: set[bytes] = set()
    failed: Outcome = {}
    loaded: Network | None = None
    # decoding silences warnings for a while, and threads that do so at the same time leave them silenced
    with warnings.catch_warnings(), ThreadPoolExecutor(workers, initializer=_single_threaded) as pool:
        try:
            while True:
                while len(reading) < ahead and (part := list(islice(remaining, IMAGES_AT_ONCE))):
                    reading.append(pool.submit(_read_files, folder, part))
                if reading and len(waiting) < ahead:
                    files, batch = reading.popleft().result(), Batch()
                    new = {file.digest: file for file in files if not (file.why or file.digest in known)}
                    new = {content: file for content, file in new.items() if content not in asked}
                    asked |= new.keys()
                    batch.features = look_up(new)
                    futures = []
                    if computed := [file for content, file in new.items() if content not in batch.features]:
                        loaded = loaded or network.load()
                        groups = _groups(computed, EMBEDDED_AT_ONCE if on_cpu else IMAGES_AT_ONCE)
                        futures = [pool.submit(_compute, folder, group, loaded, on_cpu) for group in groups]
                    waiting.append((files, batch, futures))
                    continue
                if not waiting:
                    return
                files, batch, futures = waiting.popleft()
                outcome: Outcome = {}
                for future in futures:
                    outcome |= future.result()
                if loaded is not None and not on_cpu:
                    outcome = _embed_pixels(outcome, loaded, device)
                failed |= {content: why for content, why in outcome.items() if isinstance(why, str)}
                batch.fill(files, outcome, failed)
                yield batch
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(workers)


def _single_threaded() -> None:
    """Let each thread of the pool compute by itself."""
    torch.set_num_threads(1)


def _groups(files: list[FileRead], size: int) -> list[list[FileRead]]:
    return [files[start : start + size] for start in range(0, len(files), size)]


def _read_files(folder: Path, names: Sequence[str]) -> list[FileRead]:
    return [_read(folder, name) for name in names]


def _read(folder: Path, name: str) -> FileRead:
    file = folder / name
    facts = facts_of(file)
    try:
        if not file.is_file():
            return FileRead(name, why="not a regular file")
        if file.stat().st_size > LARGEST_FILE:
            return FileRead(name, why=str(too_large(file.stat().st_size)))
        content = file.read_bytes()
        return FileRead(name, facts or "", digest(content), content if len(content) <= KEPT_BYTES else None)
    except OSError as failure:
        return FileRead(name, why=failure.strerror or str(failure))


def _compute(folder: Path, group: list[FileRead], network: Network, embed: bool) -> Outcome:
    """Decode files on this thread and, if wanted, embed them here too."""
    decoded: Outcome = {}
    for file in group:
        try:
            content = (folder / file.name).read_bytes() if file.content is None else file.content
            if file.content is None and digest(content) != file.digest:
                raise NotAnImage("it changed while it was being read")
            decoded[file.digest] = decode(content, network.image_size)
        except NotAnImage as failure:
            decoded[file.digest] = str(failure)
        except OSError as failure:
            decoded[file.digest] = failure.strerror or str(failure)
    return _embed_pixels(decoded, network, torch.device("cpu")) if embed else decoded


def _embed_pixels(decoded: Outcome, network: Network, device: torch.device) -> Outcome:
    """Replace pixels by features."""
    pixels = {content: image for content, image in decoded.items() if isinstance(image, np.ndarray)}
    if not pixels:
        return decoded
    stacked = np.stack(list(pixels.values()))
    if isinstance(network.embed, OnnxModel):
        features = network.embed.embed_pixels(stacked)
    else:
        with torch.inference_mode():
            images = torch.from_numpy(stacked).to(device).permute(0, 3, 1, 2).float().div_(255)
            features = network.embed(images).float().cpu().numpy()
    if not np.isfinite(features).all():
        raise TPNError(f"{network.title} gives features that are NaN or infinite.")
    return decoded | dict(zip(pixels, features, strict=True))
