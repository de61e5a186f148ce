"""Testing a method: hundreds of episodes, each drawn picture represented once, the mean accuracy with its interval."""

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

from tpn.backbones.statistics import batch_statistics, keeps_statistics
from tpn.episodes import Episode, Sampler, Setting, as_task, query_labels
from tpn.errors import TPNError
from tpn.evaluation.intervals import Mean, mean_with_interval
from tpn.images import Split
from tpn.methods import Method

BatchNorm = Literal["running", "batch"]

Represented = Iterator[tuple[list[Episode], Float[Tensor, "episode node *feature"]]]

PICTURES_AT_ONCE = 64
EPISODES_AT_ONCE = 32
TASKS_AT_ONCE = 4
"""Episodes of pictures that a method without a representation gets at once: they need more room."""


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
    sampler = Sampler(split, setting, seed)
    return [sampler.draw() for _ in range(episodes)]


def load_pictures(split: Split, episodes: list[Episode]) -> Float[Tensor, "episode node channel height width"]:
    """The pictures of episodes of one shape."""
    rows = np.stack([episode.pictures for episode in episodes])
    pictures = split.load(rows.reshape(-1))
    return pictures.view(*rows.shape, *pictures.shape[1:])


def evaluate(
    method: Method,
    split: Split,
    episodes: list[Episode],
    batch_norm: BatchNorm = "running",
    advance: Callable[[int], None] = ignore,
) -> Evaluation:
    """Test a method on these episodes.

    With running statistics (the default) queries share information only as the method itself provides, and every drawn
    picture is represented once, whatever the number of episodes it is in. With `batch_norm="batch"` the pictures of an
    episode are normalised together, and every episode is embedded anew. Methods that do not represent pictures by
    themselves, but adapt to each task, get the pictures of the episodes.
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

    Every picture that is drawn in any of them is represented once for all of them, before the first. The time that this
    takes is counted with the first.
    """
    start = time.perf_counter()
    represented: Callable[[list[Episode]], Represented]
    if not method.represents:
        represented = partial(_as_pictures, method, split, advance)
    elif batch_norm == "batch":
        represented = partial(_by_episode, method, split, advance)
    else:
        represented = _by_picture(method, split, tests, advance)
    for episodes in tests:
        with _testing(method), batch_statistics(method) if batch_norm == "batch" else nullcontext():
            accuracies = [_accuracies(method, batch, inputs) for batch, inputs in represented(episodes)]
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


def represent_rows(
    method: Method, split: Split, rows: Int64[np.ndarray, "row"], advance: Callable[[int], None] = ignore
) -> Float[Tensor, "row *feature"]:
    """The representations of these pictures of a split, a batch at a time."""
    features: Tensor | None = None
    for start in range(0, len(rows), PICTURES_AT_ONCE):
        part = rows[start : start + PICTURES_AT_ONCE]
        with torch.no_grad():
            represented = method.represent(split.load(part).to(method.device))
        if features is None:
            features = represented.new_empty((len(rows), *represented.shape[1:]))
        features[start : start + len(part)] = represented
        advance(len(part))
    assert features is not None, "no rows to represent"
    return features


def pictures_to_represent(method: Method, episodes: list[Episode], batch_norm: BatchNorm = "running") -> int:
    """How many pictures tests hand to the method, for the progress bar."""
    once = method.represents and batch_norm == "running"
    pictures = np.concatenate([episode.pictures for episode in episodes])
    return len(np.unique(pictures)) if once else len(pictures)


def _by_picture(
    method: Method, split: Split, tests: list[list[Episode]], advance: Callable[[int], None]
) -> Callable[[list[Episode]], Represented]:
    """Represent each picture of all tests once. Returns what hands out the episodes of one of them in batches."""
    rows = np.unique(np.concatenate([episode.pictures for episodes in tests for episode in episodes]))
    with _testing(method):
        features = represent_rows(method, split, rows, advance)

    def represented(episodes: list[Episode]) -> Represented:
        for start in range(0, len(episodes), EPISODES_AT_ONCE):
            batch = episodes[start : start + EPISODES_AT_ONCE]
            places = np.searchsorted(rows, np.stack([episode.pictures for episode in batch]))
            yield batch, features[torch.from_numpy(places)]

    return represented


def _by_episode(method: Method, split: Split, advance: Callable[[int], None], episodes: list[Episode]) -> Represented:
    """Represent the pictures of each episode together, with the statistics of that batch."""
    for episode in episodes:
        with torch.no_grad():
            features = method.represent(split.load(episode.pictures).to(method.device))
        yield [episode], features[None]
        advance(len(episode.pictures))


def _as_pictures(method: Method, split: Split, advance: Callable[[int], None], episodes: list[Episode]) -> Represented:
    """Hand out episodes of pictures."""
    for start in range(0, len(episodes), TASKS_AT_ONCE):
        batch = episodes[start : start + TASKS_AT_ONCE]
        yield batch, load_pictures(split, batch).to(method.device)
        advance(sum(len(episode.pictures) for episode in batch))


def _accuracies(
    method: Method, episodes: list[Episode], inputs: Float[Tensor, "episode node *feature"]
) -> Float64[np.ndarray, "episode"]:
    scores = method.score(as_task(episodes, inputs)).detach().cpu()
    if not torch.isfinite(scores).all():
        raise TPNError(
            f"{method.info.name} gives scores that are not numbers: its settings, or its training, are out of range."
        )
    return (scores.argmax(-1) == query_labels(episodes)).double().mean(-1).numpy()
