"""Conv-4, the backbone of the paper and of the systems it compares with, and its variants."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tpn.backbones.backbone import Backbone
from tpn.backbones.blocks import ConvBlock
from tpn.errors import TPNError

SMALLEST_PICTURE = 16
SMALLEST_UNPADDED = 64


class BlockNetwork(Backbone):
    """Convolutional blocks, one after the other."""

    def __init__(self, image_size: int, *blocks: ConvBlock) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*blocks)
        size = image_size
        for block in blocks:
            size = block.output_size(size)
        self.map_shape = (blocks[-1].convolution.out_channels, size, size)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def maps(
        self, pictures: Float[Tensor, "picture channel height width"]
    ) -> Float[Tensor, "picture filter mapheight mapwidth"]:
        maps: Tensor = self.blocks(pictures)
        return maps


class Conv4(BlockNetwork):
    """Four blocks of 3x3 convolution with 64 filters, batch normalisation, ReLU and 2x2 max-pooling.

    84x84 pictures become 5x5x64 maps. The last pool rounds up, which changes nothing there and keeps 2x2 maps of 28x28
    pictures.
    """

    def __init__(self, channels: int, image_size: int, filters: int = 64) -> None:
        check_size("conv4", image_size, "four times")
        super().__init__(
            image_size,
            ConvBlock(channels, filters),
            ConvBlock(filters, filters),
            ConvBlock(filters, filters),
            ConvBlock(filters, filters, pool="up"),
        )


class WideMaps(BlockNetwork):
    """Conv-4 that pools after its first two blocks only: relation networks compare maps.

    84x84 pictures become 19x19x64 maps. Pictures of less than 64x64 pixels are padded in every block, which keeps 7x7
    maps of 28x28 ones.
    """

    def __init__(self, channels: int, image_size: int, filters: int = 64) -> None:
        check_size("conv4-maps", image_size, "twice")
        padded = image_size < SMALLEST_UNPADDED
        super().__init__(
            image_size,
            ConvBlock(channels, filters, padded=padded),
            ConvBlock(filters, filters, padded=padded),
            ConvBlock(filters, filters, pool="none"),
            ConvBlock(filters, filters, pool="none"),
        )


def check_size(name: str, image_size: int, halvings: str) -> None:
    """Refuse pictures of which nothing would be left."""
    if image_size < SMALLEST_PICTURE:
        raise TPNError(
            f"{name} halves a picture {halvings} and needs at least {SMALLEST_PICTURE}x{SMALLEST_PICTURE} pixels, "
            f"not {image_size}x{image_size}. Choose a larger --image-size."
        )
