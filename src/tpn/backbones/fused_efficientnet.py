"""EfficientNet-Lite with each convolution, its activation and its shortcut as one operation of oneDNN.

PyTorch has these operations for the code that `torch.compile` generates. Called directly they need no compiler. On a
CPU the network is faster with them than without; onnxruntime, where it is installed, is faster still.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.backbones.efficientnet_lite import Convolution, ConvolutionReLU6, EfficientNetLite, InvertedResidual

BATCH = 8
"""The number of images that the layout of the weights is chosen for; any number can be embedded."""
RELU6: tuple[Any, ...] = ("hardtanh", [0.0, 6.0], "")
LINEAR: tuple[Any, ...] = ("none", [], "")
ADDED: tuple[Any, ...] = ("add", 1.0, None, [], None)
"""What follows a convolution, as these operations take it."""


def can_fuse() -> bool:
    """Return whether this PyTorch has the operations."""
    names = ("_convolution_pointwise", "_reorder_convolution_weight")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)  # type: ignore[no-untyped-call]


class FusedEfficientNet:
    """The same features as those of the network it is made of, on a CPU, for images of the network's own size."""

    def __init__(self, network: EfficientNetLite) -> None:
        self.prepare = network.prepare
        self.blocks: list[tuple[list[_FusedConvolution], bool]] = []
        side = network.image_size
        for block in network.blocks:
            steps = list(block.steps) if isinstance(block, InvertedResidual) else [block]
            fused = []
            for step in steps:
                assert isinstance(step, Convolution)
                activated = isinstance(step, ConvolutionReLU6) or step is not steps[-1]
                fused.append(_FusedConvolution(step, side, activated))
                side = fused[-1].out
            self.blocks.append((fused, isinstance(block, InvertedResidual) and block.adds))

    def __call__(self, images: Float[Tensor, "image 3 size size"]) -> Float[Tensor, "image feature"]:
        maps = self.prepare(images).contiguous(memory_format=torch.channels_last)
        for steps, adds in self.blocks:
            inner = maps
            for step in steps[:-1]:
                inner = step(inner)
            maps = steps[-1](inner, maps if adds else None)
        return maps.mean((2, 3))


class _FusedConvolution:
    """A convolution with what follows it, for maps of a known side."""

    def __init__(self, step: Convolution, side: int, activated: bool) -> None:
        layer = step.convolution
        (size, _), (stride, _) = layer.kernel_size, layer.stride
        self.out = -(-side // stride)
        missing = size - 1 if stride == 1 else max((self.out - 1) * stride + size - side, 0)
        even = missing % 2 == 0
        self.border = None if even else (missing // 2, missing - missing // 2) * 2
        self.padding = [missing // 2 if even else 0] * 2
        self.rest: tuple[Any, ...] = ([stride] * 2, [1, 1], layer.groups)
        self.after = RELU6 if activated else LINEAR
        whole = side if even else side + missing
        shape = [BATCH, layer.in_channels, whole, whole]
        weight, self.bias = layer.weight.detach(), layer.bias
        self.weight = torch.ops.mkldnn._reorder_convolution_weight(weight, self.padding, *self.rest, shape)

    def __call__(self, maps: Tensor, shortcut: Tensor | None = None) -> Tensor:
        if self.border is not None:
            maps = F.pad(maps, self.border)
        convolve = torch.ops.mkldnn._convolution_pointwise
        out: Tensor
        if shortcut is None:
            out = convolve(maps, self.weight, self.bias, self.padding, *self.rest, *self.after)
        else:
            out = convolve.binary(maps, shortcut, self.weight, self.bias, self.padding, *self.rest, *ADDED)
        return out
