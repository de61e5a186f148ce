"""What a few-shot task is, and how tasks are drawn."""

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.errors import TPNError
from tpn.images import Split
from tpn.images.parts import labelled_part


class Role(IntEnum):
    """What a picture is in an episode."""

    SUPPORT = 0
    QUERY = 1
    UNLABELLED = 2


@dataclass(frozen=True)
class Setting:
    """What an episode is made of."""

    way: int = 5
    """Classes in an episode."""
    shot: int = 5
    """Labelled pictures of each class."""
    query: int = 15
    """Pictures of each class to classify."""
    query_counts: tuple[int, ...] | None = None
    """Unbalanced queries: as many numbers as classes, dealt to the classes at random (instead of --query)."""
    query_dirichlet: float | None = None
    """Unbalanced queries: way x query of them, the shares of the classes drawn from a Dirichlet distribution with this
    concentration (small numbers are the most unbalanced)."""
    unlabelled: int = 0
    """Further pictures of each class that a method sees without their labels (semi-supervised learning)."""
    distractors: int = 0
    """Further classes of which only unlabelled pictures are there."""
    labelled_share: float | None = None
    """The share of each training class that has labels; support and queries are drawn from it, unlabelled pictures from
    the rest. If not given: with --unlabelled, 0.4 (0.1 on tieredImageNet); otherwise all have labels."""
    split_seed: int = 0
    """Which pictures have labels: names one of many such divisions of the training classes."""

    def __post_init__(self) -> None:
        for name, least in (("way", 2), ("shot", 1), ("query", 1), ("unlabelled", 0), ("distractors", 0)):
            value = getattr(self, name)
            if value < least:
                raise TPNError(f"--{name} must be at least {least}, not {value}.")
        if self.distractors and not self.unlabelled:
            raise TPNError("--distractors adds unlabelled pictures of further classes: give --unlabelled as well.")
        if self.query_counts is not None and self.query_dirichlet is not None:
            raise TPNError("Give --query-counts or --query-dirichlet, not both.")
        if self.query_counts is not None:
            if len(self.query_counts) != self.way:
                raise TPNError(
                    f"--query-counts needs a number for each of the {self.way} classes; "
                    f"{len(self.query_counts)} were given."
                )
            if min(self.query_counts) < 0 or sum(self.query_counts) == 0:
                raise TPNError("--query-counts must not be negative, and at least one of them must be above 0.")
        if self.labelled_share is not None and not 0 < self.labelled_share <= 1:
            raise TPNError(f"--labelled-share must be above 0 and at most 1, not {self.labelled_share}.")
        if not 0 <= self.split_seed < 2**63:
            raise TPNError(f"--split-seed must be at least 0 and below 2^63, not {self.split_seed}.")
        if self.query_dirichlet is not None and not 0 < self.query_dirichlet < float("inf"):
            raise TPNError(f"--query-dirichlet must be a number above 0, not {self.query_dirichlet}.")

    @property
    def most_queries(self) -> int:
        """The most queries that one class is sure to need."""
        return max(self.query_counts) if self.query_counts is not None else self.query


@dataclass(frozen=True)
class Episode:
    """One few-shot task as indices: its support first, grouped by class, then queries, then unlabelled pictures."""

    pictures: Int64[np.ndarray, "node"]
    """Rows of the split."""
    labels: Int64[np.ndarray, "node"]
    """0 to way - 1; -1 for a distractor."""
    role: Int64[np.ndarray, "node"]
    classes: Int64[np.ndarray, "way"]
    """Label -> class of the split."""


@dataclass(frozen=True)
class Task:
    """Episodes of one shape with something for each of their pictures: the pictures, or their representation.

    It hands a method the labels of the support only.
    """

    inputs: Float[Tensor, "episode node *shape"]
    """Support, then queries, then unlabelled pictures."""
    support_labels: Int64[Tensor, "episode support"]
    way: int
    queries: int
    """How many of the nodes are queries."""

    @property
    def shots(self) -> int:
        """How many of the nodes are labelled."""
        return self.support_labels.shape[1]

    @property
    def support(self) -> Float[Tensor, "episode support *shape"]:
        return self.inputs[:, : self.shots]

    @property
    def query(self) -> Float[Tensor, "episode query *shape"]:
        return self.inputs[:, self.shots : self.shots + self.queries]

    @property
    def unlabelled(self) -> Float[Tensor, "episode unlabelled *shape"]:
        return self.inputs[:, self.shots + self.queries :]

    def with_inputs(self, inputs: Float[Tensor, "episode node *shape"]) -> "Task":
        """The same task with something else for each picture."""
        return Task(inputs, self.support_labels, self.way, self.queries)


