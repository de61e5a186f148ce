"""Exponential moving averages of the weights, which generalise better than the last ones.

PyTorch's `AveragedModel` keeps a copy of the whole module, and its state has other names than that of the module. Here
the average is a dict of tensors, which a checkpoint stores like the weights themselves.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tpn.methods._method import Method


class AveragedWeights:
    """The exponential moving average of a method's parameters and statistics; counters have their last values."""

    def __init__(self, method: Method, decay: float) -> None:
        self._method, self._decay = method, decay
        self.tensors = {name: tensor.clone() for name, tensor in method.state_dict().items()}

    @torch.no_grad()
    def update(self, steps: int) -> None:
        """Include the present weights. After the first few steps the average covers only some of them."""
        decay = min(self._decay, (1 + steps) / (10 + steps))
        for name, tensor in self._method.state_dict().items():
            if tensor.is_floating_point():
                self.tensors[name].lerp_(tensor, 1 - decay)
            else:
                self.tensors[name].copy_(tensor)

    def restart(self) -> None:
        """Begin again with the present weights."""
        for name, tensor in self._method.state_dict().items():
            self.tensors[name].copy_(tensor)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give the method the averaged weights inside this block."""
        present = {name: tensor.clone() for name, tensor in self._method.state_dict().items()}
        self._method.load_state_dict(self.tensors)
        try:
            yield
        finally:
            self._method.load_state_dict(present)


def averaged_weights(method: Method) -> AveragedWeights | None:
    """Return the averaged weights that the settings of a method ask for, if they do."""
    return AveragedWeights(method, method.config.ema) if method.config.ema else None
