"""The test protocol: mean accuracy over many episodes, with its interval; each image is embedded once."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from scipy.stats import rankdata
from torch import Tensor

from tpn.backbones.batch_norm import batch_statistics, keeps_statistics
from tpn.episodes.sampler import load_images
from tpn.episodes.setting import BatchNorm
from tpn.episodes.task import Episode, as_task, query_labels
from tpn.evaluation.intervals import Mean, mean_with_interval
from tpn.images.split import Split
from tpn.methods._inference import embed_in_batches, scores_of_batches, testing
from tpn.methods._method import Method

Embedded = Iterator[tuple[list[Episode], Float[Tensor, "episode node *feature"]]]

EPISODES_AT_ONCE = 64
NUMBERS_AT_ONCE = 2**24
"""The most numbers in the inputs of a batch of embedded episodes, and in its edges: 64 MB."""
TASKS_AT_ONCE = 4
"""Episodes per batch for methods without an embedding, which need more memory."""


@dataclass(frozen=True)
class Evaluation:
    """The result of a test."""

    accuracies: Float64[np.ndarray, "episode"]
    """The accuracy of each episode, on the queries that belong to one of its classes."""
    seconds: float
    aurocs: Float64[np.ndarray, "episode"] | None = None
    """Open set: the area under the ROC curve by which the confidence finds the queries of no class."""

    @property
    def auroc(self) -> Mean | None:
        """The mean area under the ROC curve over the episodes, if they have queries of no class."""
        return None if self.aurocs is None else mean_with_interval(self.aurocs)

    @property
    def mean(self) -> Mean:
        """The mean accuracy over the episodes, with its 95 % interval."""
        return mean_with_interval(self.accuracies)


def ignore(count: int) -> None:
    """Show no progress."""


def transduction(method: Method, batch_norm: BatchNorm) -> str:
    """Return whether queries share information: by the method (yes), by batch statistics (bn), or not at all (no)."""
    declared = method.transduction
    return "bn" if declared == "no" and batch_norm == "batch" and keeps_statistics(method) else declared


def evaluate(
    method: Method,
    split: Split,
    episodes: list[Episode],
    batch_norm: BatchNorm = "running",
    advance: Callable[[int], None] = ignore,
) -> Evaluation:
    """Test a method on these episodes.

    With running statistics (the default) queries share information only through the method itself, and every image is
    embedded once, however many episodes it is in. With `batch_norm="batch"` the images of an episode are normalised
    together, and every episode is embedded separately. Methods without an embedding, which adapt to each task, receive
    the images of the episodes.
    """
    return next(evaluate_each(method, split, [episodes], batch_norm, advance))


def evaluate_each(
    method: Method,
    split: Split,
    tests: list[list[Episode]],
    batch_norm: BatchNorm = "running",
    advance: Callable[[int], None] = ignore,
) -> Iterator[Evaluation]:
    """Run several tests of a method in turn, each as `evaluate` does.

    Every image of any test is embedded once, before the first test, whose time includes the embedding.
    """
    start = time.perf_counter()
    embedded: Callable[[list[Episode]], Embedded]
    if not method.embeds:
        embedded = partial(_as_images, method, split, advance)
    elif batch_norm == "batch":
        embedded = partial(_by_episode, method, split, advance)
    else:
        embedded = _by_image(method, split, tests, advance)
    for episodes in tests:
        with testing(method), batch_statistics(method) if batch_norm == "batch" else nullcontext():
            scores = scores_of_batches(
                method, ((batch, as_task(batch, inputs)) for batch, inputs in embedded(episodes))
            )
        yield measured(scores, time.perf_counter() - start)
        start = time.perf_counter()


def embed_rows(
    method: Method, split: Split, rows: Int64[np.ndarray, "row"], advance: Callable[[int], None] = ignore
) -> Float[Tensor, "row *feature"]:
    """Embed these images of a split, a batch at a time."""
    return embed_in_batches(method, len(rows), lambda first, last: split.load(rows[first:last]), advance)


def images_to_embed(method: Method, episodes: list[Episode], batch_norm: BatchNorm = "running") -> int:
    """Return the number of images that the method will embed, for the progress bar."""
    once = method.embeds and batch_norm == "running"
    images = np.concatenate([episode.images for episode in episodes])
    return len(np.unique(images)) if once else len(images)


def _by_image(
    method: Method, split: Split, tests: list[list[Episode]], advance: Callable[[int], None]
) -> Callable[[list[Episode]], Embedded]:
    """Embed each image of all tests once; return a function that yields the episodes of a test in batches."""
    rows = np.unique(np.concatenate([episode.images for episodes in tests for episode in episodes]))
    with testing(method):
        features = embed_rows(method, split, rows, advance)

    def embedded(episodes: list[Episode]) -> Embedded:
        nodes = len(episodes[0].images)
        room = NUMBERS_AT_ONCE // max(nodes * features[0].numel(), nodes * nodes)
        at_once = max(1, min(room, EPISODES_AT_ONCE))
        for start in range(0, len(episodes), at_once):
            batch = episodes[start : start + at_once]
            places = torch.from_numpy(np.searchsorted(rows, np.stack([episode.images for episode in batch])))
            gathered = features.index_select(0, places.flatten().to(features.device))  # copies whole rows: fast
            yield batch, gathered.view(*places.shape, *features.shape[1:])

    return embedded


def _by_episode(method: Method, split: Split, advance: Callable[[int], None], episodes: list[Episode]) -> Embedded:
    """Embed the images of each episode as one batch, with its statistics."""
    for episode in episodes:
        with torch.no_grad():
            features = method.embed(split.load(episode.images).to(method.device))
        yield [episode], features[None]
        advance(len(episode.images))


def _as_images(method: Method, split: Split, advance: Callable[[int], None], episodes: list[Episode]) -> Embedded:
    """Yield episodes with their images, not embedded."""
    for start in range(0, len(episodes), TASKS_AT_ONCE):
        batch = episodes[start : start + TASKS_AT_ONCE]
        yield batch, load_images(split, batch).to(method.device)
        advance(sum(len(episode.images) for episode in batch))


def measured(scores: list[tuple[list[Episode], Tensor]], seconds: float) -> Evaluation:
    """Compute the accuracy of each episode from the scores of its queries and, if some are of no class, the AUROC."""
    accuracies, aurocs = [], []
    for episodes, batch in scores:
        labels = query_labels(episodes)
        known = labels >= 0
        right = (batch.argmax(-1) == labels) & known
        accuracies.append((right.sum(-1).double() / known.sum(-1)).numpy())
        if not known.all():
            confidence = batch.softmax(-1).amax(-1).double().numpy()
            aurocs += [roc_area(row[is_known], row[~is_known]) for row, is_known in zip(confidence, known, strict=True)]
    return Evaluation(np.concatenate(accuracies), seconds, np.array(aurocs, np.float64) if aurocs else None)


def roc_area(known: Float64[np.ndarray, "known"], unknown: Float64[np.ndarray, "unknown"]) -> float:
    """Return the probability that a query of a class is more confident than one of no class; ties count half."""
    ranks = rankdata(np.concatenate([known, unknown]))[: len(known)]
    return float((ranks.sum() - len(known) * (len(known) + 1) / 2) / (len(known) * len(unknown)))