@dataclass(frozen=True)
class TrainingTask(Task):
    """A task to learn from: it has the answers too."""

    query_labels: Int64[Tensor, "episode query"]
    classes: Int64[Tensor, "episode way"]
    """Label -> class of the training split."""


def as_task(episodes: list[Episode], inputs: Float[Tensor, "episode node *shape"]) -> Task:
    """Episodes of one shape, and something for each of their pictures, as a method is tested on them."""
    first = episodes[0]
    support = _labels(episodes, Role.SUPPORT)
    return Task(inputs, support, len(first.classes), int((first.role == Role.QUERY).sum()))


def as_training_task(episodes: list[Episode], inputs: Float[Tensor, "episode node *shape"]) -> TrainingTask:
    """Episodes of one shape, and something for each of their pictures, as a method learns from them."""
    task = as_task(episodes, inputs)
    classes = torch.from_numpy(np.stack([episode.classes for episode in episodes]))
    return TrainingTask(**vars(task), query_labels=query_labels(episodes), classes=classes)


def query_labels(episodes: list[Episode]) -> Int64[Tensor, "episode query"]:
    """The answers."""
    return _labels(episodes, Role.QUERY)


def _labels(episodes: list[Episode], role: Role) -> Int64[Tensor, "episode node"]:
    return torch.from_numpy(np.stack([episode.labels[episode.role == role] for episode in episodes]))


class Sampler:
    """Draws episodes from a split, without replacement inside an episode; the same seed draws the same episodes."""

    def __init__(self, split: Split, setting: Setting, seed: int) -> None:
        if not 0 <= seed < 2**63:
            raise TPNError(f"--seed must be at least 0 and below 2^63, not {seed}.")
        self.split, self.setting = split, setting
        self._pools = _Pools(split, setting)
        self._pools.check_room(setting)
        self._generator = np.random.default_rng(seed)

    def draw(self) -> Episode:
        """Draw the next episode."""
        setting, rng = self.setting, self._generator
        chosen = rng.choice(len(self.split.classes), setting.way + setting.distractors, replace=False)
        classes = chosen[: setting.way]
        queries = self._query_counts(self._pools.room(classes, setting))
        rows: dict[Role, list[np.ndarray]] = {role: [] for role in Role}
        labels: dict[Role, list[np.ndarray]] = {role: [] for role in Role}
        for index, class_ in enumerate(chosen):
            known = index < setting.way
            taken = {
                Role.SUPPORT: setting.shot if known else 0,
                Role.QUERY: int(queries[index]) if known else 0,
                Role.UNLABELLED: setting.unlabelled,
            }
            pictures = self._pools.draw(int(class_), taken, rng)
            for role, part in zip(taken, np.split(pictures, np.cumsum(list(taken.values()))[:-1]), strict=True):
                rows[role].append(part)
                labels[role].append(np.full(len(part), index if known else -1))
        order = {role: np.arange(sum(map(len, parts))) for role, parts in rows.items()}
        for role in (Role.QUERY, Role.UNLABELLED):  # their order must not tell their class
            order[role] = rng.permutation(len(order[role]))
        return Episode(
            pictures=np.concatenate([np.concatenate(rows[role])[order[role]] for role in Role]),
            labels=np.concatenate([np.concatenate(labels[role])[order[role]] for role in Role]),
            role=np.concatenate([np.full(len(order[role]), int(role)) for role in Role]),
            classes=classes,
        )

    def _query_counts(self, room: Int64[np.ndarray, "way"]) -> Int64[np.ndarray, "way"]:
        """How many queries each class of an episode has."""
        setting, rng = self.setting, self._generator
        if setting.query_counts is not None:
            return rng.permutation(np.array(setting.query_counts))
        if setting.query_dirichlet is None:
            return np.full(setting.way, setting.query)
        shares = rng.dirichlet(np.full(setting.way, setting.query_dirichlet))
        counts: np.ndarray = np.minimum(rng.multinomial(setting.way * setting.query, shares), room)
        while (missing := setting.way * setting.query - counts.sum()) > 0:  # a class ran out: the others take over
            open_shares = np.where(counts < room, shares + 1e-9, 0)
            counts = np.minimum(counts + rng.multinomial(missing, open_shares / open_shares.sum()), room)
        return counts

    @property
    def state(self) -> dict[str, Any]:
        """Where the generator stands, as JSON can hold it; set it to continue from there."""
        return dict(self._generator.bit_generator.state)

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._generator.bit_generator.state = state


