"""The building block that Conv-4 and the length-scale network share."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class ConvBlock(nn.Module):
    """3x3 convolution, batch normalisation, 2x2 max-pooling, ReLU.

    Pooling before the ReLU gives the same as after it, for a quarter of the work. The convolution has no bias: batch
    normalisation would subtract it again. With running statistics, normalisation is folded into the convolution.
    """

    def __init__(self, channels: int, filters: int, pool: Literal["down", "up"] = "down") -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(filters)
        self.ceil_mode = pool == "up"

    def forward(
        self, maps: Float[Tensor, "picture channel height width"]
    ) -> Float[Tensor, "picture filter height2 width2"]:
        norm = self.norm
        if norm.training or norm.running_mean is None or norm.running_var is None:
            out = norm(self.convolution(maps))
        else:
            scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
            weight = self.convolution.weight * scale[:, None, None, None]
            out = F.conv2d(maps, weight, norm.bias - norm.running_mean * scale, padding=1)
        return F.relu(F.max_pool2d(out, 2, ceil_mode=self.ceil_mode))

    def output_size(self, size: int) -> int:
        """Height (or width) of the maps that come out for maps of this height (or width)."""
        return -(-size // 2) if self.ceil_mode else size // 2
