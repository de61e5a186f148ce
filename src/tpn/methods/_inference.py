"""Inference: embedding images in batches and scoring tasks, without gradients of the weights."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from threading import Event, Lock
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.episodes.task import Task
from tpn.errors import TPNError
from tpn.methods._method import Method

IMAGES_AT_ONCE = 64
Drawn = TypeVar("Drawn")


@contextmanager
def testing(method: Method) -> Iterator[None]:
    """Use a method in evaluation mode, with frozen parameters, inside this block.

    Only a method that adapts to a task then records operations for gradients.
    """
    was_training = method.training
    learning = [parameter for parameter in method.parameters() if parameter.requires_grad]
    method.eval()
    for parameter in learning:
        parameter.requires_grad = False
    try:
        yield
    finally:
        method.train(was_training)
        for parameter in learning:
            parameter.requires_grad = True


def embed_in_batches(
    method: Method,
    count: int,
    load: Callable[[int, int], Float[Tensor, "image channel height width"]],
    advance: Callable[[int], None] = lambda count: None,
) -> Float[Tensor, "count *feature"]:
    """Embed `count` images, a batch at a time, as `load(first, last)` returns them."""
    features: Tensor | None = None
    for first in range(0, count, IMAGES_AT_ONCE):
        last = min(first + IMAGES_AT_ONCE, count)
        with torch.no_grad():
            embedded = method.embed(load(first, last).to(method.device))
        if features is None:
            features = embedded.new_empty((count, *embedded.shape[1:]))
        features[first:last] = embedded
        advance(last - first)
    assert features is not None, "no images to embed"
    return features


def finite_scores(method: Method, task: Task) -> Float[Tensor, "episode query way"]:
    """Score the queries of embedded episodes, on the CPU; refuse scores that are not finite."""
    scores = method.score(task).detach().cpu()
    if not torch.isfinite(scores).all():
        raise TPNError(
            f"{method.info.name} gives scores that are not finite: its settings are out of range, or its training "
            "diverged."
        )
    return scores


def scores_of_batches(
    method: Method, batches: Iterable[tuple[list[Drawn], Task]]
) -> list[tuple[list[Drawn], Float[Tensor, "episode query way"]]]:
    """Score batches of embedded episodes, each beside its episodes.

    On a CPU every thread takes batches of its own: divided among threads, the small operations of a head take longer
    than on one.
    """
    threads = torch.get_num_threads() if method.embeds and method.device.type == "cpu" else 1
    first = list(islice(batches := iter(batches), 2))
    if threads == 1 or len(first) == 1:
        return [(drawn, finite_scores(method, task)) for drawn, task in chain(first, batches)]
    places, lock, stopped = enumerate(chain(first, batches)), Lock(), Event()
    results: dict[int, tuple[list[Drawn], Tensor]] = {}

    def work() -> None:
        torch.set_num_threads(1)
        while not stopped.is_set():
            with lock:
                place, (drawn, task) = next(places, (-1, ([], None)))
            if task is None:
                return
            results[place] = drawn, finite_scores(method, task)

    try:
        with ThreadPoolExecutor(threads) as pool:
            try:
                for thread in [pool.submit(work) for _ in range(threads)]:
                    thread.result()
            finally:
                stopped.set()
    finally:
        torch.set_num_threads(threads)
    return [results[place] for place in sorted(results)]


def scores_of_task(
    method: Method,
    support: Tensor | np.ndarray,
    labels: Int64[Tensor, "support"],
    query: Tensor | np.ndarray,
    way: int,
) -> Float[Tensor, "query way"]:
    """Score the queries of a single task, given as images."""
    given = [torch.as_tensor(support), torch.as_tensor(query)]
    for one in given:
        if not one.is_floating_point() or one.ndim != 4 or one.shape[1:] != given[0].shape[1:]:
            raise TPNError(
                "Images must be floating-point numbers from 0 to 1 of the shape (images, channels, height, width), not "
                f"{one.dtype} of the shape {tuple(one.shape)}."
            )
    images = torch.cat([one.to(torch.float32) for one in given])
    with testing(method):
        inputs = embed_in_batches(method, len(images), lambda first, last: images[first:last])
        task = Task(inputs[None], labels[None].to(inputs.device), way, len(images) - len(labels))
        return finite_scores(method, task)[0]
