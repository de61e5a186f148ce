"""All backbones by name."""

from collections.abc import Callable
from functools import partial

from tpn.backbones._backbone import Backbone
from tpn.backbones._normalisation import Normalisation
from tpn.backbones.conv4 import Conv4, WideMaps
from tpn.backbones.resnet12 import ResNet12
from tpn.errors import TPNError

PLAIN: dict[str, Callable[[int, int], Backbone]] = {
    "conv4": Conv4,
    "conv4-32": partial(Conv4, filters=32),
    "conv4-maps": WideMaps,
}
RESIDUAL: dict[str, Callable[..., Backbone]] = {
    "resnet12": ResNet12,
    "resnet12-wide": partial(ResNet12, filters=(64, 160, 320, 640)),
    "resnet12-32": partial(ResNet12, filters=(32, 64, 128, 256)),
    "resnet12-16": partial(ResNet12, filters=(16, 32, 64, 128)),
}
"""Those that know DropBlock."""
BACKBONES = {**PLAIN, **RESIDUAL}
"""Name -> how to build it for images of so many channels and pixels."""


def check_backbone(name: str, drop_block: float = 0.0) -> None:
    """Refuse a name that no backbone has, and what it does not know."""
    if name not in BACKBONES:
        raise TPNError(f"Unknown backbone {name!r}: choose one of {', '.join(BACKBONES)}.")
    if not 0 <= drop_block < 1:
        raise TPNError(f"--drop-block must be at least 0 and below 1, not {drop_block}.")
    if drop_block and name not in RESIDUAL:
        raise TPNError(f"--drop-block is for {', '.join(RESIDUAL)}, not for {name}.")


def build_backbone(
    name: str,
    channels: int,
    image_size: int,
    mean: tuple[float, ...] = (),
    std: tuple[float, ...] = (),
    drop_block: float = 0.0,
) -> Backbone:
    """A new backbone for images of this size, with values of this mean and standard deviation in each channel."""
    check_backbone(name, drop_block)
    options = {"drop_block": drop_block} if drop_block else {}
    backbone = BACKBONES[name](channels, image_size, **options)
    if mean and std:
        backbone.normalise = Normalisation(mean, std)
    return backbone
