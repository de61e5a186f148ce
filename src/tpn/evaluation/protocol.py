"""Testing a method: hundreds of episodes, each drawn image embedded once, the mean accuracy with its interval."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from tpn.backbones.batch_norm import batch_statistics, keeps_statistics
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode, as_task, query_labels
from tpn.errors import TPNError
from tpn.evaluation.intervals import Mean, mean_with_interval
from tpn.images.split import Split
from tpn.methods._method import Method

BatchNorm = Literal["running", "batch"]

Embedded = Iterator[tuple[list[Episode], Float[Tensor, "episode node *feature"]]]

IMAGES_AT_ONCE = 64
EPISODES_AT_ONCE = 32
TASKS_AT_ONCE = 4
"""Episodes of images that a method without an embedding gets at once: they need more room."""


@dataclass(frozen=True)
class Evaluation:
    """What a test showed."""

    accuracies: Float64[np.ndarray, "episode"]
    seconds: float

    @property
    def mean(self) -> Mean:
        """The mean accuracy over the episodes, with its 95 % interval."""
        return mean_with_interval(self.accuracies)


def ignore(count: int) -> None:
    """Report progress to nobody."""


def check_setting(method: Method, setting: Setting) -> None:
    """Refuse to test a method on episodes that it is not made for."""
    info, dimensions = method.info, method.dimensions
    if info.fixed_way and setting.way != dimensions.way:
        raise TPNError(
            f"{info.name} was trained to tell {dimensions.way} classes apart, and has an output for each: "
            f"it cannot be tested with --way {setting.way}."
        )
    if info.fixed_shot and setting.shot != dimensions.shot:
        raise TPNError(
            f"{info.name} was trained with {dimensions.shot} shots, and takes no other number: "
            f"it cannot be tested with --shot {setting.shot}."
        )


def transduction(method: Method, batch_norm: BatchNorm) -> str:
    """Do the queries of a test share information: by the method (yes), by batch statistics (bn), or not at all (no)."""
    declared = method.info.transduction
    return "bn" if declared == "no" and batch_norm == "batch" and keeps_statistics(method) else declared


def draw_episodes(split: Split, setting: Setting, episodes: int, seed: int) -> list[Episode]:
    """The episodes of a test: the same for every method."""
    if episodes < 1:
        raise TPNError(f"--episodes must be at least 1, not {episodes}.")
    sampler = EpisodeSampler(split, setting, seed)
    return [sampler.draw() for _ in range(episodes)]


def load_images(split: Split, episodes: list[Episode]) -> Float[Tensor, "episode node channel height width"]:
    """The images of episodes of one shape."""
    rows = np.stack([episode.images for episode in episodes])
    images = split.load(rows.reshape(-1))
    return images.view(*rows.shape, *images.shape[1:])


def evaluate(
    method: Method,
    split: Split,
    episodes: list[Episode],
    batch_norm: BatchNorm = "running",
    advance: Callable[[int], None] = ignore,
) -> Evaluation:
    """Test a method on these episodes.

    With running statistics (the default) queries share information only as the method itself provides, and every drawn
    image is embedded once, whatever the number of episodes it is in. With `batch_norm="batch"` the images of an
    episode are normalised together, and every episode is embedded anew. Methods that do not embed images by
    themselves, but adapt to each task, get the images of the episodes.
    """
    return next(evaluate_each(method, split, [episodes], batch_norm, advance))


def evaluate_each(
    method: Method,
    split: Split,
    tests: list[list[Episode]],
    batch_norm: BatchNorm = "running",
    advance: Callable[[int], None] = ignore,
) -> Iterator[Evaluation]:
    """Several tests of a method, as `evaluate` makes them, one after the other.

    Every image that is drawn in any of them is embedded once for all of them, before the first. The time that this
    takes is counted with the first.
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
        with _testing(method), batch_statistics(method) if batch_norm == "batch" else nullcontext():
            accuracies = [_accuracies(method, batch, inputs) for batch, inputs in embedded(episodes)]
        yield Evaluation(np.concatenate(accuracies), time.perf_counter() - start)
        start = time.perf_counter()


@contextmanager
def _testing(method: Method) -> Iterator[None]:
    """In test mode, and with frozen parameters: no graph is built for gradients but by a method that adapts."""
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


def embed_rows(
    method: Method, split: Split, rows: Int64[np.ndarray, "row"], advance: Callable[[int], None] = ignore
) -> Float[Tensor, "row *feature"]:
    """The embeddings of these images of a split, a batch at a time."""
    features: Tensor | None = None
    for start in range(0, len(rows), IMAGES_AT_ONCE):
        part = rows[start : start + IMAGES_AT_ONCE]
        with torch.no_grad():
            embedded = method.embed(split.load(part).to(method.device))
        if features is None:
            features = embedded.new_empty((len(rows), *embedded.shape[1:]))
        features[start : start + len(part)] = embedded
        advance(len(part))
    assert features is not None, "no rows to embed"
    return features


def images_to_embed(method: Method, episodes: list[Episode], batch_norm: BatchNorm = "running") -> int:
    """How many images tests hand to the method, for the progress bar."""
    once = method.embeds and batch_norm == "running"
    images = np.concatenate([episode.images for episode in episodes])
    return len(np.unique(images)) if once else len(images)


def _by_image(
    method: Method, split: Split, tests: list[list[Episode]], advance: Callable[[int], None]
) -> Callable[[list[Episode]], Embedded]:
    """Embed each image of all tests once. Returns what hands out the episodes of one of them in batches."""
    rows = np.unique(np.concatenate([episode.images for episodes in tests for episode in episodes]))
    with _testing(method):
        features = embed_rows(method, split, rows, advance)

    def embedded(episodes: list[Episode]) -> Embedded:
        for start in range(0, len(episodes), EPISODES_AT_ONCE):
            batch = episodes[start : start + EPISODES_AT_ONCE]
            places = np.searchsorted(rows, np.stack([episode.images for episode in batch]))
            yield batch, features[torch.from_numpy(places)]

    return embedded


def _by_episode(method: Method, split: Split, advance: Callable[[int], None], episodes: list[Episode]) -> Embedded:
    """Embed the images of each episode together, with the statistics of that batch."""
    for episode in episodes:
        with torch.no_grad():
            features = method.embed(split.load(episode.images).to(method.device))
        yield [episode], features[None]
        advance(len(episode.images))


def _as_images(method: Method, split: Split, advance: Callable[[int], None], episodes: list[Episode]) -> Embedded:
    """Hand out episodes of images."""
    for start in range(0, len(episodes), TASKS_AT_ONCE):
        batch = episodes[start : start + TASKS_AT_ONCE]
        yield batch, load_images(split, batch).to(method.device)
        advance(sum(len(episode.images) for episode in batch))


def _accuracies(
    method: Method, episodes: list[Episode], inputs: Float[Tensor, "episode node *feature"]
) -> Float64[np.ndarray, "episode"]:
    scores = method.score(as_task(episodes, inputs)).detach().cpu()
    if not torch.isfinite(scores).all():
        raise TPNError(
            f"{method.info.name} gives scores that are not numbers: its settings, or its training, are out of range."
        )
    return (scores.argmax(-1) == query_labels(episodes)).double().mean(-1).numpy()
