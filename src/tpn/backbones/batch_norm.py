"""The statistics that batch normalisation uses: running averages of training, or those of the batch."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def keeps_statistics(module: nn.Module) -> bool:
    """Return whether any layer has running statistics of batch normalisation."""
    return any(isinstance(layer, _BatchNorm) and layer.running_mean is not None for layer in module.modules())


def remove_running_statistics(module: nn.Module) -> None:
    """Remove the running statistics, so that batch normalisation always uses those of the batch."""
    for layer in module.modules():
        if isinstance(layer, _BatchNorm):
            layer.track_running_stats = False
            layer.running_mean = layer.running_var = layer.num_batches_tracked = None


class ElementaryBatchNorm(nn.BatchNorm2d):
    """Batch normalisation with the statistics of the batch, in training by elementary operations.

    Training of MAML needs gradients of gradients: those of PyTorch's own layer are wrong under `vmap` (seen in torch
    2.13), and slow on CPUs. Sums over images and places are matrix products here, several times as fast as
    `Tensor.sum`.
    """

    def forward(self, input: Float[Tensor, "image filter height width"]) -> Float[Tensor, "image filter height width"]:
        if not self.training:
            return super().forward(input)
        images, filters, height, width = input.shape
        with torch.autocast(input.device.type, enabled=False):
            values = input if input.dtype == torch.float64 else input.float()
            rows = values.permute(0, 2, 3, 1).reshape(-1, filters)
            average = rows.new_full((1, len(rows)), 1 / len(rows))
            centred = rows - average @ rows
            variance = average @ centred.square()
            scaled = centred * (torch.rsqrt(variance + self.eps) * self.weight) + self.bias
        return scaled.view(images, height, width, filters).permute(0, 3, 1, 2)


def make_twice_differentiable(module: nn.Module) -> None:
    """Replace the batch normalisation of an untrained module by one for gradients of gradients."""
    for parent in list(module.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, nn.BatchNorm2d):
                setattr(parent, name, ElementaryBatchNorm(layer.num_features, layer.eps, track_running_stats=False))


@contextmanager
def batch_statistics(module: nn.Module) -> Iterator[None]:
    """Use the statistics of the batch inside this block; the running statistics do not change."""
    layers = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
    before = [(layer.training, layer.track_running_stats) for layer in layers]
    for layer in layers:
        layer.training, layer.track_running_stats = True, False
    try:
        yield
    finally:
        for layer, (training, track) in zip(layers, before, strict=True):
            layer.training, layer.track_running_stats = training, track
