"""Settings of every method: its backbone and its training. This module does not import torch."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from tpn.errors import TPNError

MOST_ROUNDS = 100_000
MOST_EPISODES = 10**9
Augmentation: TypeAlias = Literal["resized-crop", "crop", "flip", "jitter"]
Schedule: TypeAlias = Literal["halve", "linear", "step", "cosine", "one-cycle"]
RISE = 0.3
"""The fraction of the episodes in which the learning rate of the one-cycle schedule rises."""


@dataclass(frozen=True)
class Config:
    """Settings of every method. The settings class of a method adds its own, and may change these defaults."""

    backbone: str = "conv4"
    """The network from images to feature maps: a name that `tpn backbones` lists (conv4, resnet12, …), or
    package.module:Name for a network of your own; in Python also an nn.Module, or a class or function that builds
    one."""
    drop_block: float = 0.0
    """DropBlock: the fraction of its last feature maps that a resnet12 sets to zero in training."""
    augment: tuple[Augmentation, ...] = ()
    """Augment training images at random: resized-crop (a rectangle of at least --crop-area of the image, resized to the
    whole), crop (shift by up to an eighth), flip (left to right), jitter (brightness, contrast and saturation). The
    paper uses no augmentation."""
    crop_area: float = 0.4
    """The smallest area of a resized-crop, as a fraction of the image."""
    sizes: tuple[int, ...] = ()
    """Progressive image size: train on images resized to these heights and widths, one after the other, smallest first;
    the last is --image-size. The cost of a step is proportional to the pixels (default: --image-size only)."""
    size_shares: tuple[float, ...] = ()
    """The fraction of the episodes at each of --sizes (default: the same for each)."""
    episodes: int = 10_000
    """Training episodes."""
    episodes_per_step: int = 1
    """Episodes whose gradients are averaged in one optimiser step."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Adam, or stochastic gradient descent."""
    lr: float = 1e-3
    """The learning rate."""
    momentum: float = 0.0
    """Nesterov momentum of --optimiser sgd; 0 switches it off."""
    weight_decay: float = 0.0
    """Weight decay for the weights of convolutions and linear layers, not for biases and normalisation (with Adam,
    decoupled from the gradient: AdamW)."""
    clip: float = 0.0
    """Clip the norm of the gradient to this value; 0 switches clipping off."""
    schedule: Schedule = "halve"
    """Learning rate schedule: halved every --halve-every episodes (halve), to zero at the last episode linearly
    (linear) or along a cosine (cosine), multiplied by --drop-by at --drop-at (step), or rising for the first 30 % of
    the episodes and then falling to zero along a cosine (one-cycle). All but halve depend on --episodes: a run that is
    resumed with more episodes follows the new schedule."""
    halve_every: int = 10_000
    """Episodes between halvings of the learning rate (--schedule halve)."""
    drop_at: tuple[float, ...] = (0.6, 0.8)
    """Drop the learning rate after these fractions of the episodes (--schedule step)."""
    drop_by: float = 0.1
    """The factor by which each drop multiplies the learning rate."""
    warm_up: int = 0
    """Raise the learning rate linearly from zero over this number of episodes."""
    backbone_lr: float = 1.0
    """The learning rate of the backbone, as a multiple of --lr. After a warm start, a value below 1 preserves what the
    backbone has learned."""
    ema: float = 0.0
    """Average the weights exponentially with this decay per step, such as 0.999. Validation uses the averaged weights,
    and the run keeps them; 0 switches averaging off."""
    validate_every: int = 100
    """Episodes between validations; each validation saves a checkpoint."""
    validation_episodes: int = 100
    """Episodes in a validation, the same each time."""
    patience: int = 50
    """Stop after this number of validations in a row without a better accuracy; 0 never stops early."""

    def __post_init__(self) -> None:
        for name in ("episodes", "episodes_per_step", "halve_every", "validate_every"):
            check_at_least(self, name, 1, MOST_EPISODES)
        check_rounds(self, "validation_episodes", 1)
        for name in ("patience", "warm_up"):
            check_at_least(self, name, 0, MOST_EPISODES)
        if not 0 < self.lr <= 1:
            raise TPNError(f"--lr must be above 0 and at most 1, not {self.lr}.")
        if not 0 <= self.drop_block < 1:
            raise TPNError(f"--drop-block must be at least 0 and below 1, not {self.drop_block}.")
        if not 0 <= self.momentum < 1:
            raise TPNError(f"--momentum must be at least 0 and below 1, not {self.momentum}.")
        if self.momentum and self.optimiser != "sgd":
            raise TPNError(f"--momentum is for --optimiser sgd, not for {self.optimiser}.")
        if not 0 <= self.weight_decay < 1:
            raise TPNError(f"--weight-decay must be at least 0 and below 1, not {self.weight_decay}.")
        if not 0 <= self.clip < float("inf"):
            raise TPNError(f"--clip must be a number of at least 0, not {self.clip}.")
        if not 0 <= self.backbone_lr < float("inf"):
            raise TPNError(f"--backbone-lr must be a number of at least 0, not {self.backbone_lr}.")
        if not 0 <= self.ema < 1:
            raise TPNError(f"--ema must be at least 0 and below 1, not {self.ema}.")
        if not 0 < self.crop_area <= 1:
            raise TPNError(f"--crop-area must be above 0 and at most 1, not {self.crop_area}.")
        check_sizes(self.sizes, self.size_shares)
        if not 0 < self.drop_by < 1:
            raise TPNError(f"--drop-by must be above 0 and below 1, not {self.drop_by}.")
        if not all(one < other for one, other in pairwise((0.0, *self.drop_at, 1.0))):
            given = " ".join(map(str, self.drop_at))
            raise TPNError(f"--drop-at must be rising numbers above 0 and below 1, not {given}.")


