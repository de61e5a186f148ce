"""Networks from pictures to feature maps; flattening them is the method's business."""

from collections.abc import Callable
from functools import partial

from tpn.backbones.backbone import Backbone
from tpn.backbones.conv4 import Conv4, WideMaps
from tpn.backbones.normalisation import Normalisation
from tpn.errors import TPNError

__all__ = ["BACKBONES", "Backbone", "build_backbone", "check_backbone"]

BACKBONES: dict[str, Callable[[int, int], Backbone]] = {
    "conv4": Conv4,
    "conv4-32": partial(Conv4, filters=32),
    "conv4-maps": WideMaps,
}
"""Name -> how to build it for pictures of so many channels and pixels."""


def check_backbone(name: str) -> None:
    """Refuse a name that no backbone has."""
    if name not in BACKBONES:
        raise TPNError(f"Unknown backbone {name!r}: choose one of {', '.join(BACKBONES)}.")


def build_backbone(
    name: str, channels: int, image_size: int, mean: tuple[float, ...] = (), std: tuple[float, ...] = ()
) -> Backbone:
    """A new backbone for pictures of this size, with values of this mean and standard deviation in each channel."""
    check_backbone(name)
    backbone = BACKBONES[name](channels, image_size)
    if mean and std:
        backbone.normalise = Normalisation(mean, std)
    return backbone
