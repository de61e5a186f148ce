"""Networks that turn images into features: pre-trained ones, and runs of ours."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.backbones.efficientnet_lite0 import EfficientNetLite0, weights_file
from tpn.errors import TPNError
from tpn.runs.folder import find_run, load
from tpn.training.warm_start import weights_digest

DEFAULT = "efficientnet-lite0"
TIMM = "timm:"


@dataclass(frozen=True)
class Network:
    """A network, and the images that it takes."""

    key: str
    """What tells its features from those of other networks."""
    image_size: int
    embed: Callable[[Float[Tensor, "image 3 size size"]], Float[Tensor, "image feature"]]
    """From images with values of 0 to 1 to features."""
    title: str
    """What to call it when speaking to people."""


@dataclass(frozen=True)
class NetworkName:
    """A network that is loaded only when something is to be embedded: its key is known at once."""

    key: str
    load: Callable[[], Network]


def find_network(name: str, device: torch.device) -> NetworkName:
    """The network of this name: efficientnet-lite0, timm:MODEL, or the folder of a run."""
    if name == DEFAULT:
        key = f"{name}-{weights_file().stem.rpartition('-')[2]}"
        return NetworkName(key, lambda: _efficientnet(key, device))
    if name.startswith(TIMM):
        return _timm(name.removeprefix(TIMM), device)
    if not find_run(name).exists:
        raise TPNError(
            f"There is no backbone {name!r}: it is {DEFAULT}, timm:MODEL, the folder of a run that tpn train wrote, or "
            "mini-conv4, whose weights come with tpn."
        )
    run = find_run(name)
    config, key = run.read_config(), f"run-{weights_digest(run.folder)}"
    if config.channels != 3:
        raise TPNError(f"{name} was trained on images of {config.channels} channel(s), not on coloured ones.")
    return NetworkName(key, lambda: _of_run(name, key, device))


def _efficientnet(key: str, device: torch.device) -> Network:
    network = EfficientNetLite0.pretrained().to(device)
    return Network(key, network.image_size, network, "EfficientNet-Lite0, trained on ImageNet")


def _of_run(name: str, key: str, device: torch.device) -> Network:
    method = load(name).to(device)
    if not method.embeds:
        raise TPNError(f"{method.info.name} makes no features of single images: choose a run of another method.")

    def embed(images: Tensor) -> Tensor:
        return method.embed(images).flatten(1)

    return Network(key, find_run(name).read_config().image_size, embed, f"{method.info.name}, trained in {name}")


def _timm(name: str, device: torch.device) -> NetworkName:
    try:
        timm: Any = import_module("timm")
    except ImportError as failure:
        raise TPNError(f"timm:{name} needs timm: pip install timm.") from failure

    def build() -> Network:
        try:
            model = timm.create_model(name, pretrained=True, num_classes=0).eval().to(device)
        except Exception as failure:  # an unknown name, weights that cannot be fetched, …
            raise TPNError(f"timm cannot load {name!r}: {' '.join(str(failure).split())[:300]}") from failure
        wants = timm.data.resolve_model_data_config(model)
        mean, std = (torch.tensor(wants[part], device=device).view(1, 3, 1, 1) for part in ("mean", "std"))
        return Network(key, wants["input_size"][-1], lambda images: model((images - mean) / std), f"{name} of timm")

    key = f"timm-{timm.__version__}-{name}"
    return NetworkName(key, build)
