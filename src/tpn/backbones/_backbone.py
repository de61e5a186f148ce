"""What every backbone is, and how any `nn.Module` becomes one."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tpn.errors import TPNError

RECOMPILATIONS = 64
"""torch.compile counts recompilations per code object, and all blocks share one: allow a few batch sizes for each."""


class Backbone(nn.Module):
    """A network from images to feature maps: blocks, one after the other."""

    map_shape: tuple[int, int, int]
    """Channels, height and width of the feature maps. Feature vectors are maps of height and width 1."""
    widths: tuple[int, ...]
    """Channels of the maps after each block."""
    precision: torch.dtype | None = None
    """The number format of the blocks in training, if not that of the images (mixed precision)."""
    smallest_image: int = 1
    """The smallest height and width that it can embed: pooling leaves nothing of smaller images."""
    gives_vectors: bool = False
    """Does it give one vector per image (maps of height and width 1), however large the images are?"""
    normalises_itself: bool = False
    """Does it bring its own normalisation of images, instead of that of the training data?"""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.normalise: nn.Module = nn.Identity()
        self.blocks = nn.Sequential(*blocks)
        self._compiled: list[Callable[[Tensor], Tensor]] = []
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def prepare(
        self, images: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image channel2 height width"]:
        """Normalise images, and lay them out channels-last, as the blocks take them."""
        prepared: Tensor = self.normalise(images)
        return prepared.contiguous(memory_format=torch.channels_last)

    def maps(
        self, images: Float[Tensor, "image channel height width"], blocks: slice = slice(None)
    ) -> Float[Tensor, "image filter mapheight mapwidth"]:
        """Turn prepared images into feature maps; or the input of some blocks into their output."""
        lowered = self.precision if self.training else None
        with nullcontext() if lowered is None else torch.autocast(images.device.type, lowered):
            maps = images
            for block in (self._compiled if self._compiled and self.training else list(self.blocks))[blocks]:
                maps = block(maps)
        return maps.to(images.dtype)

    def compile_blocks(self) -> None:
        """Compile the blocks with torch.compile, each when it is first used in training."""
        torch._dynamo.config.recompile_limit = max(RECOMPILATIONS, torch._dynamo.config.recompile_limit)
        self._compiled = [torch.compile(block) for block in self.blocks]

    def forward(
        self, images: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter mapheight mapwidth"]:
        return self.maps(self.prepare(images))

    def features(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        """Embed images as vectors: their feature maps, flattened."""
        maps: Tensor = self(images)
        return maps.flatten(1)


class Identity(Backbone):
    """Features as they are: for data that has been embedded before."""

    gives_vectors = True

    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__(nn.Identity())
        self.widths, self.map_shape = (channels,), (channels, image_size, image_size)


class ModuleBackbone(Backbone):
    """Any `nn.Module` as a backbone: it takes images, and gives feature maps or one vector per image.

    The shape of its output is found by a trial with two images of zeros.
    """

    def __init__(self, module: nn.Module, name: str, channels: int, image_size: int) -> None:
        super().__init__(AsMaps(module))
        self.map_shape = output_shape(self, name, channels, image_size)
        self.widths, self.gives_vectors = self.map_shape[:1], self.map_shape[1:] == (1, 1)


class AsMaps(nn.Module):
    """A module whose vectors are turned into maps of height and width 1."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, images: Tensor) -> Tensor:
        output = self.module(images)
        return output[:, :, None, None] if isinstance(output, Tensor) and output.ndim == 2 else output


def output_shape(backbone: Backbone, name: str, channels: int, image_size: int) -> tuple[int, int, int]:
    """Find the shape of a backbone's feature maps, and refuse a network that gives none."""
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
            f"vectors (N x features); for 2 images it gave {shape}."
        )
    return (output.shape[1], output.shape[2], output.shape[3])
