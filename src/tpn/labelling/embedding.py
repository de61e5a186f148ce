"""Embedding the images of a folder: each content once, then from the cache."""

import warnings
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from tpn.errors import TPNError
from tpn.images.dataset_index import Problems
from tpn.images.decoding import NotAnImage, decode
from tpn.images.file_containers import LARGEST_FILE, too_large
from tpn.labelling.feature_cache import FeatureCache, digest, facts_of
from tpn.labelling.networks import LazyNetwork, Network
from tpn.progress import progress
from tpn.text import printable

IMAGES_AT_ONCE = 32
UNREADABLE = "images cannot be read and are left out"


@dataclass(frozen=True)
class Decoded:
    """A file that was read: pixels, or why there are none."""

    name: str
    facts: str = ""
    content: bytes = b""
    """A digest."""
    pixels: np.ndarray | None = None
    why: str = ""
    """Why it is not an image, if so."""


def embed(
    folder: Path, names: Sequence[str], network: LazyNetwork, cache: Path, device: torch.device, problems: Problems
) -> tuple[list[str], np.ndarray]:
    """Embed these files of a folder. Files that cannot be read are left out, and added to `problems`.

    Returns the names of the others, and their features.
    """
    with FeatureCache(cache) as known:
        contents = dict(zip(names, known.contents([folder / name for name in names]), strict=True))
        features = known.features(network.key, {content for content in contents.values() if content is not None})
        missing = [name for name, content in contents.items() if content is None or content not in features]
        if missing:
            loaded = network.load()
            with (
                progress("embedding", len(names), "images", len(names) - len(missing)) as advance,
                closing(_decoded(folder, missing, loaded.image_size)) as batches,
            ):
                for batch in batches:
                    for one in batch:
                        if one.why:
                            problems.add(UNREADABLE, f"{printable(one.name)}: {one.why}")
                        else:
                            contents[one.name] = one.content
                    features |= _embed_batch(folder, batch, loaded, known, features, device)
                    advance(len(batch))
        used = [name for name in names if contents[name] in features]
        if not used:
            raise TPNError(f"None of the files in {folder} can be read as an image. {'. '.join(problems.sentences)}.")
        return used, np.stack([features[contents[name]] for name in used])  # type: ignore[index]


def _embed_batch(
    folder: Path,
    batch: list[Decoded],
    network: Network,
    cache: FeatureCache,
    features: dict[bytes, np.ndarray],
    device: torch.device,
) -> dict[bytes, np.ndarray]:
    """Embed what is new in a batch, and put it into the cache."""
    read = [one for one in batch if not one.why]
    contents = [one.content for one in read]
    found = cache.features(network.key, [content for content in contents if content not in features])
    new = {one.content: one.pixels for one in read if one.content not in features and one.content not in found}
    if new:
        pixels = torch.from_numpy(np.stack([pixels for pixels in new.values() if pixels is not None]))
        with torch.inference_mode():
            images = pixels.to(device).permute(0, 3, 1, 2).float().div_(255)
            embedded = network.embed(images).float().cpu().numpy()
        if not np.isfinite(embedded).all():
            raise TPNError(f"{network.title} gives features that are NaN or infinite.")
        made = dict(zip(new, embedded, strict=True))
        cache.put_features(network.key, made.items())
        found |= made
    cache.put_files((folder / one.name, one.facts, one.content) for one in read)
    return found


def _decoded(folder: Path, names: Iterable[str], size: int) -> Generator[list[Decoded], None, None]:
    """Read and decode files in batches, the next ones while the last is being embedded."""
    remaining = iter(names)
    batches = iter(lambda: list(islice(remaining, IMAGES_AT_ONCE)), [])
    # decoding silences warnings for a while, and threads that do so at the same time leave them silenced
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        waiting = [pool.map(lambda name: _decode(folder, name, size), batch) for batch in islice(batches, 2)]
        try:
            while waiting:
                yield list(waiting.pop(0))
                waiting += [pool.map(lambda name: _decode(folder, name, size), batch) for batch in islice(batches, 1)]
        finally:
            pool.shutdown(cancel_futures=True)


def _decode(folder: Path, name: str, size: int) -> Decoded:
    file = folder / name
    facts = facts_of(file)
    try:
        if not file.is_file():
            return Decoded(name, why="not a regular file")
        if file.stat().st_size > LARGEST_FILE:
            return Decoded(name, why=str(too_large(file.stat().st_size)))
        content = file.read_bytes()
        return Decoded(name, facts or "", digest(content), decode(content, size))
    except OSError as failure:
        return Decoded(name, why=failure.strerror or str(failure))
    except NotAnImage as failure:
        return Decoded(name, why=str(failure))
