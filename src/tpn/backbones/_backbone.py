"""What every backbone is."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tpn.errors import TPNError

SMALLEST_IMAGE = 16
RECOMPILATIONS = 64
"""Blocks are alike, so all count for one: a few sizes of batches for each of them."""


class Backbone(nn.Module):
    """A network from images to feature maps: blocks, one after the other."""

    map_shape: tuple[int, int, int]
    """Filters, height and width of the maps."""
    widths: tuple[int, ...]
    """Filters of the maps that each block gives."""
    precision: torch.dtype | None = None
    """The number format of the blocks in training, if not that of the images (mixed precision)."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.normalise: nn.Module = nn.Identity()
        """What is done to images before anything else."""
        self.blocks = nn.Sequential(*blocks)
        self._compiled: list[Callable[[Tensor], Tensor]] = []
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def prepare(
        self, images: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image channel height width"]:
        """Normalised images, in channels-last memory, as the blocks take them."""
        prepared: Tensor = self.normalise(images)
        return prepared.contiguous(memory_format=torch.channels_last)

    def maps(
        self, images: Float[Tensor, "image channel height width"], blocks: slice = slice(None)
    ) -> Float[Tensor, "image filter mapheight mapwidth"]:
        """From prepared images to feature maps; or from some blocks' input to their output."""
        lowered = self.precision if self.training else None
        with nullcontext() if lowered is None else torch.autocast(images.device.type, lowered):
            maps = images
            for block in (self._compiled if self._compiled and self.training else list(self.blocks))[blocks]:
                maps = block(maps)
        return maps.to(images.dtype)

    def compile_blocks(self) -> None:
        """Have torch compile the blocks, each when it is first used in training."""
        torch._dynamo.config.recompile_limit = max(RECOMPILATIONS, torch._dynamo.config.recompile_limit)
        self._compiled = [torch.compile(block) for block in self.blocks]

    def forward(
        self, images: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter mapheight mapwidth"]:
        return self.maps(self.prepare(images))


def check_size(name: str, image_size: int, halvings: str) -> None:
    """Refuse images of which nothing would be left."""
    if image_size < SMALLEST_IMAGE:
        raise TPNError(
            f"{name} halves an image {halvings} and needs at least {SMALLEST_IMAGE}x{SMALLEST_IMAGE} pixels, "
            f"not {image_size}x{image_size}. Choose a larger --image-size."
        )
