"""The base class of backbones, and the wrapper that makes a backbone of any `nn.Module`."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tpn.backbones._blocks import ConvBlock
from tpn.backbones.pooled_batch_norm import RECOMPILATIONS
from tpn.errors import TPNError


class Backbone(nn.Module):
    """A network from images to feature maps: a sequence of blocks."""

    map_shape: tuple[int, int, int]
    """Channels, height and width of the feature maps. Feature vectors are maps of height and width 1."""
    widths: tuple[int, ...]
    """Channels of the maps after each block."""
    precision: torch.dtype | None = None
    """The precision of the blocks in training, if it differs from that of the images (mixed precision)."""
    precision_in_tests: torch.dtype | None = None
    """The same in validation and tests."""
    smallest_image: int = 1
    """The smallest height and width of images that it can embed: pooling would reduce smaller ones to nothing."""
    gives_vectors: bool = False
    """Whether it returns one vector per image (maps of height and width 1), whatever the image size."""
    normalises_itself: bool = False
    """Whether it normalises images in its own way, instead of by the statistics of the training data."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.normalise: nn.Module = nn.Identity()
        self.blocks = nn.Sequential(*blocks)
        self._compiled: list[Callable[[Tensor], Tensor]] = []
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def prepare(
        self, images: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image channel2 height width"]:
        """Normalise images, and convert them to the channels-last memory format that the blocks use."""
        prepared: Tensor = self.normalise(images)
        return prepared.contiguous(memory_format=torch.channels_last)

    def maps(
        self, images: Float[Tensor, "image channel height width"], blocks: slice = slice(None)
    ) -> Float[Tensor, "image filter mapheight mapwidth"]:
        """Apply the blocks, or a slice of them: prepared images become feature maps.

        In training, images may be smaller than those that it was built for. Their maps are pooled to the usual grid, so
        that what follows keeps its width.
        """
        lowered = self.precision if self.training else self.precision_in_tests
        with nullcontext() if lowered is None else torch.autocast(images.device.type, lowered):
            maps = images
            for block in (self._compiled if self._compiled and self.training else list(self.blocks))[blocks]:
                maps = block(maps)
        if self.training and blocks.stop is None and maps.shape[-2:] != self.map_shape[1:]:
            maps = F.adaptive_avg_pool2d(maps, self.map_shape[1:])
        return maps.to(images.dtype)

    def compile_blocks(self) -> None:
        """Compile each block with torch.compile, at its first use in training.

        On a CPU, where the convolutions are faster uncompiled, only what follows them is compiled where possible.
        """
        torch._dynamo.config.recompile_limit = max(RECOMPILATIONS, torch._dynamo.config.recompile_limit)
        on_cpu = all(parameter.device.type == "cpu" for parameter in self.parameters())
        self._compiled = [
            block if on_cpu and isinstance(block, ConvBlock) and block.fuse() else torch.compile(block)
            for block in self.blocks
        ]

    def forward(
        self, images: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter mapheight mapwidth"]:
        return self.maps(self.prepare(images))

    def features(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        """Embed images as vectors: their feature maps, flattened."""
        maps: Tensor = self(images)
        return maps.flatten(1)


class Identity(Backbone):
    """The identity: a backbone for features that were computed elsewhere."""

    gives_vectors = True

    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__(nn.Identity())
        self.widths, self.map_shape = (channels,), (channels, image_size, image_size)


class ModuleBackbone(Backbone):
    """Wrap any `nn.Module` that maps images to feature maps, or to one vector per image.

    The shape of its output is determined by a trial run on two images of zeros.
    """

    def __init__(self, module: nn.Module, name: str, channels: int, image_size: int) -> None:
        super().__init__(AsMaps(module))
        self.map_shape = output_shape(self, name, channels, image_size)
        self.widths, self.gives_vectors = self.map_shape[:1], self.map_shape[1:] == (1, 1)


class AsMaps(nn.Module):
    """Wrap a module so that output vectors become maps of height and width 1."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, images: Tensor) -> Tensor:
        output = self.module(images)
        return output[:, :, None, None] if isinstance(output, Tensor) and output.ndim == 2 else output


def output_shape(backbone: Backbone, name: str, channels: int, image_size: int) -> tuple[int, int, int]:
    """Determine the shape of a backbone's feature maps by a trial run; refuse a network with any other output."""
    was_training = backbone.training
    parameter = next(backbone.parameters(), torch.empty(0))
    trial = torch.zeros(2, channels, image_size, image_size, device=parameter.device)
    try:
        with torch.no_grad():
            output = backbone.eval().blocks(trial)
    except (RuntimeError, TypeError, ValueError, IndexError) as failure:
        reason = " ".join(str(failure).split())[:300]
        raise TPNError(
            f"The backbone {name} cannot embed images of {channels} channel(s) and {image_size}x{image_size} pixels: "
            f"{reason}"
        ) from failure
    finally:
        backbone.train(was_training)
    if not isinstance(output, Tensor) or output.ndim != 4 or len(output) != 2 or not output.is_floating_point():
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise TPNError(
            f"The backbone {name} must turn a batch of N images into feature maps (N x channels x height x width) or "
            f"vectors (N x features); for 2 images it returned {shape}."
        )
    return (output.shape[1], output.shape[2], output.shape[3])
