"""`tpn embed` on a Ray cluster of two workers, one of which is killed half-way: beside the same without Ray.

    python -m benchmarks ray-embedding

1,000 made-up images, mini-conv4. Every feature must be there, and be equal to the one made without Ray. Needs Ray.
"""

import os
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import tpn
from tpn.labelling import shard_workers

IMAGES, SHARD, WORKERS = 1000, 25, 2


def main(images: int = IMAGES) -> None:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        write_images(folder / "photos", images)
        options: dict[str, Any] = {"backbone": "mini-conv4", "shard_size": SHARD, "progress": False, "threads": 1}
        start = time.perf_counter()
        here = tpn.embed_images(folder / "photos", folder / "here", **options)
        alone = time.perf_counter() - start
        killed = kill_half_way(here.shards)
        start = time.perf_counter()
        cluster = tpn.embed_images(folder / "photos", folder / "cluster", ray="local", workers=WORKERS, **options)
        seconds = time.perf_counter() - start
        one, other = tpn.open_features(here.folder), tpn.open_features(cluster.folder)
        assert killed, "no worker was killed"
        assert one.names == other.names, "not the same images"
        difference = np.abs(np.asarray(one) - np.asarray(other)).max() / np.abs(np.asarray(one)).max()
    print(f"{images:,} images by {WORKERS} Ray workers, one killed after {killed[0][1]} of {here.shards} shards")
    print(f"  features of {len(other):,} of {images:,} images; largest difference {difference:.1e} of the largest one")
    print(f"  {seconds:.1f} s with the start of Ray; {alone:.1f} s without Ray, on one thread", flush=True)


def write_images(folder: Path, number: int) -> None:
    """Write images that all differ."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    for index in range(number):
        coarse = chance.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((84, 84)).save(folder / f"{index:05}.jpg")


def kill_half_way(shards: int) -> list[tuple[int, int]]:
    """Have a worker killed once half of the shards are there; the list then has its process, and the shards so far."""
    killed: list[tuple[int, int]] = []
    on_ray = shard_workers.embed_on_ray

    def killing(*arguments: Any) -> Iterator[shard_workers.Finished]:
        for number, finished in enumerate(on_ray(*arguments), 1):
            if number >= shards // 2 and not killed and (running := workers_of(os.getpid())):
                os.kill(running[0], signal.SIGKILL)
                killed.append((running[0], number))
            yield finished

    shard_workers.embed_on_ray = killing  # type: ignore[assignment]
    return killed


def workers_of(process: int) -> list[int]:
    """Return the workers in the cluster that a process has started: children of a child of it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if (folder / "cmdline").read_bytes().startswith(b"ray::Embedder") and parent(parent(folder.name)) == str(
                process
            ):
                found.append(int(folder.name))
    return found


def parent(process: str) -> str:
    return Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1]


if __name__ == "__main__":
    main()
