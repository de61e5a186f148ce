"""The building block that Conv-4, the length-scale network and the relation network share."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class ConvBlock(nn.Module):
    """3x3 convolution, batch normalisation, 2x2 max-pooling (whose last window may stand out, or none), ReLU.

    Pooling before the ReLU gives the same as after it, for a quarter of the work. The convolution has no bias: batch
    normalisation would subtract it again. With running statistics, normalisation is folded into the convolution.
    """

    def __init__(
        self, channels: int, filters: int, pool: Literal["down", "up", "none"] = "down", padded: bool = True
    ) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, filters, 3, padding=int(padded), bias=False)
        self.norm = nn.BatchNorm2d(filters)
        self.pool, self.padded = pool, padded

    def forward(
        self, maps: Float[Tensor, "picture channel height width"]
    ) -> Float[Tensor, "picture filter height2 width2"]:
        norm = self.norm
        if norm.training or norm.running_mean is None or norm.running_var is None:
            return self.after_convolution(self.convolution(maps))
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        weight = self.convolution.weight * scale[:, None, None, None]
        bias = norm.bias - norm.running_mean * scale
        return self._pooled(F.conv2d(maps, weight, bias, padding=int(self.padded)))

    def after_convolution(
        self, maps: Float[Tensor, "picture filter height width"]
    ) -> Float[Tensor, "picture filter height2 width2"]:
        """The rest of the block, for those who make the convolution themselves."""
        return self._pooled(self.norm(maps))

    def _pooled(self, maps: Tensor) -> Tensor:
        return F.relu(maps if self.pool == "none" else F.max_pool2d(maps, 2, ceil_mode=self.pool == "up"))

    def output_size(self, size: int) -> int:
        """Height (or width) of the maps that come out for maps of this height (or width)."""
        size -= 0 if self.padded else 2
        return {"down": size // 2, "up": -(-size // 2), "none": size}[self.pool]
