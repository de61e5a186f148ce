"""Episodes, tasks and mini-batches: what a method is trained and tested on."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor


class Role(IntEnum):
    """The role of an image in an episode."""

    SUPPORT = 0
    QUERY = 1
    UNLABELLED = 2


@dataclass(frozen=True)
class Episode:
    """One few-shot task as indices: the support grouped by class, then queries, then unlabelled images."""

    images: Int64[np.ndarray, "node"]
    """Rows of the split."""
    labels: Int64[np.ndarray, "node"]
    """0 to way - 1; -1 for a distractor or a query of no class (open set)."""
    role: Int64[np.ndarray, "node"]
    classes: Int64[np.ndarray, "way"]
    """Label -> class of the split."""


@dataclass(frozen=True)
class Task:
    """A batch of episodes of the same shape, with the pixels or the embedding of each image.

    It holds the labels of the support only.
    """

    inputs: Float[Tensor, "episode node *shape"]
    """Support, then queries, then unlabelled images."""
    support_labels: Int64[Tensor, "episode support"]
    way: int
    n_query: int
    """Number of queries in an episode."""

    @property
    def n_support(self) -> int:
        """Number of labelled images in an episode: way x shot."""
        return self.support_labels.shape[1]

    @property
    def support(self) -> Float[Tensor, "episode support *shape"]:
        return self.inputs[:, : self.n_support]

    @property
    def query(self) -> Float[Tensor, "episode query *shape"]:
        return self.inputs[:, self.n_support : self.n_support + self.n_query]

    @property
    def unlabelled(self) -> Float[Tensor, "episode unlabelled *shape"]:
        return self.inputs[:, self.n_support + self.n_query :]

    def with_inputs(self, inputs: Float[Tensor, "episode node *shape"]) -> "Task":
        """Return the same task with other inputs, such as embeddings instead of images."""
        return Task(inputs, self.support_labels, self.way, self.n_query)


@dataclass(frozen=True)
class TrainingTask(Task):
    """A task for training, which holds the labels of the queries too."""

    query_labels: Int64[Tensor, "episode query"]
    classes: Int64[Tensor, "episode way"]
    """Label -> class of the training split."""

    @property
    def labels(self) -> Int64[Tensor, "episode node"]:
        """The labels of the support and the queries."""
        return torch.cat([self.support_labels, self.query_labels], dim=1)

    def rearranged(self, tasks: int) -> "TrainingTask":
        """Return this task, and others of the same images: `tasks` of each episode in all.

        In the others, images of one class exchange their places in the support and among the queries at random.
        Unlabelled images keep theirs.
        """
        if tasks == 1:
            return self
        labels = self.labels
        count, known = labels.shape
        repeated = labels.repeat(tasks - 1, 1)
        by_class = repeated.argsort(dim=1, stable=True)
        shuffled = (repeated + torch.rand(repeated.shape, device=labels.device)).argsort(dim=1)
        moved = torch.empty_like(by_class).scatter_(1, by_class, shuffled)
        rest = torch.arange(known, self.inputs.shape[1], device=labels.device).expand(len(moved), -1)
        place = torch.cat([moved, rest], dim=1)
        episode = torch.arange(count, device=labels.device).repeat(tasks - 1)
        return TrainingTask(
            inputs=torch.cat([self.inputs, self.inputs[episode[:, None], place]]),
            support_labels=self.support_labels.repeat(tasks, 1),
            way=self.way,
            n_query=self.n_query,
            query_labels=self.query_labels.repeat(tasks, 1),
            classes=self.classes.repeat(tasks, 1),
        )


@dataclass(frozen=True)
class LabelledBatch:
    """Mini-batches of labelled images for training."""

    inputs: Float[Tensor, "batch image *shape"]
    labels: Int64[Tensor, "batch image"]
    """Classes of the training split."""


def as_task(episodes: list[Episode], inputs: Float[Tensor, "episode node *shape"]) -> Task:
    """Combine episodes of the same shape and their inputs (images or embeddings) into a task."""
    first = episodes[0]
    support = _labels(episodes, Role.SUPPORT).to(inputs.device)
    return Task(inputs, support, len(first.classes), int((first.role == Role.QUERY).sum()))


def as_training_task(episodes: list[Episode], inputs: Float[Tensor, "episode node *shape"]) -> TrainingTask:
    """Combine episodes of the same shape and their inputs into a task for training."""
    task = as_task(episodes, inputs)
    classes = torch.from_numpy(np.stack([episode.classes for episode in episodes])).to(inputs.device)
    return TrainingTask(**vars(task), query_labels=query_labels(episodes).to(inputs.device), classes=classes)


def query_labels(episodes: list[Episode]) -> Int64[Tensor, "episode query"]:
    """Return the true labels of the queries; -1 for those of no class."""
    return _labels(episodes, Role.QUERY)


def _labels(episodes: list[Episode], role: Role) -> Int64[Tensor, "episode node"]:
    return torch.from_numpy(np.stack([episode.labels[episode.role == role] for episode in episodes]))
