"""Progressive image size: a training begins with small images, whose steps cost less, and ends with large ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate

import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from tpn.errors import TPNError
from tpn.images.split import Split
from tpn.methods._config import Config
from tpn.methods._method import Method

BATCHES, BATCH = 16, 128
"""Mini-batches, and images in each, from which statistics of batch normalisation are computed anew."""


def image_size_at(config: Config, episode: int, largest: int) -> int:
    """Return the height and width of training images at an episode."""
    if not config.sizes:
        return largest
    shares = config.size_shares or (1 / len(config.sizes),) * len(config.sizes)
    ends = list(accumulate(shares))[:-1]
    return config.sizes[sum(episode / config.episodes >= end - 1e-9 for end in ends)]


def check_last_size(config: Config, image_size: int) -> None:
    """Refuse image sizes that do not end with that of the run."""
    if config.sizes and config.sizes[-1] != image_size:
        raise TPNError(
            f"--sizes must end with the image size of the run, {image_size}, not with {config.sizes[-1]}: images are "
            "prepared at that size, and tests use it."
        )


@contextmanager
def statistics_refreshed(method: Method, split: Split) -> Iterator[None]:
    """Use the batch-norm statistics of full-sized training images inside this block.

    During the training with smaller images, the running statistics are those of smaller images, and do not fit a test.
    """
    layers = [layer for layer in method.modules() if isinstance(layer, _BatchNorm) and layer.running_mean is not None]
    before = {name: buffer.clone() for name, buffer in method.named_buffers()}
    momenta = [layer.momentum for layer in layers]
    was_training = method.training
    rows = np.random.default_rng(0).permutation(len(split))[: BATCHES * BATCH]
    try:
        method.train()
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # a plain average over the mini-batches
        with torch.no_grad():
            for first in range(0, len(rows), BATCH):
                if len(batch := rows[first : first + BATCH]) > 1:
                    method.embed(split.load(np.sort(batch)).to(method.device))
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        method.train(was_training)
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        method.train(was_training)
        for name, buffer in method.named_buffers():
            buffer.copy_(before[name])
