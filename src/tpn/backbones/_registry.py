"""The registry of backbones: built in, registered by users, or from installed packages."""

import copy
import inspect
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeAlias, TypeVar

from torch import nn

from tpn.backbones._backbone import Backbone, Identity, ModuleBackbone
from tpn.backbones._normalisation import Normalisation
from tpn.backbones.conv4 import Conv4, WideMaps
from tpn.backbones.dinov2 import DINOv2Base, DINOv2Small
from tpn.backbones.efficientnet_lite import EfficientNetLite0, EfficientNetLite1, EfficientNetLite2
from tpn.backbones.resnet12 import ResNet12
from tpn.errors import TPNError

ENTRY_POINTS = "tpn.backbones"
TRUSTED = "TPN_BACKBONES"
"""The environment variable that lists, separated by commas, networks (package.module:Name) that runs may import."""

Network: TypeAlias = nn.Module | Callable[..., nn.Module]
"""A network to copy, or a class or function that builds one."""
AnyNetwork = TypeVar("AnyNetwork", bound=Network)

_BACKBONES: dict[str, Network] = {
    "conv4": Conv4,
    "conv4-linear": partial(Conv4, last_relu=False),
    "conv4-32": partial(Conv4, filters=32),
    "conv4-maps": WideMaps,
    "resnet12": ResNet12,
    "resnet12-wide": partial(ResNet12, filters=(64, 160, 320, 640)),
    "resnet12-32": partial(ResNet12, filters=(32, 64, 128, 256)),
    "resnet12-16": partial(ResNet12, filters=(16, 32, 64, 128)),
    "efficientnet-lite0": EfficientNetLite0,
    "efficientnet-lite1": EfficientNetLite1,
    "efficientnet-lite2": EfficientNetLite2,
    "dinov2-s": DINOv2Small,
    "dinov2-b": DINOv2Base,
    "identity": Identity,
}
_NAMED_BY_USER: dict[str, Network | None] = {}
"""package.module:Name -> the network, if the user passed one; None if it must be imported."""


def register_backbone(name: str, network: AnyNetwork | None = None) -> Any:
    """Register a network under a name, which `--backbone` and `backbone=` then accept.

    Parameters
    ----------
    name : str
        The name, such as "my-resnet".
    network : nn.Module or callable, optional
        A class or function that builds the network, called with the number of channels and the image size if it takes
        them; or a network, which is copied for each run. If omitted, return a decorator.

    Returns
    -------
    The network, unchanged.

    Examples
    --------
    >>> import torch, tpn
    >>> @tpn.register_backbone("patches")
    ... class Patches(torch.nn.Module):
    ...     def __init__(self, channels, image_size):
    ...         super().__init__()
    ...         self.convolution = torch.nn.Conv2d(channels, 64, 7, stride=7)
    ...     def forward(self, images):
    ...         return self.convolution(images).relu()
    """

    def register(network: AnyNetwork) -> AnyNetwork:
        _check_network(network)
        if _BACKBONES.get(name, network) is not network and _origin(_BACKBONES[name]) != _origin(network):
            raise TPNError(f"There is already a backbone called {name!r}. Choose another name.")
        _BACKBONES[name] = network
        return network

    return register if network is None else register(network)


