"""What every few-shot method is: settings, a representation, scores and a way to learn."""

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tpn.backbones import Backbone, build_backbone, check_backbone
from tpn.episodes import Task, TrainingTask
from tpn.errors import TPNError
from tpn.images.augmentation import Augmentation

MOST_ROUNDS = 100_000


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
    """What it makes of unlabelled pictures beside the support and the queries."""


@dataclass(frozen=True)
class Config:
    """The settings that every method has; a method's own class adds its own and may change these defaults."""

    backbone: str = "conv4"
    """The network from pictures to feature maps: conv4; conv4-32, which has half as many filters; conv4-maps, which
    pools only twice."""
    augment: tuple[Augmentation, ...] = ()
    """Change training pictures at random: crop (shift by up to an eighth), flip (left to right), jitter (brightness,
    contrast and saturation). None, as in the paper, if not given."""
    episodes: int = 10_000
    """Training episodes."""
    episodes_per_step: int = 1
    """Episodes whose gradients are averaged in one step of the optimiser."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Adam, or plain gradient descent."""
    lr: float = 1e-3
    """The learning rate."""
    schedule: Literal["halve", "linear"] = "halve"
    """Halve the learning rate every --halve-every episodes, or let it fall evenly to zero at the last of --episodes (a
    run that is resumed with more of them falls towards the new end)."""
    halve_every: int = 10_000
    """Halve the learning rate every so many episodes (with --schedule halve)."""
    validate_every: int = 100
    """Validate, and save, every so many episodes."""
    validation_episodes: int = 100
    """Episodes in a validation; the same ones each time."""
    patience: int = 50
    """Stop when this many validations in a row have brought no better accuracy; 0 never stops early."""

    def __post_init__(self) -> None:
        check_backbone(self.backbone)
        for name in ("episodes", "episodes_per_step", "halve_every", "validate_every", "validation_episodes"):
            check_at_least(self, name, 1)
        check_at_least(self, "patience", 0)
        if not 0 < self.lr <= 1:
            raise TPNError(f"--lr must be above 0 and at most 1, not {self.lr}.")


def check_at_least(config: Config, name: str, least: int) -> None:
    """Refuse a whole number that is too small."""
    value = getattr(config, name)
    if value < least:
        raise TPNError(f"--{name.replace('_', '-')} must be at least {least}, not {value}.")


def check_rounds(config: Config, name: str, least: int) -> None:
    """Refuse a number of repetitions that is too small, or that would never end."""
    check_at_least(config, name, least)
    if getattr(config, name) > MOST_ROUNDS:
        raise TPNError(f"--{name.replace('_', '-')} must be at most {MOST_ROUNDS}, not {getattr(config, name)}.")


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
    """Of the training pictures, in each channel; if not given, pictures are not normalised."""
    std: tuple[float, ...] = ()

    def build_backbone(self, name: str) -> Backbone:
        """A new backbone for such pictures."""
        return build_backbone(name, self.channels, self.image_size, self.mean, self.std)


@dataclass(frozen=True)
class Learned:
    """What one step of learning saw before it changed anything."""

    loss: float
    accuracy: float

    @classmethod
    def of(cls, loss: Tensor, scores: Float[Tensor, "*node way"], labels: Int64[Tensor, "*node"]) -> "Learned":
        """From a loss, and the scores of pictures of these classes."""
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

    def represent(self, pictures: Float[Tensor, "picture channel height width"]) -> Float[Tensor, "picture *feature"]:
        """The part of the method that does not depend on the task: if there is none, the pictures themselves."""
        return pictures

    @property
    def represents(self) -> bool:
        """Is there such a part, so that it is worth keeping what comes out of it?"""
        return type(self).represent is not Method.represent

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        """From representations to a score of every query for every class. It may adapt to the task."""
        raise NotImplementedError

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        """The loss on episodes of pictures, and the scores of their queries."""
        scores = self.score(self.represented(task))
        return F.cross_entropy(scores.flatten(0, 1), task.query_labels.flatten()), scores

    def learn(self, task: TrainingTask) -> Learned:
        """Add one step's worth of gradients."""
        loss, scores = self.loss(task)
        loss.backward()  # type: ignore[no-untyped-call]
        return Learned.of(loss, scores, task.query_labels)

    def start(self, task: TrainingTask) -> None:
        """Look at some episodes before training begins, for an initialisation that depends on the data."""

    def graph(self, task: Task) -> Float[Tensor, "episode node node"] | None:
        """The weights of the edges between the nodes of represented episodes, if the method has such a thing."""
        return None

    def represented(self, task: Task) -> Task:
        """The task with its pictures represented, each episode by itself: they share no batch statistics."""
        return task.with_inputs(torch.stack([self.represent(pictures) for pictures in task.inputs]))
