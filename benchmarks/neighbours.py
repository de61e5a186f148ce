"""The graph's neighbours: the k-means trees of LabelPropagator, faiss, and scikit-learn, on the same vectors in turns.

The 10 nearest others of each of 20,000 and 100,000 vectors (those of the benchmark `labelling`, which have no structure
but their classes, and others that lie near a surface of 8 dimensions), how many of the true ones are found, and how
long that takes with all that has to be built first. faiss has cells of 128 points; it looks into 6 and into 16 of them.
"""

import time
from collections.abc import Callable

import faiss
import numpy as np
from sklearn.neighbors import NearestNeighbors

from benchmarks.labelling import DIMENSIONS, vectors
from tpn.semi_supervised.neighbours import Neighbours

K, ROUNDS, ASKED = 10, 3, 500


def main() -> None:
    for size in (20_000, 100_000):
        for name, points in (("10 classes", vectors(size)[0]), ("near a surface of 8 dimensions", surface(size))):
            compare(name, points)


def compare(name: str, points: np.ndarray) -> None:
    ways: dict[str, Callable[[], np.ndarray]] = {
        "k-means trees": lambda: Neighbours(points, K, n_jobs=-1).query_self()[1],
        "faiss, 6 cells": lambda: cells(points, 6),
        "faiss, 16 cells": lambda: cells(points, 16),
    }
    if len(points) <= 20_000:
        ways["faiss, exact"] = lambda: flat(points)
        ways["scikit-learn, exact"] = lambda: exact(points, points)[:, 1:]
    asked = np.arange(0, len(points), len(points) // ASKED)
    truth = exact(points, points[asked])[:, 1:]
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    recall: dict[str, float] = {}
    for way, find in [*ways.items()] * ROUNDS:
        start = time.perf_counter()
        found = find()[asked]
        seconds[way].append(time.perf_counter() - start)
        hits = [len(np.intersect1d(some, own)) for some, own in zip(found, truth, strict=True)]
        recall[way] = float(np.mean(hits)) / K
    print(f"{len(points):,} x {DIMENSIONS} vectors, {name}; {K} neighbours, medians of {ROUNDS}, in turns")
    for way, values in seconds.items():
        print(f"  {way:<20} {np.median(values):6.2f} s   {100 * recall[way]:5.1f} % of the nearest found", flush=True)


def surface(size: int) -> np.ndarray:
    """Points near a curved surface of 8 dimensions."""
    rng = np.random.default_rng(0)
    inner = rng.standard_normal((size, 8), dtype=np.float32)
    bent = np.tanh(inner @ rng.standard_normal((8, DIMENSIONS), dtype=np.float32))
    return np.asarray(bent + 0.05 * rng.standard_normal((size, DIMENSIONS), dtype=np.float32))


def cells(points: np.ndarray, searched: int) -> np.ndarray:
    number = len(points) // 128
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(points.shape[1]), points.shape[1], number)
    index.cp.niter, index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 4, 1, 39
    index.train(points)
    index.add(points)
    index.nprobe = searched
    return np.asarray(index.search(points, K + 1)[1][:, 1:])


def flat(points: np.ndarray) -> np.ndarray:
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points)
    return np.asarray(index.search(points, K + 1)[1][:, 1:])


def exact(points: np.ndarray, queries: np.ndarray) -> np.ndarray:
    search = NearestNeighbors(n_neighbors=K + 1, algorithm="brute", n_jobs=-1).fit(points)
    return np.asarray(search.kneighbors(queries, return_distance=False))
