"""The settings that every method has: its backbone, and how it is trained."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tpn.backbones._registry import check_backbone
from tpn.errors import TPNError
from tpn.images.augmentation import Augmentation

MOST_ROUNDS = 100_000


@dataclass(frozen=True)
class Config:
    """The settings that every method has; a method's own class adds its own and may change these defaults."""

    backbone: str = "conv4"
    """The network from images to feature maps: conv4; conv4-32, which has half as many filters; conv4-maps, which
    pools only twice; resnet12, of four residual blocks with 64 to 512 filters; resnet12-wide (64 to 640), resnet12-32
    (32 to 256), resnet12-16 (16 to 128)."""
    drop_block: float = 0.0
    """The share of its last maps that a resnet12 drops in training, in blocks (DropBlock)."""
    augment: tuple[Augmentation, ...] = ()
    """Change training images at random: crop (shift by up to an eighth), flip (left to right), jitter (brightness,
    contrast and saturation). The paper does not."""
    episodes: int = 10_000
    """Training episodes."""
    episodes_per_step: int = 1
    """Episodes whose gradients are averaged in one step of the optimiser."""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Adam, or gradient descent."""
    lr: float = 1e-3
    """The learning rate."""
    momentum: float = 0.0
    """Nesterov momentum of --optimiser sgd; 0 is none."""
    weight_decay: float = 0.0
    """How strongly weights are drawn towards zero at each step: those of convolutions and linear layers, not biases
    and normalisation. (With Adam, decoupled from the gradient: AdamW.)"""
    clip: float = 0.0
    """Shorten gradients that are longer than this; 0 never does."""
    schedule: Literal["halve", "linear", "step", "cosine"] = "halve"
    """Halve the learning rate every --halve-every episodes; or let it fall to zero at the last of --episodes, evenly
    (linear) or along a cosine; or drop it at some points on the way there (step). All but the first depend on
    --episodes: a run that is resumed with more of them follows the new course."""
    halve_every: int = 10_000
    """Halve the learning rate every so many episodes (with --schedule halve)."""
    drop_at: tuple[float, ...] = (0.6, 0.8)
    """After which shares of the episodes to drop the learning rate (with --schedule step)."""
    drop_by: float = 0.1
    """The factor by which it is dropped there."""
    warm_up: int = 0
    """Let the learning rate rise from zero during the first so many episodes."""
    validate_every: int = 100
    """Validate, and save, every so many episodes."""
    validation_episodes: int = 100
    """Episodes in a validation; the same ones each time."""
    patience: int = 50
    """Stop when this many validations in a row have brought no better accuracy; 0 never stops early."""

    def __post_init__(self) -> None:
        check_backbone(self.backbone, self.drop_block)
        for name in ("episodes", "episodes_per_step", "halve_every", "validate_every", "validation_episodes"):
            check_at_least(self, name, 1)
        for name in ("patience", "warm_up"):
            check_at_least(self, name, 0)
        if not 0 < self.lr <= 1:
            raise TPNError(f"--lr must be above 0 and at most 1, not {self.lr}.")
        if not 0 <= self.momentum < 1:
            raise TPNError(f"--momentum must be at least 0 and below 1, not {self.momentum}.")
        if self.momentum and self.optimiser != "sgd":
            raise TPNError(f"--momentum is for --optimiser sgd: {self.optimiser} has its own.")
        if not 0 <= self.weight_decay < 1:
            raise TPNError(f"--weight-decay must be at least 0 and below 1, not {self.weight_decay}.")
        if not 0 <= self.clip < float("inf"):
            raise TPNError(f"--clip must be a number of at least 0, not {self.clip}.")
        if not 0 < self.drop_by < 1:
            raise TPNError(f"--drop-by must be above 0 and below 1, not {self.drop_by}.")
        if not all(one < other for one, other in pairwise((0.0, *self.drop_at, 1.0))):
            given = " ".join(map(str, self.drop_at))
            raise TPNError(f"--drop-at must be rising numbers above 0 and below 1, not {given}.")


def check_at_least(config: Config, name: str, least: int) -> None:
    """Refuse a whole number that is too small."""
    value = getattr(config, name)
    if value < least:
        raise TPNError(f"--{name.replace('_', '-')} must be at least {least}, not {value}.")


def check_rounds(config: Config, name: str, least: int) -> None:
    """Refuse a number of repetitions, or a size, that is too small or beyond all reason."""
    check_at_least(config, name, least)
    if getattr(config, name) > MOST_ROUNDS:
        raise TPNError(f"--{name.replace('_', '-')} must be at most {MOST_ROUNDS}, not {getattr(config, name)}.")
