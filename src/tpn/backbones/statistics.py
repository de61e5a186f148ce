"""Which statistics batch normalisation uses."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def keeps_statistics(module: nn.Module) -> bool:
    """Does any of its layers normalise with statistics that it has gathered in training?"""
    return any(isinstance(layer, _BatchNorm) and layer.running_mean is not None for layer in module.modules())


def forget_statistics(module: nn.Module) -> None:
    """Let batch normalisation use the statistics of the batch at hand for good, and gather none."""
    for layer in module.modules():
        if isinstance(layer, _BatchNorm):
            layer.track_running_stats = False
            layer.running_mean = layer.running_var = layer.num_batches_tracked = None


@contextmanager
def batch_statistics(module: nn.Module) -> Iterator[None]:
    """Let batch normalisation use the statistics of the batch at hand, leaving the running ones as they are."""
    layers = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
    before = [(layer.training, layer.track_running_stats) for layer in layers]
    for layer in layers:
        layer.training, layer.track_running_stats = True, False
    try:
        yield
    finally:
        for layer, (training, track) in zip(layers, before, strict=True):
            layer.training, layer.track_running_stats = training, track
