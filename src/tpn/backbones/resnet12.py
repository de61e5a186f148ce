"""ResNet-12, the usual deeper backbone of few-shot learning."""

from tpn.backbones._backbone import Backbone
from tpn.backbones._blocks import DropBlock, ResidualBlock, pooled_size

LARGEST_SQUARE = 5


class ResNet12(Backbone):
    """Four residual blocks of three 3x3 convolutions, batch normalisation, leaky ReLU and 2x2 max-pooling.

    84x84 images become 5x5 maps. As in Conv-4, the last pooling rounds up, which makes no difference there and gives
    2x2 maps for 28x28 images. If `drop_block` is above 0, DropBlock follows the last two blocks, with squares of half
    the size of a map, at most 5x5.
    """

    smallest_image = 16

    def __init__(
        self,
        channels: int,
        image_size: int,
        filters: tuple[int, int, int, int] = (64, 128, 256, 512),
        drop_block: float = 0.0,
    ) -> None:
        blocks, size = [], image_size
        for index, width in enumerate(filters):
            last = index == len(filters) - 1
            size = pooled_size(size, "up" if last else "down")
            drop = DropBlock(drop_block, min(LARGEST_SQUARE, -(-size // 2))) if drop_block and index >= 2 else None
            blocks.append(ResidualBlock(channels, width, "up" if last else "down", drop))
            channels = width
        super().__init__(*blocks)
        self.widths = filters
        self.map_shape = (channels, size, size)