@dataclass(frozen=True)
class ClassifierConfig(Config):
    """Settings of methods that train a classifier of all training classes, on mini-batches instead of episodes."""

    episodes: int = 10_000
    """Training mini-batches; where other settings count episodes, they count mini-batches."""
    batch_size: int = 128
    """Images in a mini-batch. (--way, --shot and --query apply to validation.)"""
    label_smoothing: float = 0.0
    """Label smoothing: the probability taken from the true class and spread over all classes."""
    augment: tuple[Augmentation, ...] = ("crop", "flip")
    optimiser: Literal["adam", "sgd"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Schedule = "cosine"
    warm_up: int = 50
    patience: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "batch_size", 2)
        if not 0 <= self.label_smoothing < 1:
            raise TPNError(f"--label-smoothing must be at least 0 and below 1, not {self.label_smoothing}.")


@dataclass(frozen=True)
class AdaptingConfig(Config):
    """Settings of methods that adapt a backbone and a linear layer to each task."""

    zero_head: bool = False
    """Start the linear layer at zero instead of at random. Training then begins with scores that prefer no class: after
    a warm start, the first steps of each task need not undo a random classifier."""


@dataclass(frozen=True)
class PretrainingConfig(ClassifierConfig):
    """Classifier baseline: train a classifier of all training classes; predict the nearest class mean by cosine."""

    classifier: Literal["linear", "cosine"] = "linear"
    """The classifier of the training classes: linear, or by cosine with a learned factor, which suits a test by cosine
    better."""
    nca: float = 0.0
    """The weight of a second loss, neighbourhood component analysis: images of a mini-batch that belong to one class
    attract each other by cosine, all others repel."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.nca < float("inf"):
            raise TPNError(f"--nca must be a number of at least 0, not {self.nca}.")


def check_sizes(sizes: tuple[int, ...], shares: tuple[float, ...]) -> None:
    """Refuse image sizes that do not rise, and shares that do not belong to them."""
    if sizes and (min(sizes) < 1 or any(one >= other for one, other in pairwise(sizes))):
        raise TPNError(f"--sizes must be rising numbers of pixels, not {' '.join(map(str, sizes))}.")
    if shares and (len(shares) != len(sizes) or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6):
        given = " ".join(map(str, shares))
        raise TPNError(f"--size-shares needs a fraction above 0 for each of --sizes, with the sum 1, not {given}.")


def check_at_least(config: Config, name: str, least: int, most: int | None = None) -> None:
    """Refuse a setting that is too small, or far too large."""
    value = getattr(config, name)
    if value < least:
        raise TPNError(f"--{name.replace('_', '-')} must be at least {least}, not {value}.")
    if most is not None and value > most:
        raise TPNError(f"--{name.replace('_', '-')} must be at most {most}, not {value}.")


def check_rounds(config: Config, name: str, least: int) -> None:
    """Refuse a number of iterations, or a size, that is too small or far too large."""
    check_at_least(config, name, least, MOST_ROUNDS)
