"""An answer while you label: `LabelPropagator.update` after one more label, and whether it is that of a new fit.

    python -m benchmarks updates                                  10,000 x 256 (twice); 100,000 x 256
    python -m benchmarks.updates 10000 20                         one of them, or another size
    python -m benchmarks.updates 10000 20 directions              of length one: their graph is learned
    python -m benchmarks.updates features.npy classes.npy         features of one's own, and their classes

Made-up vectors of overlapping classes, 5 labels of each; then one label more in each round. Times are medians; CPU time
is the sum over all threads. Every size is a process of its own, so that its memory can be told.
"""

import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.labelling import most_memory
from tpn import LabelPropagator

DIMENSIONS, LABELS, ROUNDS = 256, 5, 7
APART = 0.25
"""How far the middles of classes lie from zero in each dimension, in standard deviations of their points."""
SIZES = (("10000", "20"), ("10000", "20", "directions"), ("100000", "100"))


def main() -> None:
    for size in SIZES:
        subprocess.run([sys.executable, "-m", "benchmarks.updates", *size], check=True)


def vectors(size: int, classes: int, directions: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points and their classes."""
    rng = np.random.default_rng(2)
    truth = rng.integers(classes, size=size)
    points = rng.standard_normal((size, DIMENSIONS), dtype=np.float32)
    points += rng.normal(0, APART, (classes, DIMENSIONS)).astype(np.float32)[truth]
    return (normalize(points) if directions else points), truth


def measure(points: np.ndarray, truth: np.ndarray) -> None:
    """Print what a fit and an update take, and how many labels are those of a new fit."""
    rng = np.random.default_rng(3)
    labels = np.full(len(truth), -1)
    for class_ in np.unique(truth):
        labels[np.flatnonzero(truth == class_)[:LABELS]] = class_
    start = time.perf_counter()
    model = LabelPropagator(n_jobs=-1).fit(points, labels)
    fit = time.perf_counter() - start
    seconds, cpu = [], []
    for place in rng.choice(np.flatnonzero(labels < 0), ROUNDS, replace=False):
        labels[place] = truth[place]
        start, start_cpu = time.perf_counter(), time.process_time()
        model.update(labels)
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
    memory = most_memory()
    fresh = LabelPropagator(n_jobs=-1).fit(points, labels)
    same = float((fresh.transduction_ == model.transduction_).mean())
    right = float((model.transduction_ == truth).mean())
    classes = len(np.unique(truth))
    graph = "learned graph" if model._graph.candidates is not None else "fixed graph"
    size = f"{len(points):,} x {points.shape[1]}, {classes} classes"
    print(f"update after one more label, {size}, {graph}; medians of {ROUNDS}")
    print(f"  fit {fit:.2f} s   update {np.median(seconds):.3f} s ({np.median(cpu):.3f} s of CPU)   {memory:.2f} GB")
    print(f"  {100 * same:.2f} % the same labels as a new fit   accuracy {100 * right:.1f} %", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    first, second, *rest = sys.argv[1:]
    made = first.isdigit()
    measure(*(vectors(int(first), int(second), bool(rest)) if made else (np.load(first), np.load(second))))
