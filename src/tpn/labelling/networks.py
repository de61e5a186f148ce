"""Networks that embed the images of a folder: pre-trained ones, and runs of ours."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.backbones._registry import backbone_name, build_backbone, list_backbones
from tpn.backbones.efficientnet_lite0 import EfficientNetLite0, weights_file
from tpn.errors import TPNError
from tpn.methods._registry import find_method
from tpn.methods.tpn import TPN
from tpn.runs.folder import find_run
from tpn.runs.loading import load_run, weights_digest

EFFICIENTNET = "efficientnet-lite0"
TIMM = "timm:"
IMAGE_SIZE = 224
"""The images that a registered backbone gets."""


@dataclass(frozen=True)
class Network:
    """A network, and the size of the images that it takes."""

    key: str
    """Identifies the network and its weights in the cache."""
    image_size: int
    embed: Callable[[Float[Tensor, "image 3 size size"]], Float[Tensor, "image feature"]]
    """From images with values from 0 to 1 to features."""
    title: str
    """The name in messages."""


@dataclass(frozen=True)
class LazyNetwork:
    """A network that is loaded only if there is something to embed; its key is known at once."""

    key: str
    load: Callable[[], Network]


def find_network(name: str, device: torch.device) -> LazyNetwork:
    """Find a network by name: efficientnet-lite0, timm:MODEL, or a run."""
    if name == EFFICIENTNET:
        return _efficientnet(device)
    if name.startswith(TIMM):
        return _timm(name.removeprefix(TIMM), device)
    if find_run(name).exists:
        return _run(name, device)
    if name in list_backbones() or ":" in name:
        return _registered(name, device)
    raise TPNError(
        f"Unknown backbone {name!r}: choose {EFFICIENTNET}, timm:MODEL, the folder of a run of `tpn train`, or "
        "mini-conv4, whose weights come with tpn."
    )


def check_learned_scales(name: str) -> None:
    """Refuse a network that has not learned length scales."""
    run = find_run(name)
    if not (run.exists and issubclass(find_method(run.read_config().method), TPN)):
        raise TPNError(
            "--length-scale learned needs --backbone RUN with a run of tpn, which has learned length scales."
        )


def _efficientnet(device: torch.device) -> LazyNetwork:
    key = f"{EFFICIENTNET}-{weights_file().stem.rpartition('-')[2]}"

    def build() -> Network:
        network = EfficientNetLite0().eval().requires_grad_(False).to(device)
        return Network(key, network.image_size, network.features, "EfficientNet-Lite0, trained on ImageNet")

    return LazyNetwork(key, build)


def _run(name: str, device: torch.device) -> LazyNetwork:
    run = find_run(name)
    config, key = run.read_config(), f"run-{weights_digest(run)}"
    if config.channels != 3:
        raise TPNError(f"{name} was trained on images of {config.channels} channel(s), not on colour images.")

    def build() -> Network:
        method = load_run(run, config).to(device)
        if not method.embeds:
            raise TPNError(f"{method.info.name} has no features of single images: choose a run of another method.")
        title = f"{method.info.name}, trained in {name}"
        return Network(key, config.image_size, lambda images: method.embed(images).flatten(1), title)

    return LazyNetwork(key, build)


def _registered(name: str, device: torch.device) -> LazyNetwork:
    """A network of the user's, with the weights that it is built with."""
    backbone_name(name)
    backbone = build_backbone(name, 3, IMAGE_SIZE).eval().requires_grad_(False).to(device)
    digest = hashlib.sha256()
    for tensor in backbone.state_dict().values():
        digest.update(tensor.cpu().numpy().tobytes())
    key = f"backbone-{name}-{digest.hexdigest()[:16]}"
    return LazyNetwork(key, lambda: Network(key, IMAGE_SIZE, backbone.features, name))


def _timm(name: str, device: torch.device) -> LazyNetwork:
    try:
        timm: Any = import_module("timm")
    except ImportError as failure:
        raise TPNError(f"timm:{name} needs timm: `pip install timm`.") from failure
    key = f"timm-{timm.__version__}-{name}"

    def build() -> Network:
        try:
            model = timm.create_model(name, pretrained=True, num_classes=0).eval().to(device)
        except Exception as failure:  # an unknown name, weights that cannot be fetched, …
            raise TPNError(f"timm cannot load {name!r}: {' '.join(str(failure).split())[:300]}") from failure
        wants = timm.data.resolve_model_data_config(model)
        mean, std = (torch.tensor(wants[part], device=device).view(1, 3, 1, 1) for part in ("mean", "std"))
        return Network(key, wants["input_size"][-1], lambda images: model((images - mean) / std), f"{name} of timm")

    return LazyNetwork(key, build)
