"""Label propagation on a million and on ten million vectors that are memory-mapped from a file.

    python -m benchmarks many-vectors                       1,000,000 and 10,000,000 x 64, single precision
    python -m benchmarks.many_vectors float16               the same in half precision
    python -m benchmarks.many_vectors float32 1000000       one size

The vectors are those of the benchmark `labelling`. Every size is a process of its own; its memory is the most that it
had at once, the pages of the file that it has read among it. Ten million take a file of 2.6 GB (float32) in the folder
for temporary files, which is removed at the end, and some 10 GB of memory.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.labelling import CLASSES, DIMENSIONS, LABELS, best_possible, middles, most_memory
from tpn import LabelPropagator

SIZES = (1_000_000, 10_000_000)
BLOCK = 2**18
"""Vectors that are made at once."""


def main(dtype: str = "float32", sizes: tuple[int, ...] = SIZES) -> None:
    print(f"LabelPropagator on memory-mapped vectors, {dtype}, {CLASSES} classes, {LABELS} labels of each", flush=True)
    seconds: dict[int, float] = {}
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.many_vectors", dtype, str(size), "alone"]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        seconds[size], cpu, memory, right, best = (float(word) for word in said.split())
        print(
            f"  {size:>10,} x {DIMENSIONS}   {seconds[size]:7.1f} s ({cpu:.1f} s of CPU)   {memory:.2f} GB   accuracy "
            f"{100 * right:.2f} % (best possible {100 * best:.2f} %)",
            flush=True,
        )
    if len(seconds) > 1:
        first, last = min(seconds), max(seconds)
        print(f"  from {first:,} to {last:,}: {seconds[last] / seconds[first]:.1f} times the time", flush=True)


def write(file: Path, size: int, dtype: str) -> np.ndarray:
    """Write vectors to a file, block by block, and return their classes."""
    rng, truth = np.random.default_rng(0), np.empty(size, np.int64)
    points = np.lib.format.open_memmap(file, "w+", np.dtype(dtype), (size, DIMENSIONS))
    for start in range(0, size, BLOCK):
        some = rng.integers(CLASSES, size=min(BLOCK, size - start))
        truth[start : start + len(some)] = some
        points[start : start + len(some)] = rng.standard_normal((len(some), DIMENSIONS), np.float32) + middles()[some]
    points.flush()
    return truth


def alone(dtype: str, size: int) -> None:
    """Seconds, CPU time, gigabytes, accuracy and the best possible one, at one size."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        truth = write(file, size, dtype)
        points = np.load(file, mmap_mode="r")
        labels = np.full(size, -1)
        for class_ in range(CLASSES):
            labels[np.flatnonzero(truth[:BLOCK] == class_)[:LABELS]] = class_
        start, start_cpu = time.perf_counter(), time.process_time()
        model = LabelPropagator(n_jobs=-1).fit(points, labels)
        seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
        memory = most_memory()
        rest = labels < 0
        right = float((model.transduction_[rest] == truth[rest]).mean())
        print(seconds, cpu, memory, right, best_possible(points, truth))


if __name__ == "__main__":
    if sys.argv[3:]:
        alone(sys.argv[1], int(sys.argv[2]))
    else:
        main(sys.argv[1], tuple(map(int, sys.argv[2:3])) or SIZES)
