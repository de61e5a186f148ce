"""The base class of few-shot methods: settings, an embedding, scores, a loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tpn.backbones._backbone import Backbone
from tpn.backbones._registry import build_backbone
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.sampler import Sampler
from tpn.episodes.setting import Setting
from tpn.episodes.task import Task, TrainingTask
from tpn.errors import TPNError
from tpn.images.split import Split
from tpn.methods._config import Config

Backward: TypeAlias = Callable[[Tensor], None]
"""A function that adds the gradients of a loss; in float16 training it scales the loss."""


@dataclass(frozen=True)
class Info:
    """Properties of a method."""

    name: str
    paper: str
    transduction: Literal["yes", "bn", "no"]
    """Whether queries share information: by the method itself, by batch normalisation only, or not at all."""
    fixed_way: bool = False
    """Whether it can only be tested with the number of classes it was trained with."""
    fixed_shot: bool = False
    """Whether it can only be tested with the number of shots it was trained with."""
    equivariant: bool = True
    """Whether relabelling the classes permutes its scores."""
    unlabelled: Literal["ignores", "uses", "needs"] = "ignores"
    """Whether it uses unlabelled images besides the support and the queries."""
    learns_from: Literal["episodes", "mini-batches"] = "episodes"
    """Whether a training step draws episodes, as in a test, or mini-batches of all training classes."""
    class_balance: Literal["unknown", "estimated", "equal"] = "unknown"
    """What it knows of the class balance of the queries: nothing (unknown), it estimates it (estimated), or it assumes
    classes of equal size (equal)."""
    head: bool = False
    """Whether it scores embeddings without weights of its own, so that it can be tested on features."""

    @property
    def counted_in(self) -> tuple[str, str]:
        """The unit of its training length, in singular and plural."""
        return ("episode", "episodes") if self.learns_from == "episodes" else ("mini-batch", "mini-batches")


AnyConfig: TypeAlias = Config  # inside Method, `Config` is its own settings class


@dataclass(frozen=True)
class Dimensions:
    """The shape of the data for which a network is built."""

    channels: int
    image_size: int
    way: int
    shot: int
    train_classes: int
    mean: tuple[float, ...] = ()
    """Mean of the training images in each channel; if empty, images are not normalised."""
    std: tuple[float, ...] = ()

    def build_backbone(self, config: Config) -> Backbone:
        """Build the backbone of these settings for images of this shape."""
        return build_backbone(config.backbone, self.channels, self.image_size, self.mean, self.std, config.drop_block)


@dataclass(frozen=True)
class Learned:
    """Loss and accuracy of a training step, before the weights change."""

    loss: float
    accuracy: float

    @classmethod
    def of(cls, loss: Tensor, scores: Float[Tensor, "*node way"], labels: Int64[Tensor, "*node"]) -> "Learned":
        """Compute the accuracy from the scores of images with these labels."""
        return cls(loss.item(), (scores.detach().argmax(-1) == labels).float().mean().item())

    @classmethod
    def mean(cls, several: list["Learned"]) -> "Learned":
        """Return the mean loss and accuracy of several tasks."""
        return cls(fmean(one.loss for one in several), fmean(one.accuracy for one in several))


def backward(loss: Tensor) -> None:
    """Add the gradients of a loss, without scaling."""
    loss.backward()  # type: ignore[no-untyped-call]


class Method(nn.Module):
    """Base class of few-shot methods. Subclasses define `info`, `Config`, `embed` and `score`.

    On tensors it works like a scikit-learn classifier: `method.fit(support, labels).predict(query)`.
    """

    info: ClassVar[Info]
    Config: ClassVar[type[Config]] = Config

    def __init__(self, config: AnyConfig, dimensions: Dimensions) -> None:
        super().__init__()
        self.config, self.dimensions = config, dimensions

    @property
    def device(self) -> torch.device:
        """The device of its parameters."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @property
    def backbones(self) -> list[Backbone]:
        """The backbones among its modules."""
        return [part for part in self.modules() if isinstance(part, Backbone)]

    @property
    def transduction(self) -> str:
        """Whether queries share information, with these settings; see `Info.transduction`."""
        return self.info.transduction

    def compile_backbone(self) -> None:
        """Compile the backbone for training with torch.compile."""
        for backbone in self.backbones:
            backbone.compile_blocks()

    def lower_precision(self, precision: torch.dtype) -> None:
        """Use this precision for the backbone in training."""
        for backbone in self.backbones:
            backbone.precision = precision

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image *feature"]:
        """Embed images: the part of the method that does not depend on the task. By default, return the images."""
        return images

    def forward(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image *feature"]:
        """Embed images, as `embed` does."""
        return self.embed(images)

    @property
    def embeds(self) -> bool:
        """Whether it has an embedding, so that each image need be embedded only once."""
        return type(self).embed is not Method.embed

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        """Return the score of every query for every class, given embedded episodes. A method may adapt to the task."""
        raise NotImplementedError

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        """Return the loss on episodes of images, and the scores of their queries."""
        scores = self.score(self.embedded(task))
        return F.cross_entropy(scores.flatten(0, 1), task.query_labels.flatten()), scores

    def learn(self, task: Any, backward: Backward = backward) -> Learned:
        """Add the gradients of one training step. `task` is what the method's sampler collates."""
        loss, scores = self.loss(task)
        backward(loss)
        return Learned.of(loss, scores, task.query_labels)

    @classmethod
    def sampler(cls, split: Split, setting: Setting, config: AnyConfig, seed: int) -> Sampler:
        """Return the sampler of training steps: by default, of episodes of this setting."""
        return EpisodeSampler(split, setting, seed)

    def initialise(self, task: Any) -> None:
        """Initialise weights that depend on the data, given the first training step. By default, do nothing."""

    def graph(self, task: Task) -> Float[Tensor, "episode node node"] | None:
        """Return the edge weights between the nodes of embedded episodes, if the method builds a graph."""
        return None

    def embedded(self, task: Task) -> Task:
        """Return the task with its images embedded, each episode separately: they share no batch statistics."""
        return task.with_inputs(torch.stack([self.embed(images) for images in task.inputs]))

    # the interface of a scikit-learn classifier

    def fit(self, support: Tensor | np.ndarray, labels: Sequence[Any] | np.ndarray | Tensor) -> "Method":
        """Store the labelled images of one task.

        Parameters
        ----------
        support : tensor or array of shape (n_support, channels, height, width)
            Images with values from 0 to 1.
        labels : sequence of length n_support
            Their classes, of any type that can be sorted.

        Returns
        -------
        self
        """
        classes, codes = np.unique(np.asarray(labels), return_inverse=True)
        if len(codes) != len(support) or len(classes) < 2:
            raise TPNError(
                f"fit needs a label for each of the {len(support)} images, of at least two classes; it got "
                f"{len(codes)} labels of {len(classes)} class(es)."
            )
        check_way_and_shot(self.info, self.dimensions, len(classes), np.bincount(codes))
        self.classes_, self._support, self._codes = classes, support, torch.from_numpy(codes)
        return self

    def decision_function(self, query: Tensor | np.ndarray) -> Float[Tensor, "query way"]:
        """Return the score of each query for each class of `classes_`. A transductive method uses all queries."""
        if not hasattr(self, "classes_"):
            raise TPNError(f"{self.info.name} has no task yet: call fit(support, labels) first.")
        from tpn.methods._inference import scores_of_task

        return scores_of_task(self, self._support, self._codes, query, len(self.classes_))

    def predict_proba(self, query: Tensor | np.ndarray) -> np.ndarray:
        """Return the probability of each class of `classes_` for each query, of shape (n_query, n_classes)."""
        return self.decision_function(query).softmax(-1).numpy()

    def predict(self, query: Tensor | np.ndarray) -> np.ndarray:
        """Return the class of each query, of shape (n_query,)."""
        best = self.decision_function(query).argmax(-1).numpy()
        return np.asarray(self.classes_[best])


def check_way_and_shot(info: Info, dimensions: Dimensions, way: int, shots: Sequence[int] | np.ndarray) -> None:
    """Refuse a way, or shots of its classes, that the method was not trained for."""
    if info.fixed_way and way != dimensions.way:
        raise TPNError(
            f"{info.name} was trained for {dimensions.way} classes, with an output for each: it cannot be used with "
            f"--way {way}."
        )
    if info.fixed_shot and set(shots) != {dimensions.shot}:
        found = " and ".join(sorted({str(shot) for shot in shots}))
        raise TPNError(
            f"{info.name} was trained with {dimensions.shot} shots and supports no other number: it cannot be used "
            f"with --shot {found}."
        )
