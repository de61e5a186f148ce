"""Batch normalisation, 2x2 max-pooling and ReLU in one compiled step, for training on a CPU.

In Conv-4 these operations, not the convolutions, read and write most of the memory. Normalisation is monotone in each
channel, so pooling commutes with it: the largest value of a window stays the largest if the channel's weight is
positive, and the smallest becomes the largest if it is negative. Therefore the raw maps are read once for their
statistics and once for pooling, and only the pooled quarter is normalised. The gradient of a raw map is x k1 + k0, with
two constants per channel, plus the pooled gradient at the position that was chosen.

The gradient can be differentiated once more, which MAML needs: with h the gradient of that of the raw maps, everything
follows from the sums over the maps of h and of h times the normalised maps.

All three are pure functions that torch.compile turns into one or two loops each. Eagerly they would be slower
than PyTorch's own layers. Maps in half precision are read and written as such, half the memory; what is computed in
between is in float32.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tpn.errors import TPNError

Maps = Float[Tensor, "image height width channel"]
RECOMPILATIONS = 64
"""The limit of recompilations per function. All blocks share two functions: allow a few batch sizes for each."""


def pooled_batch_norm(maps: Float[Tensor, "image channel height width"], norm: nn.BatchNorm2d, relu: bool) -> Tensor:
    """Return relu(max_pool2d(norm(maps), 2)) with the statistics of the batch, and update the running statistics.

    Maps of odd height or width lose their last row or column to pooling, but not to the statistics.
    """
    if maps.numel() == maps.shape[1]:
        raise TPNError("Batch normalisation needs more than one value per channel: train with more images.")
    pooled, mean, variance = _PooledBatchNorm.apply(maps, norm.weight, norm.bias, norm.eps, relu)  # type: ignore[no-untyped-call]
    if norm.track_running_stats and norm.running_mean is not None and norm.running_var is not None:
        assert norm.num_batches_tracked is not None
        norm.num_batches_tracked.add_(1)
        momentum = norm.momentum if norm.momentum is not None else 1 / float(norm.num_batches_tracked)
        count = maps.numel() // maps.shape[1]
        norm.running_mean.lerp_(mean, momentum)
        norm.running_var.lerp_(variance * (count / (count - 1)), momentum)
    return pooled  # type: ignore[no-any-return]


class _PooledBatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> tuple[Tensor, ...]:
        rows = maps.permute(0, 2, 3, 1).contiguous()
        with torch.autocast(maps.device.type, enabled=False):
            out, chosen, place, mean, variance = _compiled(forward)(rows, weight, bias, eps, relu)
        ctx.save_for_backward(maps, chosen, place, weight, bias, mean, variance)
        ctx.eps, ctx.relu = eps, relu
        ctx.mark_non_differentiable(mean, variance)
        return out.permute(0, 3, 1, 2), mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradients[0].permute(0, 2, 3, 1).contiguous()
        maps, *others = ctx.saved_tensors
        rows = maps.permute(0, 2, 3, 1).contiguous()
        maps, weight, bias = _Gradient.apply(gradient, rows, *others, ctx.eps, ctx.relu)  # type: ignore[no-untyped-call]
        return maps.permute(0, 3, 1, 2), weight, bias, None, None


class _Gradient(torch.autograd.Function):
    """The gradient of `_PooledBatchNorm`, as a function of that of its output, of the raw maps and of the weight."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        *tensors, ctx.eps, ctx.relu = arguments
        ctx.save_for_backward(*tensors)
        with torch.autocast(tensors[0].device.type, enabled=False):
            return _compiled(backward)(*arguments)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        maps, weight, bias = gradients
        with torch.autocast(maps.device.type, enabled=False):
            first, second, third = _compiled(twice_backward)(
                maps.contiguous(), weight, bias, *ctx.saved_tensors, ctx.eps, ctx.relu
            )
        return first, second, None, None, third, *[None] * 5


