"""Label propagation on made-up vectors: against scikit-learn's LabelSpreading, and up to a million of them.

    python -m benchmarks labelling

Updates and ten million vectors have benchmarks of their own: `updates` and `many-vectors`.
64 dimensions, 10 overlapping classes of normally distributed points (nobody can be right on more than about 95 % of
them), 10 labels of each class. Each size is a process of its own, so that its memory can be told.
"""

import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from scipy.sparse.linalg import cg
from sklearn.semi_supervised import LabelSpreading

from tpn import LabelPropagator
from tpn.semi_supervised.conjugate_gradients import conjugate_gradients
from tpn.semi_supervised.threads import threads

DIMENSIONS, CLASSES, LABELS = 64, 10, 10
APART = 0.47
"""How far the middles of classes lie from zero in each dimension, in standard deviations of their points."""
ROUNDS = 5
SIZES = (100_000, 300_000, 1_000_000)


def main() -> None:
    against_scikit_learn()
    against_scipy()
    by_itself()


def against_scikit_learn(size: int = 20_000) -> None:
    """Side by side, in turns."""
    points, truth, labels = vectors(size)
    rest = labels < 0
    models: dict[str, Callable[[], Any]] = {
        "LabelPropagator": lambda: LabelPropagator(n_jobs=-1),
        "LabelSpreading, 30 iterations": lambda: spreading(30),
        "LabelSpreading, converged": lambda: spreading(1000),
    }
    seconds: dict[str, list[float]] = {name: [] for name in models}
    right: dict[str, float] = {}
    for name, build in [*models.items()] * ROUNDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            model = build().fit(points, labels)
            seconds[name].append(time.perf_counter() - start)
        right[name] = float((model.transduction_[rest] == truth[rest]).mean())
    print(f"{size:,} x {DIMENSIONS} vectors, {CLASSES} classes, {LABELS} labels each; medians of {ROUNDS}, in turns")
    print(f"  best possible accuracy {100 * best_possible(points, truth):.2f} %")
    ours = float(np.median(seconds["LabelPropagator"]))
    for name in models:
        median = float(np.median(seconds[name]))
        ratio = "" if name == "LabelPropagator" else f"   LabelPropagator is {median / ours:.1f} times as fast"
        print(f"  {name:<30} {median:7.2f} s   accuracy {100 * right[name]:.2f} %{ratio}", flush=True)


def against_scipy(size: int = 100_000) -> None:
    """Our conjugate gradients and threads beside those of SciPy and joblib, on one graph."""
    points, _, labels = vectors(size)
    model = LabelPropagator(n_jobs=-1).fit(points, labels)
    S = model._graph.graph.S
    B = np.random.default_rng(3).random((size, CLASSES), dtype=np.float32)
    system = sparse.eye_array(size, dtype=np.float32, format="csr") - np.float32(0.9) * S

    def block() -> None:
        with threads(effective_n_jobs(-1)) as run:
            conjugate_gradients(S, 0.9, B, np.zeros_like(B), 1e-3, 1000, run)

    def joblib_map() -> None:
        def run(function: Callable[..., Any], *elements: Any) -> list[Any]:
            return list(Parallel(n_jobs=-1, backend="threading")(map(delayed(function), *elements)))

        conjugate_gradients(S, 0.9, B, np.zeros_like(B), 1e-3, 1000, run)

    def column_by_column() -> None:
        for column in B.T:
            cg(system, column, rtol=1e-3)

    print(f"{size:,} nodes, {S.nnz:,} edges, {CLASSES} columns, to a residual of 1e-3; medians of {ROUNDS}")
    for name, solve in (("ours", block), ("ours, joblib's threads", joblib_map), ("scipy's cg", column_by_column)):
        seconds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            solve()
            seconds.append(time.perf_counter() - start)
        print(f"  {name:<24} {np.median(seconds):6.3f} s", flush=True)


def by_itself(rounds: int = 3) -> None:
    """Each size in turn, each time in a process of its own."""
    print(f"LabelPropagator by itself; medians of {rounds}, in turns", flush=True)
    results: dict[int, list[list[float]]] = {size: [] for size in SIZES}
    for size in SIZES * rounds:
        command = [sys.executable, "-m", "benchmarks.labelling", str(size)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[size].append([float(word) for word in said.split()])
    medians = {size: np.median(values, axis=0) for size, values in results.items()}
    for size, (seconds, memory, right, best) in medians.items():
        print(
            f"  {size:>9,} x {DIMENSIONS}   {seconds:7.2f} s   {memory:.2f} GB   accuracy {100 * right:.2f} %"
            f" (best possible {100 * best:.2f} %)"
        )
    first, last = min(SIZES), max(SIZES)
    print(f"  from {first:,} to {last:,} points: {medians[last][0] / medians[first][0]:.1f} times the time", flush=True)


def spreading(iterations: int) -> LabelSpreading:
    return LabelSpreading(kernel="knn", n_neighbors=20, alpha=0.99, n_jobs=-1, max_iter=iterations)


def middles() -> np.ndarray:
    return np.random.default_rng(1).normal(0, APART, (CLASSES, DIMENSIONS)).astype(np.float32)


def vectors(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, their classes, and the labels that are given."""
    rng = np.random.default_rng(0)
    truth = rng.integers(CLASSES, size=size)
    points = rng.standard_normal((size, DIMENSIONS), dtype=np.float32)
    points += middles()[truth]
    labels = np.full(size, -1)
    for class_ in range(CLASSES):
        labels[np.flatnonzero(truth == class_)[:LABELS]] = class_
    return points, truth, labels


def best_possible(points: np.ndarray, truth: np.ndarray) -> float:
    """The accuracy of the nearest true middle, on at most a million points."""
    points, truth = points[:1_000_000].astype(np.float32, copy=False), truth[:1_000_000]
    scores = points @ middles().T - np.square(middles()).sum(1) / 2
    return float((scores.argmax(1) == truth).mean())


def alone(size: int) -> None:
    """Seconds, gigabytes, accuracy and the best possible one, at one size."""
    points, truth, labels = vectors(size)
    start = time.perf_counter()
    model = LabelPropagator(n_jobs=-1).fit(points, labels)
    seconds = time.perf_counter() - start
    rest = labels < 0
    right = float((model.transduction_[rest] == truth[rest]).mean())
    print(seconds, most_memory(), right, best_possible(points, truth))


def most_memory() -> float:
    """The most memory that this process has had, in gigabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e9
    return float("nan")


if __name__ == "__main__":
    alone(int(sys.argv[1]))
