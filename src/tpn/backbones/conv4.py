"""Conv-4, the backbone of the paper and of most of the systems it compares with."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tpn.backbones.backbone import Backbone
from tpn.backbones.blocks import ConvBlock
from tpn.errors import TPNError

SMALLEST_PICTURE = 16


class Conv4(Backbone):
    """Four blocks of 3x3 convolution with 64 filters, batch normalisation, ReLU and 2x2 max-pooling.

    84x84 pictures become 5x5x64 maps. The last pool rounds up, which changes nothing there and keeps 2x2 maps of 28x28
    pictures.
    """

    def __init__(self, channels: int, image_size: int, filters: int = 64) -> None:
        super().__init__()
        if image_size < SMALLEST_PICTURE:
            raise TPNError(
                f"conv4 halves a picture four times and needs at least {SMALLEST_PICTURE}x{SMALLEST_PICTURE} pixels, "
                f"not {image_size}x{image_size}. Choose a larger --image-size."
            )
        self.blocks = nn.Sequential(
            ConvBlock(channels, filters),
            ConvBlock(filters, filters),
            ConvBlock(filters, filters),
            ConvBlock(filters, filters, pool="up"),
        )
        size = image_size
        for block in self.blocks:
            assert isinstance(block, ConvBlock)
            size = block.output_size(size)
        self.map_shape = (filters, size, size)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def maps(
        self, pictures: Float[Tensor, "picture channel height width"]
    ) -> Float[Tensor, "picture filter mapheight mapwidth"]:
        maps: Tensor = self.blocks(pictures)
        return maps
