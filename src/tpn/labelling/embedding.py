"""Embedding the images of a folder: each content once, then from the cache."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tpn.errors import TPNError
from tpn.images.dataset_index import Problems
from tpn.labelling.embedding_pipeline import Batch, embed_files
from tpn.labelling.feature_cache import FeatureCache
from tpn.labelling.networks import LazyNetwork
from tpn.progress import progress
from tpn.text import printable

UNREADABLE = "images cannot be read and are left out"


@dataclass(frozen=True)
class Chunk:
    """Images that have been embedded, while the work on the others goes on."""

    names: list[str]
    features: np.ndarray
    """A row for each of `names`."""
    done: int
    """The number of files that have been dealt with so far, unreadable ones included."""
    total: int


def embed(
    folder: Path, names: Sequence[str], network: LazyNetwork, cache: Path, device: torch.device, problems: Problems
) -> tuple[list[str], np.ndarray]:
    """Embed these files of a folder. Files that cannot be read are left out, and added to `problems`.

    Returns the names of the others, in the given order, and their features.
    """
    features: dict[str, np.ndarray] = {}
    with closing(embed_in_chunks(folder, names, network, cache, device, problems)) as chunks:
        for chunk in chunks:
            features.update(zip(chunk.names, chunk.features, strict=True))
    if not features:
        raise TPNError(f"None of the files in {folder} can be read as an image. {'. '.join(problems.sentences)}.")
    used = [name for name in names if name in features]
    return used, np.stack([features[name] for name in used])


def embed_in_chunks(
    folder: Path, names: Sequence[str], network: LazyNetwork, cache: Path, device: torch.device, problems: Problems
) -> Generator[Chunk, None, None]:
    """Embed files of a folder as `embed` does, and yield them as they become ready.

    The first chunk holds everything that is in the cache already. Unreadable files appear in no chunk, only in
    `problems`. Whoever stops early loses nothing: what was yielded is in the cache. Use it in one thread.
    """
    with FeatureCache(cache) as known:
        contents = dict(zip(names, known.contents([folder / name for name in names]), strict=True))
        features = known.features(network.key, {content for content in contents.values() if content is not None})
        found = {name: features[content] for name, content in contents.items() if content in features}
        missing = [name for name in names if name not in found]
        if found:
            yield Chunk(list(found), np.stack(list(found.values())), len(found), len(names))
        with progress("embedding", len(names), "images", len(found)) as advance:
            done = len(found)
            for batch in _batches(folder, missing, network, known, features, device):
                for name, why in batch.unreadable:
                    problems.add(UNREADABLE, f"{printable(name)}: {why}")
                features |= batch.features
                done += len(batch.contents) + len(batch.unreadable)
                advance(len(batch.contents) + len(batch.unreadable))
                if batch.contents:
                    rows = np.stack([features[content] for content in batch.contents.values()])
                    yield Chunk(list(batch.contents), rows, done, len(names))


def _batches(
    folder: Path,
    missing: list[str],
    network: LazyNetwork,
    cache: FeatureCache,
    known: dict[bytes, np.ndarray],
    device: torch.device,
) -> Iterator[Batch]:
    """Embed files, and put each batch into the cache before it is passed on."""
    if not missing:
        return
    look_up = lambda contents: cache.features(network.key, contents)  # noqa: E731
    with closing(embed_files(folder, missing, network, device, look_up, known)) as batches:
        for batch in batches:
            if batch.made:
                cache.put_features(network.key, batch.made.items())
            cache.put_files((folder / name, batch.facts[name], content) for name, content in batch.contents.items())
            yield batch
