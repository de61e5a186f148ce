"""What every few-shot method is: settings, an embedding, scores and a way to learn."""

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tpn.backbones._backbone import Backbone
from tpn.backbones._registry import build_backbone
from tpn.episodes.task import Task, TrainingTask
from tpn.methods._config import Config, check_at_least, check_rounds

__all__ = ["Config", "Dimensions", "Info", "Learned", "Method", "check_at_least", "check_rounds"]


@dataclass(frozen=True)
class Info:
    """What a method is."""

    name: str
    paper: str
    transduction: Literal["yes", "bn", "no"]
    """Do queries share information: by the method itself, by batch normalisation only, or not at all."""
    fixed_way: bool = False
    """Is it trained for one number of classes only?"""
    fixed_shot: bool = False
    """Is it trained for one number of shots only?"""
    equivariant: bool = True
    """Does relabelling the classes permute its scores?"""
    unlabelled: Literal["ignores", "uses", "needs"] = "ignores"
    """What it makes of unlabelled images beside the support and the queries."""
    learns_from: Literal["episodes", "classes"] = "episodes"
    """What a step of training shows it: episodes like those of a test, or mini-batches of all training classes."""

    @property
    def counted_in(self) -> tuple[str, str]:
        """What its training is counted in: one of them, and several."""
        return ("episode", "episodes") if self.learns_from == "episodes" else ("mini-batch", "mini-batches")


AnyConfig: TypeAlias = Config  # inside Method, `Config` is its own settings class


@dataclass(frozen=True)
class Dimensions:
    """What a network is built for."""

    channels: int
    image_size: int
    way: int
    shot: int
    train_classes: int
    mean: tuple[float, ...] = ()
    """Of the training images, in each channel; if not given, images are not normalised."""
    std: tuple[float, ...] = ()

    def build_backbone(self, config: Config) -> Backbone:
        """A new backbone, as the settings want it, for such images."""
        return build_backbone(config.backbone, self.channels, self.image_size, self.mean, self.std, config.drop_block)


@dataclass(frozen=True)
class Learned:
    """What one step of learning saw before it changed anything."""

    loss: float
    accuracy: float

    @classmethod
    def of(cls, loss: Tensor, scores: Float[Tensor, "*node way"], labels: Int64[Tensor, "*node"]) -> "Learned":
        """From a loss, and the scores of images of these classes."""
        return cls(loss.item(), (scores.detach().argmax(-1) == labels).float().mean().item())

    @classmethod
    def mean(cls, several: list["Learned"]) -> "Learned":
        """Of several tasks."""
        return cls(fmean(one.loss for one in several), fmean(one.accuracy for one in several))


class Method(nn.Module):
    """A few-shot learner. A new one is a file in this folder with a registered subclass of this class."""

    info: ClassVar[Info]
    Config: ClassVar[type[Config]] = Config

    def __init__(self, config: AnyConfig, dimensions: Dimensions) -> None:
        super().__init__()
        self.config, self.dimensions = config, dimensions
        self.scaler = torch.amp.GradScaler(enabled=False)
        """What gradients are multiplied by while they are computed: float16 knows no very small ones."""

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @property
    def backbones(self) -> list[Backbone]:
        """The networks from images to maps among its parts."""
        return [part for part in self.modules() if isinstance(part, Backbone)]

    def compile_backbone(self) -> None:
        """Have torch compile the backbone for training."""
        for backbone in self.backbones:
            backbone.compile_blocks()

    def lower_precision(self, precision: torch.dtype) -> None:
        """Let the backbone compute in this number format in training."""
        for backbone in self.backbones:
            backbone.precision = precision

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image *feature"]:
        """The part of the method that does not depend on the task: if there is none, the images themselves."""
        return images

    @property
    def embeds(self) -> bool:
        """Is there such a part, so that it is worth keeping what comes out of it?"""
        return type(self).embed is not Method.embed

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        """From embeddings to a score of every query for every class. It may adapt to the task."""
        raise NotImplementedError

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        """The loss on episodes of images, and the scores of their queries."""
        scores = self.score(self.embedded(task))
        return F.cross_entropy(scores.flatten(0, 1), task.query_labels.flatten()), scores

    def learn(self, task: TrainingTask) -> Learned:
        """Add one step's worth of gradients."""
        loss, scores = self.loss(task)
        self.backward(loss)
        return Learned.of(loss, scores, task.query_labels)

    def backward(self, loss: Float[Tensor, ""]) -> None:
        """Add the gradients of a loss."""
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def start(self, task: TrainingTask) -> None:
        """Look at some episodes before training begins, for an initialisation that depends on the data."""

    def graph(self, task: Task) -> Float[Tensor, "episode node node"] | None:
        """The weights of the edges between the nodes of embedded episodes, if the method has such a thing."""
        return None

    def embedded(self, task: Task) -> Task:
        """The task with its images embedded, each episode by itself: they share no batch statistics."""
        return task.with_inputs(torch.stack([self.embed(images) for images in task.inputs]))
