"""Building blocks of the backbones, the length-scale network and the relation network."""

from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tpn.backbones.batch_norm import ElementaryBatchNorm
from tpn.backbones.pooled_batch_norm import pooled_batch_norm

Pool: TypeAlias = Literal["down", "up", "none"]
SLOPE = 0.1
"""The negative slope of leaky ReLU."""


class NormalisedConvolution(nn.Module):
    """A convolution with batch normalisation, which is folded into the convolution when it uses running statistics.

    The convolution has no bias: batch normalisation would cancel it.
    """

    def __init__(self, channels: int, filters: int, size: int = 3, padded: bool = True) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, filters, size, padding=size // 2 if padded else 0, bias=False)
        self.norm = nn.BatchNorm2d(filters)

    def forward(
        self, maps: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter height2 width2"]:
        norm = self.norm
        if norm.training or norm.running_mean is None or norm.running_var is None:
            normalised: Tensor = norm(self.convolution(maps))
            return normalised
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        weight = self.convolution.weight * scale[:, None, None, None]
        return F.conv2d(maps, weight, norm.bias - norm.running_mean * scale, padding=self.convolution.padding)


class ConvBlock(NormalisedConvolution):
    """3x3 convolution, batch normalisation, optional 2x2 max-pooling, optional ReLU.

    Pooling before the ReLU gives the same result as after it, at a quarter of the cost.
    """

    def __init__(
        self, channels: int, filters: int, pool: Pool = "down", padded: bool = True, relu: bool = True
    ) -> None:
        super().__init__(channels, filters, padded=padded)
        self.pool, self.padded, self.relu = pool, padded, relu
        self.fused = False
        """Whether everything after the convolution is one compiled step, with the statistics of the batch."""

    def forward(
        self, maps: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter height2 width2"]:
        if self.fused and self._can_fuse(maps):
            return pooled_batch_norm(self.convolution(maps), self.norm, self.relu)
        return self._activated(pooled(super().forward(maps), self.pool))

    def after_convolution(
        self, maps: Float[Tensor, "image filter height width"]
    ) -> Float[Tensor, "image filter height2 width2"]:
        """Apply the rest of the block to the output of its convolution."""
        return self._activated(pooled(self.norm(maps), self.pool))

    def fuse(self) -> bool:
        """Compile everything after the convolution on a CPU, if that is possible; return whether it is."""
        self.fused = type(self.norm) in (nn.BatchNorm2d, ElementaryBatchNorm) and self.pool != "none"
        return self.fused

    def _can_fuse(self, maps: Tensor) -> bool:
        """Return whether these maps are normalised by the statistics of the batch and pooled in whole windows, on a
        CPU."""
        of_batch = self.norm.training or self.norm.running_mean is None
        even = all(size % 2 == 0 for size in maps.shape[-2:])
        return of_batch and (even or self.pool == "down") and maps.device.type == "cpu"

    def _activated(self, maps: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return F.relu(maps) if self.relu else maps

    def output_size(self, size: int) -> int:
        """Return the height (or width) of the output for maps of this height (or width)."""
        return pooled_size(size - (0 if self.padded else 2), self.pool)


class ResidualBlock(nn.Module):
    """Three 3x3 convolutions and a 1x1 shortcut, each normalised; 2x2 max-pooling of the sum; leaky ReLU; DropBlock."""

    def __init__(self, channels: int, filters: int, pool: Pool = "down", drop: nn.Module | None = None) -> None:
        super().__init__()
        self.first = NormalisedConvolution(channels, filters)
        self.second = NormalisedConvolution(filters, filters)
        self.third = NormalisedConvolution(filters, filters)
        self.shortcut = NormalisedConvolution(channels, filters, size=1)
        self.pool, self.drop = pool, drop or nn.Identity()
        for part in (self.first, self.second, self.third, self.shortcut):
            nn.init.kaiming_normal_(part.convolution.weight, SLOPE, mode="fan_out")

    def forward(
        self, maps: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter height2 width2"]:
        inner = F.leaky_relu(self.first(maps), SLOPE)
        inner = F.leaky_relu(self.second(inner), SLOPE)
        out = F.leaky_relu(pooled(self.third(inner) + self.shortcut(maps), self.pool), SLOPE)
        dropped: Tensor = self.drop(out)
        return dropped


class DropBlock(nn.Module):
    """Ghiasi et al., "DropBlock", 2018: in training, set squares of each map to zero, and scale up the rest."""

    def __init__(self, share: float, size: int) -> None:
        super().__init__()
        self.share, self.size = share, size

    def forward(self, maps: Float[Tensor, "image filter height width"]) -> Float[Tensor, "image filter height width"]:
        if not self.training or self.share == 0:
            return maps
        height, width = maps.shape[-2:]
        inside = (height - self.size + 1) * (width - self.size + 1)
        probability = self.share * height * width / (self.size**2 * inside)
        places = (*maps.shape[:2], height - self.size + 1, width - self.size + 1)
        # always in float32: probabilities are small
        corners = (torch.rand(places, device=maps.device) < probability).float()
        kept = 1 - F.max_pool2d(F.pad(corners, [self.size - 1] * 4), self.size, stride=1)
        return maps * (kept * (kept.numel() / kept.sum().clamp_min(1))).to(maps)


def pooled(
    maps: Float[Tensor, "image filter height width"], pool: Pool
) -> Float[Tensor, "image filter height2 width2"]:
    """Apply 2x2 max-pooling, which rounds an odd size up or down, or no pooling."""
    return maps if pool == "none" else F.max_pool2d(maps, 2, ceil_mode=pool == "up")


def pooled_size(size: int, pool: Pool) -> int:
    """Return the height (or width) after pooling."""
    return {"down": size // 2, "up": -(-size // 2), "none": size}[pool]
