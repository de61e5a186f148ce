"""Heads: 1,000 tasks, 5-way 1-shot, 15 queries, on 640 features at hand."""

import time

import torch

from tpn.episodes.task import Task
from tpn.methods._inference import scores_of_batches, testing
from tpn.methods._method import Dimensions
from tpn.methods._registry import find_method

TASKS, AT_ONCE, FEATURES, WAY, QUERIES = 1000, 64, 640, 5, 75
LIMITS = {"bd-cspn": 1.0, "laplacian-shot": 1.0, "map-kmeans": 1.0, "pt-map": 15.0, "tim": 15.0, "alpha-tim": 15.0}
"""The seconds that each may take on two cores."""


def seconds(name: str) -> float:
    """Return the time that a head takes for 1,000 tasks on two threads, gathering their features included."""
    torch.manual_seed(0)
    features = torch.rand(12_000, FEATURES)
    rows = torch.randint(len(features), (TASKS, WAY + QUERIES))
    labels = torch.arange(WAY).expand(AT_ONCE, -1)
    kind = find_method(name)
    head = kind(kind.Config(backbone="identity"), Dimensions(FEATURES, 1, WAY, 1, 2)).eval()

    def task(first: int) -> Task:
        places = rows[first : first + AT_ONCE]
        inputs = features.index_select(0, places.flatten()).view(*places.shape, -1)
        return Task(inputs, labels[: len(inputs)], WAY, QUERIES)

    start = time.perf_counter()
    with testing(head):
        scores_of_batches(head, (([first], task(first)) for first in range(0, TASKS, AT_ONCE)))
    return time.perf_counter() - start


def main() -> None:
    """Print the seconds of each head beside its limit."""
    torch.set_num_threads(2)
    for name, limit in LIMITS.items():
        print(f"{name:<16} {seconds(name):6.2f} s for 1,000 tasks (limit {limit:g} s)", flush=True)


if __name__ == "__main__":
    main()
