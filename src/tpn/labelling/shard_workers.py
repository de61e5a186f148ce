"""Embedding images shard by shard: on this machine, or by a pool of Ray actors that hold the network."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tpn.errors import TPNError
from tpn.labelling.embedding_pipeline import embed_files
from tpn.labelling.feature_shards import Plan, Shard
from tpn.labelling.network_options import NetworkOptions
from tpn.labelling.networks import LazyNetwork, Network, find_network
from tpn.training.device import computing
from tpn.training.ray_cluster import connect

TASKS_PER_ACTOR = 2
"""What waits at an actor while it works: enough that it never idles, few enough that results never pile up."""
RETRIES = 5
"""How often a shard is tried again when its worker or node has failed."""

Finished = tuple[int, Shard]


def embed_shard(
    root: Path, names: tuple[str, ...], network: LazyNetwork, device: torch.device, advance: Callable[[int], None]
) -> Shard:
    """Embed the images of one shard; those of the same content once."""
    features: dict[bytes, np.ndarray] = {}
    contents: dict[str, bytes] = {}
    unreadable: list[tuple[str, str]] = []
    for batch in embed_files(root, names, network, device, lambda _: {}, features):
        features |= batch.features
        contents |= batch.contents
        unreadable += batch.unreadable
        advance(len(batch.contents) + len(batch.unreadable))
    rows = [features[content] for content in contents.values()]
    return Shard(list(contents), np.stack(rows) if rows else np.empty((0, 0), np.float32), unreadable)


def embed_here(
    plan: Plan, numbers: list[int], network: LazyNetwork, device: torch.device, advance: Callable[[int], None]
) -> Iterator[Finished]:
    """Embed these shards of a plan one after the other on this machine, whose cores share each shard."""
    loaded: list[Network] = []

    def load() -> Network:
        if not loaded:
            loaded.append(network.load())
        return loaded[0]

    once = LazyNetwork(network.key, load, network.name)
    for number in numbers:
        yield number, embed_shard(Path(plan.root), plan.shards[number], once, device, advance)


class Embedder:
    """What a Ray actor does: it loads the network once, and embeds shards."""

    def __init__(self, options: dict[str, Any], threads: int, device: str, cache: str | None) -> None:
        self.options, self.threads, self.device = NetworkOptions(**options), threads, device
        self.cache = None if cache is None else Path(cache)
        self.loaded: Network | None = None

    def embed(self, root: str, names: tuple[str, ...], key: str) -> Shard:
        with computing(self.threads, self.device) as device:
            network = find_network(self.options, device, self.cache)
            if network.key != key:
                raise TPNError(f"This node has other weights of {network.name} than the node that runs the command.")
            self.loaded = self.loaded or network.load()
            loaded = self.loaded
            once = LazyNetwork(key, lambda: loaded, network.name)
            return embed_shard(Path(root), names, once, device, lambda _: None)


def embed_on_ray(
    plan: Plan,
    numbers: list[int],
    address: str,
    workers: int | None,
    threads: int,
    options: dict[str, Any],
    cache: Path | None,
    advance: Callable[[int], None],
) -> Iterator[Finished]:
    """Embed these shards of a plan on a Ray cluster, whose nodes see the same files.

    Each actor has at most two shards at a time, so that no more is in flight than is being written. An actor that dies
    is started again, and its shards are tried again.
    """
    ray = connect(address)
    try:
        cores, gpus = ray.cluster_resources().get("CPU", 1), ray.cluster_resources().get("GPU", 0)
        count = min(workers or max(1, int(gpus or cores // threads)), len(numbers))
        resources = {"num_cpus": threads, "num_gpus": 1 if gpus else 0}
        kind = ray.remote(**resources, max_restarts=-1, max_task_retries=RETRIES)(Embedder)
        device = "cuda" if gpus else "cpu"
        actors = [kind.remote(options, threads, device, None if cache is None else str(cache)) for _ in range(count)]
        waiting = list(numbers)
        running: dict[Any, tuple[Any, int]] = {}
        free = actors * TASKS_PER_ACTOR
        while waiting or running:
            while waiting and free:
                actor, number = free.pop(), waiting.pop(0)
                running[actor.embed.remote(plan.root, plan.shards[number], plan.key)] = actor, number
            (done,), _ = ray.wait(list(running), num_returns=1)
            actor, number = running.pop(done)
            try:
                shard = ray.get(done)
            except ray.exceptions.RayTaskError as failure:
                raise TPNError(f"A worker failed: {' '.join(str(failure.cause).split())[:300]}") from failure
            except ray.exceptions.RayError as failure:
                reason = " ".join(str(failure).split())[:300]
                raise TPNError(
                    f"Workers failed {RETRIES} times: {reason} What is done is kept: run the command again to continue."
                ) from failure
            free.append(actor)
            advance(len(plan.shards[number]))
            yield number, shard
    finally:
        ray.shutdown()
