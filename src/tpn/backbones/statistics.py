"""Which statistics batch normalisation uses at test time."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


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
