"""The networks with published weights, ready to embed: found, fetched on first use, and run in the fastest way here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tpn.backbones import efficientnet_lite
from tpn.backbones._fetching import check_kept, fetch, load_tensors, sha256_of
from tpn.backbones._onnx_files import has_onnxruntime
from tpn.backbones._pretrained import (
    Address,
    Pretrained,
    at_hand,
    find_pretrained,
    find_weights,
    weights_path,
)
from tpn.backbones.dinov2 import VisionTransformer, ViTB14, ViTS14
from tpn.backbones.efficientnet_lite import EfficientNetLite
from tpn.backbones.fused_efficientnet import FusedEfficientNet, can_fuse
from tpn.backbones.onnx_efficientnet import as_onnx
from tpn.backbones.onnx_model import OnnxModel
from tpn.errors import TPNError
from tpn.labelling.network_choice import published_key

LITE = {
    "efficientnet-lite0": efficientnet_lite.EfficientNetLite0,
    "efficientnet-lite1": efficientnet_lite.EfficientNetLite1,
    "efficientnet-lite2": efficientnet_lite.EfficientNetLite2,
}
DINOV2 = {"dinov2-s": ViTS14, "dinov2-b": ViTB14}


@dataclass(frozen=True)
class Loaded:
    """A network that is ready to embed."""

    image_size: int
    embed: Callable[[Tensor], Tensor]
    title: str


def pretrained_key(name: str, weights: Path | None) -> str:
    """Return what identifies a network and its weights in the cache of features."""
    if weights is not None:
        return f"{name}-{sha256_of(weights)[:16]}"
    return published_key(name) or name


def load_pretrained(name: str, weights: Path | None, device: torch.device, cache: Path | None) -> Loaded:
    """Load a network by its name, with its published weights or with those of a file."""
    network = find_pretrained(name)
    if network.kind == "onnx" and weights is not None:
        raise TPNError(f"--weights is not for {name}: to run a file of your own, choose --backbone onnx:FILE.")
    file = weights if weights is not None else _weights(network, cache)
    if network.kind == "onnx":
        model = OnnxModel(file, title=network.title, cuda=device.type == "cuda")
        return Loaded(model.image_size, model, network.title)
    if network.kind == "dinov2":
        transformer = _transformer(name, file).to(device)
        return Loaded(network.image_size, transformer.features, network.title)
    return _lite(LITE[name](weights=file), device, network.title)


def _weights(network: Pretrained, cache: Path | None) -> Path:
    """Return the file with the weights; DINOv2's are fetched from their authors when they are first needed."""
    official = tuple(source for source in network.sources if isinstance(source, Address))
    if official and at_hand(network.name, cache) is None:
        return fetch(network.name, cache, official)
    file = find_weights(network.name, cache)
    if file == weights_path(network.name, cache):
        check_kept(file)
    return file


def _transformer(name: str, file: Path) -> VisionTransformer:
    transformer = DINOV2[name]().eval().requires_grad_(False)
    try:
        transformer.load_pretrained(load_tensors(file))
    except TPNError as failure:
        raise TPNError(f"{file} does not hold the weights of {name}: {failure.command_line_text}") from failure
    return transformer


def _lite(network: EfficientNetLite, device: torch.device, title: str) -> Loaded:
    """Run an EfficientNet-Lite on a CPU by onnxruntime where that is installed, otherwise by fused convolutions."""
    network = network.eval().requires_grad_(False)
    if device.type == "cpu" and has_onnxruntime():
        return Loaded(network.image_size, OnnxModel(as_onnx(network), title=title), title)
    if device.type == "cpu" and can_fuse():
        return Loaded(network.image_size, FusedEfficientNet(network), title)
    return Loaded(network.image_size, network.to(device).features, title)
