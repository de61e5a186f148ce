"""The graph's neighbours: the k-means trees of LabelPropagator, faiss, pynndescent, scikit-learn, on the same vectors.

    python -m benchmarks neighbours                       20,000 and 100,000 vectors
    python -m benchmarks.neighbours 1000000               another number of them
    python -m benchmarks.neighbours features.npy          features of one's own, of images for one

The 10 nearest others of each vector (those of the benchmark `labelling`, which have no structure but their classes, and
others that lie near a surface of 8 dimensions), how many of the true ones are found, how long that takes with all that
has to be built first, and how much memory it takes beyond the vectors. Every way is a process of its own, in turns.
faiss has cells of 128 points (IVF), of which it looks into 6 and into 16; a graph of small worlds (HNSW); and the
descent from neighbours to their neighbours (NN-descent), as pynndescent, whose first run, which compiles, is not
counted.
"""

import subprocess
import sys
import time
from collections.abc import Callable

import faiss
import numpy as np
from sklearn.neighbors import NearestNeighbors

from benchmarks.labelling import DIMENSIONS, most_memory, vectors
from tpn.semi_supervised.neighbours import Neighbours

K, ROUNDS, ASKED = 10, 3, 500
SIZES = (20_000, 100_000)
MOST_EXACT = 20_000
"""The most vectors that are all compared with each other."""


def main() -> None:
    for size in SIZES:
        for source in (f"classes:{size}", f"surface:{size}"):
            compare(source)


def compare(source: str, rounds: int = ROUNDS) -> None:
    """Print a line for each way."""
    points = load(source)
    ways = [way for way in WAYS if "exact" not in way or len(points) <= MOST_EXACT]
    results: dict[str, list[list[float]]] = {way: [] for way in ways}
    for way in ways * rounds:
        command = [sys.executable, "-m", "benchmarks.neighbours", source, way]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[way].append([float(word) for word in said.split()[-3:]])
    print(f"{source}: {len(points):,} x {points.shape[1]} vectors; {K} neighbours, medians of {rounds}, in turns")
    for way, values in results.items():
        seconds, recall, memory = np.median(values, axis=0)
        print(
            f"  {way:<20} {seconds:7.2f} s   {100 * recall:5.1f} % of the nearest found   {memory:.2f} GB", flush=True
        )


def load(source: str) -> np.ndarray:
    kind, _, size = source.partition(":")
    if not size:
        return np.ascontiguousarray(np.load(source), np.float32)
    return vectors(int(size))[0] if kind == "classes" else surface(int(size))


def alone(source: str, way: str) -> None:
    """Seconds, recall and gigabytes of one way, in this process."""
    points = load(source)
    if way == "pynndescent":
        WAYS[way](points[:2000])  # compile
    asked = np.arange(0, len(points), max(1, len(points) // ASKED))
    truth = exact(points, points[asked])[:, 1:]
    before = most_memory()
    start = time.perf_counter()
    found = WAYS[way](points)[asked]
    seconds = time.perf_counter() - start
    hits = [len(np.intersect1d(some, own)) for some, own in zip(found, truth, strict=True)]
    print(seconds, float(np.mean(hits)) / K, most_memory() - before)


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


def hnsw(points: np.ndarray) -> np.ndarray:
    index = faiss.IndexHNSWFlat(points.shape[1], 16)
    index.hnsw.efConstruction, index.hnsw.efSearch = 40, 32
    index.add(points)
    return np.asarray(index.search(points, K + 1)[1][:, 1:])


def faiss_descent(points: np.ndarray) -> np.ndarray:
    index = faiss.IndexNNDescentFlat(points.shape[1], 32)
    index.add(points)
    return np.asarray(faiss.vector_to_array(index.nndescent.final_graph)).reshape(len(points), -1)[:, :K]


def pynndescent(points: np.ndarray) -> np.ndarray:
    from pynndescent import NNDescent

    return np.asarray(NNDescent(points, n_neighbors=K + 1, random_state=0, n_jobs=-1).neighbor_graph[0][:, 1:])


WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "k-means trees": lambda points: Neighbours(points, K, "approximate", n_jobs=-1).query_self()[1],
    "faiss, 6 cells": lambda points: cells(points, 6),
    "faiss, 16 cells": lambda points: cells(points, 16),
    "faiss, HNSW": hnsw,
    "faiss, NN-descent": faiss_descent,
    "pynndescent": pynndescent,
    "faiss, exact": flat,
    "scikit-learn, exact": lambda points: exact(points, points)[:, 1:],
}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        alone(sys.argv[1], sys.argv[2])
    elif sys.argv[1].isdigit():
        for kind in ("classes", "surface"):
            compare(f"{kind}:{sys.argv[1]}", rounds=1)
    else:
        compare(sys.argv[1])
