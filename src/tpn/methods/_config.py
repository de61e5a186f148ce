"""Settings of every method: its backbone and its training. This module does not import torch."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from tpn.errors import TPNError

MOST_ROUNDS = 100_000
MOST_EPISODES = 10**9
Augmentation: TypeAlias = Literal["crop", "flip", "jitter"]
Schedule: TypeAlias = Literal["halve", "linear", "step", "cosine"]


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
    """Augment training images at random: crop (shift by up to an eighth), flip (left to right), jitter (brightness,
    contrast and saturation). The paper uses no augmentation."""
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
    (linear) or along a cosine (cosine), or multiplied by --drop-by at --drop-at (step). All but halve depend on
    --episodes: a run that is resumed with more episodes follows the new schedule."""
    halve_every: int = 10_000
    """Episodes between halvings of the learning rate (--schedule halve)."""
    drop_at: tuple[float, ...] = (0.6, 0.8)
    """Drop the learning rate after these fractions of the episodes (--schedule step)."""
    drop_by: float = 0.1
    """The factor by which each drop multiplies the learning rate."""
    warm_up: int = 0
    """Raise the learning rate linearly from zero over this number of episodes."""
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