class _Pools:
    """From which pictures of its class what is drawn.

    In a training split with --labelled-share (or its default, with --unlabelled) every class is divided for good
    into pictures with labels, from which support and queries come, and pictures without. Elsewhere all are one pool.
    """

    def __init__(self, split: Split, setting: Setting) -> None:
        self.split = split
        share = setting.labelled_share
        if share is None and setting.unlabelled:
            share = split.labelled_share
        self.divided = split.name == "train" and share is not None and share < 1
        rows = np.arange(len(split.pictures))
        labelled = np.ones(len(rows), bool)
        if self.divided and share is not None:
            labelled = labelled_part(split, share, setting.split_seed)
        self.labelled = [rows[start:end][labelled[start:end]] for start, end in pairwise(split.starts)]
        self.unlabelled = [rows[start:end][~labelled[start:end]] for start, end in pairwise(split.starts)]

    def draw(self, class_: int, taken: dict[Role, int], rng: np.random.Generator) -> Int64[np.ndarray, "picture"]:
        """Draw so many pictures of a class for each role, one role after the other."""
        if not self.divided:
            return rng.choice(self.labelled[class_], sum(taken.values()), replace=False)
        with_labels = rng.choice(self.labelled[class_], taken[Role.SUPPORT] + taken[Role.QUERY], replace=False)
        without = rng.choice(self.unlabelled[class_], taken[Role.UNLABELLED], replace=False)
        return np.concatenate([with_labels, without])

    def room(self, classes: Int64[np.ndarray, "way"], setting: Setting) -> Int64[np.ndarray, "way"]:
        """How many queries each of these classes could have."""
        beside = setting.shot + (0 if self.divided else setting.unlabelled)
        return np.array([len(self.labelled[class_]) for class_ in classes]) - beside

    def check_room(self, setting: Setting) -> None:
        """Refuse a setting for which the split has too few classes, or a class too few pictures."""
        split, needed = self.split, setting.way + setting.distractors
        if needed > len(split.classes):
            distractors = f" and {setting.distractors} distractor classes" if setting.distractors else ""
            raise TPNError(
                f"An episode of {setting.way} ways{distractors} needs {needed} classes, but the {split.name} split has "
                f"{len(split.classes)}. Choose a smaller --way."
            )
        pictures = setting.shot + setting.most_queries
        parts = f"{setting.shot} shots + {setting.most_queries} queries"
        if self.divided:
            unlabelled = f"{setting.unlabelled} unlabelled"
            self._check(self.labelled, pictures, parts, " with labels", "--shot or --query")
            self._check(self.unlabelled, setting.unlabelled, unlabelled, " without labels", "--unlabelled")
        else:
            parts += f" + {setting.unlabelled} unlabelled" if setting.unlabelled else ""
            flags = "--shot, --query or --unlabelled" if setting.unlabelled else "--shot or --query"
            self._check(self.labelled, pictures + setting.unlabelled, parts, "", flags)

    def _check(self, pools: list[Int64[np.ndarray, "_"]], needed: int, parts: str, which: str, flags: str) -> None:
        counts = [len(pool) for pool in pools]
        fewest = int(np.argmin(counts))
        if needed > counts[fewest]:
            divided = " Or choose another --labelled-share." if self.divided else ""
            raise TPNError(
                f"An episode of {parts} needs {needed} pictures of each class{which}, but the class "
                f"{self.split.classes[fewest]!r} of the {self.split.name} split has {counts[fewest]}. Choose a "
                f"smaller {flags}.{divided}"
            )