def list_backbones() -> list[str]:
    """Return the names of all backbones: built in, registered, or from installed packages."""
    return sorted({*_BACKBONES, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def backbone_name(backbone: Any) -> str:
    """Return the name under which a run records a network that the user passed, and remember the network by it."""
    if isinstance(backbone, str):
        if ":" in backbone:
            _NAMED_BY_USER.setdefault(backbone, None)
        return backbone
    _check_network(backbone)
    for name, known in _BACKBONES.items():
        if known is backbone:
            return name
    name = _origin(backbone)
    _NAMED_BY_USER[name] = backbone
    return name


def find_backbone(name: str) -> Network:
    """Return the network of this name. Code is imported only if the user named it, not because a run folder does."""
    if name in _BACKBONES:
        return _BACKBONES[name]
    for point in entry_points(group=ENTRY_POINTS, name=name):
        try:
            return _BACKBONES.setdefault(name, _check_network(point.load()))
        except Exception as failure:  # another package's code, which can fail in any way
            raise TPNError(f"The backbone {name} of another package cannot be loaded: {failure}.") from failure
    if ":" not in name:
        raise TPNError(
            f"Unknown backbone {name!r}: choose one of {', '.join(list_backbones())}, or package.module:Name."
        )
    network = _NAMED_BY_USER.get(name)
    if network is not None:
        return network
    trusted = {one.strip() for one in os.environ.get(TRUSTED, "").split(",")}
    if name not in _NAMED_BY_USER and name not in trusted:
        raise TPNError(
            f"The backbone {name} is code outside tpn, which is not imported just because a run folder names it. If "
            f"you trust it, name it yourself: --backbone {name}, or the environment variable {TRUSTED}={name}."
        )
    return _imported(name)


def check_backbone(name: str, drop_block: float = 0.0, image_size: int | None = None) -> None:
    """Refuse an unknown name, a setting that the network lacks, or images that are too small for it."""
    network = find_backbone(name)
    least = getattr(network.func if isinstance(network, partial) else network, "smallest_image", 1)
    if image_size is not None and 0 < image_size < least:
        raise TPNError(
            f"{name} needs images of at least {least}x{least} pixels, not {image_size}x{image_size}. Choose a larger "
            "--image-size."
        )
    if not 0 <= drop_block < 1:
        raise TPNError(f"--drop-block must be at least 0 and below 1, not {drop_block}.")
    if drop_block and "drop_block" not in _parameters(network):
        residual = [name for name, known in _BACKBONES.items() if "drop_block" in _parameters(known)]
        raise TPNError(f"--drop-block is for {', '.join(residual)}, not for {name}.")


def build_backbone(
    name: str,
    channels: int,
    image_size: int,
    mean: tuple[float, ...] = (),
    std: tuple[float, ...] = (),
    drop_block: float = 0.0,
) -> Backbone:
    """Build a new backbone for images of this size, and of this mean and standard deviation per channel."""
    check_backbone(name, drop_block, image_size)
    network = find_backbone(name)
    options = {"drop_block": drop_block} if drop_block else {}
    built = (
        copy.deepcopy(network)
        if isinstance(network, nn.Module)
        else _call(network, name, channels, image_size, options)
    )
    backbone = built if isinstance(built, Backbone) else ModuleBackbone(built, name, channels, image_size)
    if mean and std and not backbone.normalises_itself:
        backbone.normalise = Normalisation(mean, std)
    return backbone


def _call(builder: Callable[..., Any], name: str, channels: int, image_size: int, options: dict[str, Any]) -> nn.Module:
    """Call a builder with the channels and the image size, by keyword, or in this order for its required parameters."""
    parameters = _parameters(builder)
    by_name = {"channels": channels, "in_channels": channels, "image_size": image_size}
    given = {name: by_name[name] for name in parameters if name in by_name} | options
    in_order = [] if {"channels", "in_channels"} & given.keys() else [channels]
    in_order += [] if "image_size" in given else [image_size]
    required = [
        parameter.name
        for parameter in parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        and parameter.name not in given
    ]
    given |= dict(zip(required, in_order, strict=False))
    try:
        built = builder(**given)
    except TypeError as failure:
        raise TPNError(
            f"The backbone {name} cannot be built: {failure}. It is called with the number of channels and the image "
            "size, if it takes them."
        ) from failure
    if not isinstance(built, nn.Module):
        raise TPNError(f"The backbone {name} must build an nn.Module, not {type(built).__name__}.")
    return built


def _parameters(network: Network) -> dict[str, inspect.Parameter]:
    if isinstance(network, nn.Module):
        return {}
    try:
        return dict(inspect.signature(network).parameters)
    except (TypeError, ValueError):
        return {}


def _check_network(network: Any) -> Any:
    if not isinstance(network, nn.Module) and not callable(network):
        raise TPNError(
            f"A backbone is an nn.Module, a class or function that builds one, or a name, not {type(network).__name__}."
        )
    return network


def _origin(network: Network) -> str:
    """Return where a network is defined: package.module:Name."""
    kind = type(network) if isinstance(network, nn.Module) else network
    kind = kind.func if isinstance(kind, partial) else kind
    return f"{kind.__module__}:{kind.__qualname__}"


def _imported(name: str) -> Network:
    module, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as failure:
        raise TPNError(f"The backbone {name} cannot be imported: {failure}.") from failure
    return _check_network(found)  # type: ignore[no-any-return]
