"""The cache folder: stores are built once, found again, and built anew when their source has changed."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpn.errors import TPNError
from tpn.files import UNFINISHED, explaining_failure, make_folder, resolved, sync_folder, write_json
from tpn.images.dataset_index import DatasetIndex, tell
from tpn.images.parallel_decoding import CHANNELS, uninterrupted
from tpn.images.source import Source
from tpn.images.store import FORMAT, MANIFEST, Store
from tpn.images.store_builder import build, checksum

if sys.platform != "win32":
    import fcntl


def open_store(source: Source, size: int, cache: Path, strict: bool = False, verify: bool = False) -> Store:
    """The store of a source with images of this size, built now if it has not been, or its source has changed.

    What is wrong with the source is told as warnings or, if `strict`, refused. `verify` compares a store that was built
    before with its checksums, and builds it anew if they are wrong.
    """
    if cache.resolve().is_relative_to(source.path):
        raise TPNError(f"The cache {cache} lies among the images of {source.spec}: choose another with --cache.")
    store = find_store(source, size, cache, verify)
    if store is None:
        if not source.path.exists():
            raise TPNError(f"{source.path} does not exist.")
        store = _build_alone(source, size, cache, strict, verify)
    elif verify and not (strict and store.problems):
        tell([*store.problems, *store.remarks], source.spec)
    if strict and store.problems:
        raise refusal(source, store.problems)
    return store


def cache_folder(cache: Path | None) -> Path:
    """Where stores are kept: as given, or as TPN_CACHE says, or where caches are on this system."""
    named = cache or os.environ.get("TPN_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "tpn")
    return resolved(Path(named))


def find_store(source: Source, size: int, cache: Path, verify: bool = False) -> Store | None:
    """The store of a source as it is now, if it has been built. If the source is gone, the one that was built of it."""
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
            except TPNError:  # damaged: it will be built anew
                continue
    return None


def refusal(source: Source, problems: list[str]) -> TPNError:
    """Why a source is refused by those who are strict."""
    return TPNError(f"{source.spec} is refused, as --strict asks: {'. '.join(problems)}.")


def _name(source: Source, size: int) -> str:
    """The name of a source's stores: readable, and different for different sources and sizes."""
    identity = json.dumps({**source.identity, "image_size": size}, sort_keys=True)
    return f"{source.kind}-{size}-{hashlib.sha256(identity.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def _folder(source: Source, size: int, cache: Path) -> Path:
    return cache / f"{_name(source, size)}-{source.container.fingerprint}"


def _build_alone(source: Source, size: int, cache: Path, strict: bool, verify: bool) -> Store:
    """Build a store, or wait for another process that does."""
    make_folder(cache)
    with _locked(cache / f".{_name(source, size)}.lock"):
        store = find_store(source, size, cache, verify)  # built by another process in the meantime?
        if store is None:
            _sweep(cache, _name(source, size))
            _build(source, size, cache, strict)
            store = find_store(source, size, cache)
    if store is None:
        raise _changed(source)
    return store


def _changed(source: Source) -> TPNError:
    return TPNError(f"{source.spec} changed while it was being read. Run the command again when it is complete.")


def _sweep(cache: Path, mine: str) -> None:
    """Remove what processes that were killed while building have left, if nobody is building there now."""
    for left in cache.glob(f".*{UNFINISHED}"):
        name = left.name[1:].rsplit("-", 2)[0]
        if name == mine:  # locked by this process
            shutil.rmtree(left, ignore_errors=True)
            continue
        try:
            with _locked(cache / f".{name}.lock", wait=False):
                shutil.rmtree(left, ignore_errors=True)
        except BlockingIOError:
            continue


def _build(source: Source, size: int, cache: Path, strict: bool) -> None:
    """Build a store beside its place, and put it there when it is complete."""
    final = _folder(source, size, cache)
    index = source.index()
    if strict and index.problems.sentences:
        raise refusal(source, index.problems.sentences)
    part = final.with_name(f".{final.name}-{os.getpid()}{UNFINISHED}")
    make_folder(part)
    try:
        with explaining_failure(final):
            _fill(part, source, index, size)
            if strict and index.problems.sentences:
                raise refusal(source, index.problems.sentences)
            as_it_is_now = type(source.container)(source.container.path)
            if not final.name.endswith(as_it_is_now.fingerprint):
                raise _changed(source)
            for old in cache.glob(f"{_name(source, size)}-*"):  # damaged, or of the source as it was
                shutil.rmtree(old, ignore_errors=True)
            os.rename(part, final)
            sync_folder(cache)
    finally:
        with uninterrupted():
            shutil.rmtree(part, ignore_errors=True)
    tell([*index.problems.sentences, *index.remarks], source.spec)


def _fill(folder: Path, source: Source, index: DatasetIndex, size: int) -> None:
    built = build(index, folder, size)
    if not built:
        raise TPNError(f"{source.spec} has no image that can be read. {'. '.join(index.problems.sentences)}.")
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
    write_json(folder / MANIFEST, manifest)


@contextmanager
def _locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a lock file, waiting for whoever holds it now. Without locks, the last one to finish wins: all are alike."""
    if sys.platform == "win32":
        yield
        return
    with explaining_failure(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise
            print("Waiting for another process that prepares the same images …", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
