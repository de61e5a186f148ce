"""The cache folder: a store is built once, found again, and rebuilt when its source has changed."""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tpn.digests import with_digest
from tpn.errors import TPNError
from tpn.files import explaining_failure, file_lock, make_folder, sync_folder, write_json
from tpn.images.dataset_index import DatasetIndex, warn_of
from tpn.images.parallel_decoding import CHANNELS, uninterrupted
from tpn.images.source import Source
from tpn.images.store import FORMAT, MANIFEST, Store
from tpn.images.store_builder import build, checksum
from tpn.leftovers import UNFINISHED
from tpn.progress import say


def open_store(source: Source, size: int, cache: Path, strict: bool = False, verify: bool = False) -> Store:
    """Open the store of a source at this image size; build it first if it does not exist or its source has changed.

    Problems of the source are warnings or, with `strict`, errors. `verify` compares a store that exists with its
    checksums, and rebuilds it if they are wrong.
    """
    if cache.resolve().is_relative_to(source.path):
        raise TPNError(f"The cache {cache} lies among the images of {source.spec}: choose another --cache.")
    store = find_store(source, size, cache, verify)
    if store is None:
        if not source.path.exists():
            raise TPNError(f"{source.path} does not exist.")
        store = _build_alone(source, size, cache, strict, verify)
    elif verify and not (strict and store.problems):
        warn_of([*store.problems, *store.remarks], source.spec)
    if strict and store.problems:
        raise refusal(source.spec, store.problems)
    return store


def find_store(source: Source, size: int, cache: Path, verify: bool = False) -> Store | None:
    """Return the store of a source in its present state, if there is one; if the source is gone, its last store."""
    if source.path.exists():
        candidates = [_folder(source, size, cache)]
    else:
        candidates = sorted(cache.glob(f"{_name(source, size)}-*"))
    for folder in candidates:
        if (folder / MANIFEST).is_file():
            try:
                store = Store(source, folder)
                store.check(sums=verify)
                return store
            except TPNError:  # damaged: it will be rebuilt
                continue
    return None


def refusal(source: str, problems: Sequence[str]) -> TPNError:
    """Return the error for a source with problems, under --strict."""
    return TPNError(f"{source} has problems, which --strict does not allow: {'. '.join(problems)}.")


def _name(source: Source, size: int) -> str:
    """Return the name of a source's stores: readable, and unique for each source and size."""
    identity = json.dumps({**source.identity, "image_size": size}, sort_keys=True)
    return f"{source.kind}-{size}-{hashlib.sha256(identity.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def _folder(source: Source, size: int, cache: Path) -> Path:
    return cache / f"{_name(source, size)}-{source.container.fingerprint}"


def _build_alone(source: Source, size: int, cache: Path, strict: bool, verify: bool) -> Store:
    """Build a store, or wait for another process that does."""
    make_folder(cache)
    with file_lock(_lock(cache, _name(source, size)), wait=True, waiting=_say_waiting):
        store = find_store(source, size, cache, verify)  # built by another process in the meantime?
        if store is None:
            _sweep(cache, _name(source, size))
            _build(source, size, cache, strict)
            store = find_store(source, size, cache)
    if store is None:
        raise _changed(source)
    return store


def _lock(cache: Path, name: str) -> Path:
    return cache / f".{name}.lock"


def _say_waiting() -> None:
    say("Waiting for another process that prepares the same images …")


def _changed(source: Source) -> TPNError:
    return TPNError(f"{source.spec} changed while it was being read. Run the command again when it is complete.")


def _sweep(cache: Path, mine: str) -> None:
    """Remove what builders that were killed have left, unless another process is building there now."""
    for left in cache.glob(f".*{UNFINISHED}"):
        name = left.name[1:].rsplit("-", 2)[0]
        if name == mine:  # locked by this process
            shutil.rmtree(left, ignore_errors=True)
            continue
        with file_lock(_lock(cache, name), wait=False) as held:
            if held:
                shutil.rmtree(left, ignore_errors=True)


def _build(source: Source, size: int, cache: Path, strict: bool) -> None:
    """Build a store under a temporary name, and rename it when it is complete."""
    final = _folder(source, size, cache)
    index = source.index()
    if strict and index.problems.sentences:
        raise refusal(source.spec, index.problems.sentences)
    part = final.with_name(f".{final.name}-{os.getpid()}{UNFINISHED}")
    make_folder(part)
    try:
        with explaining_failure(final):
            _fill(part, source, index, size)
            if strict and index.problems.sentences:
                raise refusal(source.spec, index.problems.sentences)
            as_it_is_now = type(source.container)(source.container.path)
            if not final.name.endswith(as_it_is_now.fingerprint):
                raise _changed(source)
            for old in cache.glob(f"{_name(source, size)}-*"):  # damaged, or of an earlier state of the source
                shutil.rmtree(old, ignore_errors=True)
            os.rename(part, final)
            sync_folder(cache)
    finally:
        with uninterrupted():
            shutil.rmtree(part, ignore_errors=True)
    warn_of([*index.problems.sentences, *index.remarks], source.spec)


def _fill(folder: Path, source: Source, index: DatasetIndex, size: int) -> None:
    built = build(index, folder, size)
    if not built:
        raise TPNError(f"{source.spec} has no readable image. {'. '.join(index.problems.sentences)}.")
    mean, std = built.get("train", next(iter(built.values()))).statistics()
    manifest = {
        "format": FORMAT,
        "source": source.identity,
        "layout": index.layout,
        "image_size": size,
        "channels": CHANNELS,
        "mean": mean,
        "std": std,
        "splits": {name: {"sha256": checksum(split.file), "classes": split.classes} for name, split in built.items()},
        "problems": index.problems.sentences,
        "remarks": index.remarks,
    }
    write_json(folder / MANIFEST, with_digest(manifest))
