"""EfficientNet-Lite pre-trained on ImageNet: features of photographs without any further training."""

from math import ceil
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tpn.backbones._backbone import Backbone
from tpn.backbones._normalisation import Normalisation
from tpn.backbones._pretrained import find_pretrained, find_weights
from tpn.errors import TPNError

STEM, HEAD = 32, 1280
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Blocks, kernel size, stride of the first block, expansion, filters, before scaling."""
BATCH_NORM_EPSILON = 1e-3
GREY, CONTRAST = 127 / 255, 128 / 255


class EfficientNetLite(Backbone):
    """Tan and Le, "EfficientNet", ICML 2019 (https://arxiv.org/abs/1905.11946), in the variants without
    squeeze-and-excitation and with ReLU6, with weights trained on ImageNet.

    An image becomes 1,280 features. Batch normalisation is folded into the convolutions. Note that ImageNet's classes
    include those of miniImageNet and tieredImageNet: test a run with it on other data.
    """

    name: str
    image_size: int
    wider: float = 1.0
    """The factor of the filters, compared with Lite0."""
    deeper: float = 1.0
    """The factor of the blocks of a stage, but for the first and the last stage."""
    smallest_image = 32
    gives_vectors = True
    normalises_itself = True

    def __init__(self, channels: int = 3, weights: Path | None = None) -> None:
        if channels not in (1, 3):
            raise TPNError(f"{self.name} takes images of 1 or 3 channels, not {channels}.")
        residual, width = [], STEM
        for stage, (repeats, size, stride, expansion, filters) in enumerate(STAGES):
            inner = 0 < stage < len(STAGES) - 1
            for index in range(ceil(self.deeper * repeats) if inner else repeats):
                scaled = _multiple_of_8(self.wider * filters)
                residual.append(InvertedResidual(width, scaled, size, stride if index == 0 else 1, expansion))
                width = scaled
        super().__init__(ConvolutionReLU6(3, STEM, 3, stride=2), *residual, PooledConvolution(width, HEAD, 1))
        self.normalise = Normalisation((GREY,) * 3, (CONTRAST,) * 3)
        self.map_shape, self.widths = (HEAD, 1, 1), (STEM, *(block.filters for block in residual), HEAD)
        self._load(find_weights(self.name) if weights is None else weights)

    def prepare(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image 3 height width"]:
        """Normalise images; repeat the channel of greyscale images three times."""
        return super().prepare(images.expand(-1, 3, -1, -1))

    def _load(self, file: Path) -> None:
        try:
            self.load_folded(torch.load(file, map_location="cpu", weights_only=True))
        except (OSError, EOFError, KeyError, RuntimeError, UnpicklingError) as failure:
            package = find_pretrained(self.name).package
            raise TPNError(f"{file} is damaged: install the package {package} again.") from failure

    def load_folded(self, weights: dict[str, Tensor]) -> None:
        """Load all weights, named as in the package, except those of the ImageNet classifier."""
        left = {name: tensor for name, tensor in weights.items() if not name.endswith("num_batches_tracked")}
        blocks: list[Any] = list(self.blocks)
        stem, *residual, head = blocks
        stem.load_folded(left, "_conv_stem", "_bn0")
        for index, block in enumerate(residual):
            names = ["_expand_conv", "_depthwise_conv", "_project_conv"][-len(block.steps) :]
            norms = ["_bn0", "_bn1", "_bn2"][-len(block.steps) :]
            for step, name, norm in zip(block.steps, names, norms, strict=True):
                step.load_folded(left, f"_blocks.{index}.{name}", f"_blocks.{index}.{norm}")
        head.load_folded(left, "_conv_head", "_bn1")
        if left.keys() != {"_fc.weight", "_fc.bias"}:
            raise TPNError(f"The weights are not those of {self.name}: {', '.join(left)}.")


class EfficientNetLite0(EfficientNetLite):
    """The smallest one, whose weights are installed with tpn."""

    name, image_size = "efficientnet-lite0", 224


class EfficientNetLite1(EfficientNetLite):
    """Deeper by a tenth."""

    name, image_size, deeper = "efficientnet-lite1", 240, 1.1


class EfficientNetLite2(EfficientNetLite):
    """Deeper by a fifth and wider by a tenth."""

    name, image_size, wider, deeper = "efficientnet-lite2", 260, 1.1, 1.2


class Convolution(nn.Module):
    """A convolution with output of size ⌈size/stride⌉; uneven padding is larger at the end ("same" in TensorFlow)."""

    def __init__(self, channels: int, filters: int, size: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, filters, size, stride, groups=groups)

    def forward(
        self, maps: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter height2 width2"]:
        (size, _), (stride, _) = self.convolution.kernel_size, self.convolution.stride
        if stride == 1:
            return F.conv2d(
                maps, self.convolution.weight, self.convolution.bias, padding=size // 2, groups=self.convolution.groups
            )
        missing = [max((-(-length // stride) - 1) * stride + size - length, 0) for length in maps.shape[:1:-1]]
        padded = F.pad(maps, [part for both in missing for part in (both // 2, both - both // 2)])
        convolved: Tensor = self.convolution(padded)
        return convolved

    def load_folded(self, weights: dict[str, Tensor], convolution: str, norm: str) -> None:
        """Load the weights of a convolution with those of the batch normalisation after it folded in."""
        weight = weights.pop(f"{convolution}.weight")
        gain, bias, mean, variance = (
            weights.pop(f"{norm}.{name}") for name in ("weight", "bias", "running_mean", "running_var")
        )
        gain = gain / torch.sqrt(variance + BATCH_NORM_EPSILON)
        self.convolution.load_state_dict({"weight": weight * gain[:, None, None, None], "bias": bias - mean * gain})


class ConvolutionReLU6(Convolution):
    """A convolution followed by ReLU6."""

    def forward(
        self, maps: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter height2 width2"]:
        return F.relu6(super().forward(maps))


class PooledConvolution(ConvolutionReLU6):
    """A convolution, ReLU6 and global average pooling."""

    def forward(self, maps: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image filter 1 1"]:
        return super().forward(maps).mean((2, 3), keepdim=True)


class InvertedResidual(nn.Module):
    """A 1x1 convolution to more channels, a depthwise convolution, a 1x1 convolution to fewer; with a shortcut."""

    def __init__(self, channels: int, filters: int, size: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        steps = [Convolution(wide, wide, size, stride, groups=wide), Convolution(wide, filters, 1)]
        self.steps = nn.ModuleList([Convolution(channels, wide, 1), *steps] if expansion > 1 else steps)
        self.adds, self.filters = stride == 1 and channels == filters, filters

    def forward(
        self, maps: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter height2 width2"]:
        inner = maps
        for step in self.steps[:-1]:
            inner = F.relu6(step(inner))
        out: Tensor = self.steps[-1](inner)
        return maps + out if self.adds else out


def _multiple_of_8(filters: float) -> int:
    """Round to a multiple of 8, but not to less than nine tenths."""
    rounded = max(8, int(filters + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * filters else rounded + 8
