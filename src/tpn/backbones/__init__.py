"""Networks from pictures to feature maps; flattening them is the method's business."""

from typing import Protocol

from torch import Tensor

from tpn.backbones.conv4 import Conv4
from tpn.errors import TPNError

__all__ = ["BACKBONES", "Backbone", "build_backbone", "check_backbone"]

BACKBONES = {"conv4": Conv4}


class Backbone(Protocol):
    """Pictures -> feature maps of `map_shape` (filters, height, width)."""

    map_shape: tuple[int, int, int]

    def __call__(self, pictures: Tensor) -> Tensor: ...


def check_backbone(name: str) -> None:
    """Refuse a name that no backbone has."""
    if name not in BACKBONES:
        raise TPNError(f"Unknown backbone {name!r}: choose one of {', '.join(BACKBONES)}.")


def build_backbone(name: str, channels: int, image_size: int) -> Conv4:
    """A new backbone for pictures of this size."""
    check_backbone(name)
    return BACKBONES[name](channels, image_size)
