"""Batch normalisation, 2x2 max-pooling and ReLU in one compiled step, for training on a CPU.

In Conv-4 these operations, not the convolutions, read and write most of the memory. Normalisation is monotone in each
channel, so pooling commutes with it: the largest value of a window stays the largest if the channel's weight is
positive, and the smallest becomes the largest if it is negative. Therefore the raw maps are read once for their
statistics and once for pooling, and only the pooled quarter is normalised. The gradient of a raw map is x k1 + k0, with
two constants per channel, plus the pooled gradient at the position that was chosen.

The gradient can be differentiated once more, which MAML needs: with h the gradient of that of the raw maps, everything
follows from the sums over the maps of h and of h times the normalised maps.

Every pass over the maps is a pure function that torch.compile turns into one loop. Eagerly they would be slower than
PyTorch's own layers. What is computed once per channel stands between them: inside a loop it would be computed again
for each value. Maps in half precision are read and written as such, half the memory; everything else is in float32.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tpn.errors import TPNError

Maps = Float[Tensor, "_ _ _ channel"]
"""Maps in the order image, height, width, channel; pooled ones have half the height and width."""
Channels = Float[Tensor, "channel"]
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
            mean, variance = _compiled(statistics)(rows, rows[0].to(weight.dtype).mean((0, 1)))
            sign = torch.where(weight < 0, -1.0, 1.0).to(weight.dtype)
            scale = torch.rsqrt(variance + eps)
            out, chosen, place = _compiled(pool)(rows, sign, mean, weight * scale, bias, relu)
        ctx.save_for_backward(maps, chosen, place, weight, mean, scale)
        ctx.mark_non_differentiable(mean, variance)
        return out.permute(0, 3, 1, 2), mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradients[0].permute(0, 2, 3, 1).contiguous()
        maps, *others = ctx.saved_tensors
        rows = maps.permute(0, 2, 3, 1).contiguous()
        maps, weight, bias = _Gradient.apply(gradient, rows, *others)  # type: ignore[no-untyped-call]
        return maps.permute(0, 3, 1, 2), weight, bias, None, None


class _Gradient(torch.autograd.Function):
    """The gradient of `_PooledBatchNorm`, as a function of that of its output, of the raw maps and of the weight."""

    @staticmethod
    def forward(
        ctx: Any, gradient: Maps, maps: Maps, chosen: Maps, place: Maps, weight: Tensor, mean: Tensor, scale: Tensor
    ) -> tuple[Tensor, ...]:
        count = maps.numel() // maps.shape[-1]
        with torch.autocast(maps.device.type, enabled=False):
            to_bias, product = _compiled(sums)(gradient, chosen, place, mean)
            to_weight = product * scale
            ctx.save_for_backward(gradient, maps, chosen, place, weight, mean, scale, to_weight, to_bias)
            factor = weight * scale
            k1 = -factor * scale * to_weight / count
            k0 = -factor * to_bias / count - mean * k1
            return _compiled(unpool)(gradient, maps, place, factor, k1, k0), to_weight, to_bias

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_maps, of_weight, of_bias = gradients
        gradient, maps, chosen, place, weight, mean, scale, to_weight, to_bias = ctx.saved_tensors
        h, count = of_maps.contiguous(), maps.numel() // maps.shape[-1]
        with torch.autocast(maps.device.type, enabled=False):
            sum_h, product, at_chosen = _compiled(twice_sums)(h, maps, gradient, place, mean)
            sum_h, sum_hx, factor = sum_h / count, product * scale / count, weight * scale
            inner = at_chosen - to_bias * sum_h - to_weight * sum_hx
            a, b = of_weight - factor * sum_hx, factor * to_weight / count
            k1 = -scale * scale * ((a * to_weight / count - b * sum_hx) + factor * inner / count)
            k0 = -scale * (a * to_bias / count - b * sum_h) - mean * k1
            j1 = scale * a
            j0 = of_bias - factor * sum_h - mean * j1
            first = _compiled(twice_at_chosen)(h, chosen, place, factor, j1, j0)
            second = _compiled(twice_unpool)(h, gradient, maps, place, scale * a, scale * b, k1, k0)
        return first, second, None, None, inner * scale, None, None


def statistics(maps: Maps, near: Channels) -> tuple[Channels, Channels]:
    """Return mean and variance. A value near the mean is subtracted first, so that their difference loses no digits."""
    count = maps.numel() // maps.shape[-1]
    centred = maps.to(near.dtype) - near
    first = centred.sum((1, 2)).sum(0) / count
    second = centred.square().sum((1, 2)).sum(0) / count
    return near + first, (second - first.square()).clamp_min(0)


def pool(
    maps: Maps, sign: Channels, mean: Channels, factor: Channels, bias: Channels, relu: bool
) -> tuple[Maps, Maps, Maps]:
    """Return the output, the chosen raw values, and their places in the windows: 0 to 3, or 4 where ReLU gives zero."""
    rows, columns = maps.shape[1] // 2, maps.shape[2] // 2
    x = maps.to(sign.dtype)
    a, b, c, d = (x[:, i : 2 * rows : 2, j : 2 * columns : 2] * sign for i in (0, 1) for j in (0, 1))
    above, below = torch.maximum(a, b), torch.maximum(c, d)
    # the first of equal values, as in PyTorch; a float, because a mask of bytes keeps the loop from being vectorised
    place = torch.where(below > above, torch.where(d > c, 3.0, 2.0), torch.where(b > a, 1.0, 0.0))
    chosen = torch.maximum(above, below) * sign
    out = (chosen - mean) * factor + bias
    if relu:
        place = torch.where(out > 0, place, 4.0)
        out = out.relu()
    return out.to(maps.dtype), chosen.to(maps.dtype), place.to(maps.dtype)


def sums(gradient: Maps, chosen: Maps, place: Maps, mean: Channels) -> tuple[Channels, Channels]:
    """Return the sums of the gradient, and of the gradient times the centred chosen values."""
    given = torch.where(place.to(mean.dtype) < 4, gradient.to(mean.dtype), 0.0)
    return given.sum((1, 2)).sum(0), (given * (chosen.to(mean.dtype) - mean)).sum((1, 2)).sum(0)


def unpool(gradient: Maps, maps: Maps, place: Maps, factor: Channels, k1: Channels, k0: Channels) -> Maps:
    """Return the raw maps times k1, plus k0, plus the gradient times the factor at its places."""
    return _with_windows(maps.to(k1.dtype) * k1 + k0, gradient.to(k1.dtype) * factor, place).to(maps.dtype)


def twice_sums(h: Maps, maps: Maps, gradient: Maps, place: Maps, mean: Channels) -> tuple[Channels, Channels, Channels]:
    """Return the sums of h, of h times the centred maps, and of h times the gradient at its places."""
    of_maps = h.to(mean.dtype)
    products = of_maps * (maps.to(mean.dtype) - mean)
    at_chosen = _at_places(of_maps, place) * gradient.to(mean.dtype)
    return of_maps.sum((1, 2)).sum(0), products.sum((1, 2)).sum(0), at_chosen.sum((1, 2)).sum(0)


def twice_at_chosen(h: Maps, chosen: Maps, place: Maps, factor: Channels, j1: Channels, j0: Channels) -> Maps:
    """Return h times the factor at its places, plus the chosen values times j1, plus j0; zero where ReLU gives zero."""
    whole = _at_places(h.to(j1.dtype), place) * factor + chosen.to(j1.dtype) * j1 + j0
    return torch.where(place.to(j1.dtype) < 4, whole, 0.0).to(h.dtype)


def twice_unpool(
    h: Maps, gradient: Maps, maps: Maps, place: Maps, a: Channels, b: Channels, k1: Channels, k0: Channels
) -> Maps:
    """Return the raw maps times k1, plus k0, minus h times b, plus the gradient times a at its places."""
    smooth = maps.to(k1.dtype) * k1 + k0 - h.to(k1.dtype) * b
    return _with_windows(smooth, gradient.to(k1.dtype) * a, place).to(maps.dtype)


def _at_places(maps: Maps, place: Maps) -> Maps:
    """Return the value at its place in each window; zero at place 4."""
    rows, columns = place.shape[1:3]
    windows = (maps[:, i : 2 * rows : 2, j : 2 * columns : 2] for i in (0, 1) for j in (0, 1))
    at = place.to(maps.dtype)
    first, second, third, fourth = (torch.where(at == index, each, 0.0) for index, each in enumerate(windows))
    return first + second + third + fourth


def _with_windows(maps: Maps, pooled: Maps, place: Maps) -> Maps:
    """Return the maps with the pooled values added at their places."""
    images, height, width, channels = maps.shape
    rows, columns = place.shape[1:3]
    windows = maps[:, : 2 * rows, : 2 * columns].reshape(images, rows, 2, columns, 2, channels)
    position = torch.arange(4, dtype=maps.dtype, device=maps.device).view(1, 1, 2, 1, 2, 1)
    shape = (images, rows, 1, columns, 1, channels)
    inside = windows + torch.where(place.to(maps.dtype).view(shape) == position, pooled.view(shape), 0.0)
    inside = inside.reshape(images, 2 * rows, 2 * columns, channels)
    if (height, width) == (2 * rows, 2 * columns):
        return inside
    whole = maps.clone()
    whole[:, : 2 * rows, : 2 * columns] = inside
    return whole


@cache
def _compiled(function: Any) -> Any:
    torch._dynamo.config.recompile_limit = max(RECOMPILATIONS, torch._dynamo.config.recompile_limit)
    return torch.compile(function, dynamic=False)