def forward(
    maps: Maps, weight: Float[Tensor, "channel"], bias: Float[Tensor, "channel"], eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the output, the chosen raw values, their places in the windows (0 to 3), and mean and variance."""
    images, height, width, _ = maps.shape
    x = maps.to(weight.dtype)
    count = images * height * width
    shift = x[0].mean((0, 1))  # near the mean, so that the difference below loses no digits
    centred = x - shift
    first = centred.sum((1, 2)).sum(0) / count
    second = centred.square().sum((1, 2)).sum(0) / count
    mean, variance = shift + first, (second - first.square()).clamp_min(0)
    sign = torch.where(weight < 0, -1.0, 1.0).to(x.dtype)
    rows, columns = height // 2, width // 2
    a, b, c, d = (x[:, i : 2 * rows : 2, j : 2 * columns : 2] * sign for i in (0, 1) for j in (0, 1))
    above, below = torch.maximum(a, b), torch.maximum(c, d)
    # the first of equal values, as in PyTorch; a float, because a mask of bytes keeps the loops from being vectorised
    place = torch.where(below > above, torch.where(d > c, 3.0, 2.0), torch.where(b > a, 1.0, 0.0)).to(x.dtype)
    chosen = torch.maximum(above, below) * sign
    out = (chosen - mean) * (weight * torch.rsqrt(variance + eps)) + bias
    given = maps.dtype
    return (out.relu() if relu else out).to(given), chosen.to(given), place.to(given), mean, variance


def backward(
    gradient: Float[Tensor, "image height2 width2 channel"],
    maps: Maps,
    chosen: Float[Tensor, "image height2 width2 channel"],
    place: Float[Tensor, "image height2 width2 channel"],
    weight: Float[Tensor, "channel"],
    bias: Float[Tensor, "channel"],
    mean: Float[Tensor, "channel"],
    variance: Float[Tensor, "channel"],
    eps: float,
    relu: bool,
) -> tuple[Maps, Float[Tensor, "channel"], Float[Tensor, "channel"]]:
    """Return the gradients of the raw maps, the weight and the bias."""
    images, height, width, channels = maps.shape
    rows, columns = chosen.shape[1:3]
    x, gradient, chosen, place = (each.to(weight.dtype) for each in (maps, gradient, chosen, place))
    count = images * height * width
    scale = torch.rsqrt(variance + eps)
    normalised = (chosen - mean) * scale
    if relu:
        gradient = torch.where(normalised * weight + bias > 0, gradient, 0.0)
    to_bias = gradient.sum((1, 2)).sum(0)
    to_weight = (gradient * normalised).sum((1, 2)).sum(0)
    factor = weight * scale
    k1 = -factor * to_weight * scale / count
    k0 = -factor * to_bias / count - mean * k1
    windows = x[:, : 2 * rows, : 2 * columns].reshape(images, rows, 2, columns, 2, channels)
    back = (gradient * factor).view(images, rows, 1, columns, 1, channels)
    position = torch.arange(4, dtype=x.dtype, device=x.device).view(1, 1, 2, 1, 2, 1)
    here = place.view(images, rows, 1, columns, 1, channels) == position
    inside = (windows * k1 + k0 + torch.where(here, back, 0.0)).reshape(images, 2 * rows, 2 * columns, channels)
    if (height, width) == (2 * rows, 2 * columns):
        return inside.to(maps.dtype), to_weight, to_bias
    whole = x * k1 + k0
    whole[:, : 2 * rows, : 2 * columns] = inside
    return whole.to(maps.dtype), to_weight, to_bias


def twice_backward(
    to_maps: Maps,
    to_weight: Float[Tensor, "channel"],
    to_bias: Float[Tensor, "channel"],
    gradient: Float[Tensor, "image height2 width2 channel"],
    maps: Maps,
    chosen: Float[Tensor, "image height2 width2 channel"],
    place: Float[Tensor, "image height2 width2 channel"],
    weight: Float[Tensor, "channel"],
    bias: Float[Tensor, "channel"],
    mean: Float[Tensor, "channel"],
    variance: Float[Tensor, "channel"],
    eps: float,
    relu: bool,
) -> tuple[Float[Tensor, "image height2 width2 channel"], Maps, Float[Tensor, "channel"]]:
    """Return the gradients of `gradient`, of the raw maps and of the weight, given those of what `backward` returns."""
    images, height, width, channels = maps.shape
    rows, columns = chosen.shape[1:3]
    count = images * height * width
    x, h, given, chosen, place = (each.to(weight.dtype) for each in (maps, to_maps, gradient, chosen, place))
    scale = torch.rsqrt(variance + eps)
    normalised = (chosen - mean) * scale
    active = (normalised * weight + bias > 0) if relu else torch.ones_like(normalised, dtype=torch.bool)
    given = torch.where(active, given, 0.0)
    position = torch.arange(4, dtype=x.dtype, device=x.device).view(1, 1, 2, 1, 2, 1)
    here = place.view(images, rows, 1, columns, 1, channels) == position
    windows = h[:, : 2 * rows, : 2 * columns].reshape(images, rows, 2, columns, 2, channels)
    of_chosen = torch.where(here, windows, 0.0).sum((2, 4))
    sum_h = h.sum((1, 2)).sum(0) / count
    sum_hx = (h * (x - mean)).sum((1, 2)).sum(0) * scale / count
    sum_g, sum_gx = given.sum((1, 2)).sum(0), (given * normalised).sum((1, 2)).sum(0)
    factor = weight * scale
    inner = (of_chosen * given).sum((1, 2)).sum(0) - sum_g * sum_h - sum_gx * sum_hx
    first = factor * (of_chosen - sum_h - normalised * sum_hx) + to_weight * normalised + to_bias
    a, b = to_weight - factor * sum_hx, factor * sum_gx / count
    k1 = -scale * scale * ((a * sum_gx / count - b * sum_hx) + factor * inner / count)
    k0 = -scale * (a * sum_g / count - b * sum_h) - mean * k1
    back = (given * (a * scale)).view(images, rows, 1, columns, 1, channels)
    whole = x * k1 + k0 - h * (b * scale)
    inside = whole[:, : 2 * rows, : 2 * columns].reshape(images, rows, 2, columns, 2, channels)
    inside = (inside + torch.where(here, back, 0.0)).reshape(images, 2 * rows, 2 * columns, channels)
    if (height, width) != (2 * rows, 2 * columns):
        whole[:, : 2 * rows, : 2 * columns] = inside
        inside = whole
    return torch.where(active, first, 0.0).to(gradient.dtype), inside.to(maps.dtype), inner * scale


@cache
def _compiled(function: Any) -> Any:
    torch._dynamo.config.recompile_limit = max(RECOMPILATIONS, torch._dynamo.config.recompile_limit)
    return torch.compile(function, dynamic=False)
