"""Networks that embed the images of a folder: pre-trained ones, ONNX models, and runs of ours."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.backbones._fetching import sha256_of
from tpn.backbones._pretrained import DEFAULT, is_pretrained
from tpn.backbones._registry import backbone_name, build_backbone, list_backbones
from tpn.backbones.onnx_model import OnnxInput, OnnxModel
from tpn.errors import TPNError
from tpn.labelling.network_choice import best_at_hand
from tpn.labelling.network_options import NetworkOptions
from tpn.labelling.pretrained_networks import load_pretrained, pretrained_key
from tpn.methods._registry import find_method
from tpn.methods.tpn import TPN
from tpn.runs.folder import find_run
from tpn.runs.loading import load_run, weights_digest

EFFICIENTNET = DEFAULT.name
TIMM, ONNX = "timm:", "onnx:"
IMAGE_SIZE = 224
"""The images that a registered backbone gets."""


@dataclass(frozen=True)
class Network:
    """A network, and the size of the images that it takes."""

    key: str
    """Identifies the network and its weights in the cache."""
    image_size: int
    embed: Callable[[Float[Tensor, "image 3 size size"]], Float[Tensor, "image feature"]]
    """From images with values from 0 to 1 to features. Several threads may call it at the same time."""
    title: str
    """The name in messages."""


@dataclass(frozen=True)
class LazyNetwork:
    """A network that is loaded only if there is something to embed; its key is known at once."""

    key: str
    load: Callable[[], Network]
    name: str = ""
    """As `--backbone` takes it."""


def find_network(choice: str | NetworkOptions | None, device: torch.device, cache: Path | None = None) -> LazyNetwork:
    """Find a network by name, or the best one at hand: one of `tpn backbones`, onnx:FILE, timm:MODEL, or a run."""
    options = choice if isinstance(choice, NetworkOptions) else NetworkOptions(backbone=choice)
    name = best_at_hand(cache) if options.backbone is None else options.backbone
    if is_pretrained(name):
        return _pretrained(name, options.weights, device, cache)
    if options.weights is not None:
        raise TPNError(f"--weights is for the networks that `tpn backbones` lists, not for {name}.")
    if name.startswith(ONNX):
        return _onnx(name, options, device)
    if name.startswith(TIMM):
        return _timm(name.removeprefix(TIMM), device)
    if find_run(name).exists:
        return _run(name, device)
    if name in list_backbones() or ":" in name:
        return _registered(name, device)
    raise TPNError(
        f"Unknown backbone {name!r}: choose one that `tpn backbones` lists, onnx:FILE, timm:MODEL, the folder of a run "
        "of `tpn train`, or mini-conv4, whose weights come with tpn."
    )


def check_learned_scales(name: str | None) -> None:
    """Refuse a network that has not learned length scales."""
    run = find_run(name) if name else None
    if run is None or not (run.exists and issubclass(find_method(run.read_config().method), TPN)):
        raise TPNError(
            "--length-scale learned needs --backbone RUN with a run of tpn, which has learned length scales."
        )


def _pretrained(name: str, weights: Path | None, device: torch.device, cache: Path | None) -> LazyNetwork:
    key = pretrained_key(name, weights)

    def build() -> Network:
        loaded = load_pretrained(name, weights, device, cache)
        return Network(key, loaded.image_size, loaded.embed, loaded.title)

    return LazyNetwork(key, build, name)


def _onnx(name: str, options: NetworkOptions, device: torch.device) -> LazyNetwork:
    file = Path(name.removeprefix(ONNX))
    given = OnnxInput(options.input_size, options.layout, options.mean, options.std, options.output)
    settings = hashlib.sha256(repr(given).encode()).hexdigest()[:8]
    key = f"onnx-{sha256_of(file)[:16]}-{settings}"

    def build() -> Network:
        model = OnnxModel(file, given, cuda=device.type == "cuda")
        return Network(key, model.image_size, model, str(file))

    return LazyNetwork(key, build, name)


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

    return LazyNetwork(key, build, name)


def _registered(name: str, device: torch.device) -> LazyNetwork:
    """A network of the user's, with the weights that it is built with."""
    backbone_name(name)
    backbone = build_backbone(name, 3, IMAGE_SIZE).eval().requires_grad_(False).to(device)
    digest = hashlib.sha256()
    for tensor in backbone.state_dict().values():
        digest.update(tensor.cpu().numpy().tobytes())
    key = f"backbone-{name}-{digest.hexdigest()[:16]}"
    return LazyNetwork(key, lambda: Network(key, IMAGE_SIZE, backbone.features, name), name)


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

    return LazyNetwork(key, build, f"{TIMM}{name}")
