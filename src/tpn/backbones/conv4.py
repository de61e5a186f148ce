"""Conv-4, the backbone of the paper and of the systems it compares with, and its variants."""

from tpn.backbones._backbone import Backbone
from tpn.backbones._blocks import ConvBlock

SMALLEST_UNPADDED = 64


class BlockNetwork(Backbone):
    """A sequence of convolutional blocks."""

    smallest_image = 16

    def __init__(self, image_size: int, *blocks: ConvBlock) -> None:
        super().__init__(*blocks)
        size = image_size
        for block in blocks:
            size = block.output_size(size)
        self.widths = tuple(block.convolution.out_channels for block in blocks)
        self.map_shape = (self.widths[-1], size, size)


class Conv4(BlockNetwork):
    """Four blocks of 3x3 convolution with 64 filters, batch normalisation, ReLU and 2x2 max-pooling.

    84x84 images become 5x5x64 maps. The last pooling rounds up, which makes no difference there and gives 2x2 maps for
    28x28 images. Without the last ReLU (`conv4-linear`), features may be negative, which suits cosine classifiers.
    """

    def __init__(self, channels: int, image_size: int, filters: int = 64, last_relu: bool = True) -> None:
        super().__init__(
            image_size,
            ConvBlock(channels, filters),
            ConvBlock(filters, filters),
            ConvBlock(filters, filters),
            ConvBlock(filters, filters, pool="up", relu=last_relu),
        )


class WideMaps(BlockNetwork):
    """Conv-4 that pools after its first two blocks only, for relation networks, which compare maps.

    84x84 images become 19x19x64 maps. Smaller images than 64x64 pixels are padded in every block, which gives 7x7
    maps for 28x28 images.
    """

    def __init__(self, channels: int, image_size: int, filters: int = 64) -> None:
        padded = image_size < SMALLEST_UNPADDED
        super().__init__(
            image_size,
            ConvBlock(channels, filters, padded=padded),
            ConvBlock(filters, filters, padded=padded),
            ConvBlock(filters, filters, pool="none"),
            ConvBlock(filters, filters, pool="none"),
        )
