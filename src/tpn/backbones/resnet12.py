"""ResNet-12, the deeper backbone of few-shot learning."""

from tpn.backbones._backbone import Backbone
from tpn.backbones._blocks import DropBlock, ResidualBlock, pooled_size

LARGEST_SQUARE = 5


class ResNet12(Backbone):
    """Four residual blocks of three 3x3 convolutions, batch normalisation, leaky ReLU and 2x2 max-pooling.

    84x84 images become maps of 5x5. As in Conv-4, the last pool rounds up, which changes nothing there and keeps 2x2
    maps of 28x28 images. DropBlock, if wanted, comes after the last two blocks, with squares of half a map's size.
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
        for index, of_block in enumerate(filters):
            last = index == len(filters) - 1
            size = pooled_size(size, "up" if last else "down")
            drop = DropBlock(drop_block, min(LARGEST_SQUARE, -(-size // 2))) if drop_block and index >= 2 else None
            blocks.append(ResidualBlock(channels, of_block, "up" if last else "down", drop))
            channels = of_block
        super().__init__(*blocks)
        self.widths = filters
        self.map_shape = (channels, size, size)
