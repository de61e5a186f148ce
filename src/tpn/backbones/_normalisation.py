"""Normalisation of images by the mean and standard deviation of the training images."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Normalisation(nn.Module):
    """Subtract the mean of the training images from each channel, and divide by their standard deviation.

    It is part of the network, which therefore treats images of any source as in training.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        factor = 1 / torch.tensor(std).clamp_min(1e-3)  # the deviation is 0 if all images have one colour
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("factor", factor.view(1, -1, 1, 1), persistent=False)

    def forward(
        self, images: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image channel height width"]:
        return (images - self.mean).mul_(self.factor)
