"""Images with values around zero."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Normalisation(nn.Module):
    """Subtracts the mean of the training images from each channel, and divides by their standard deviation.

    It belongs to the network: wherever the images come from that it is used on, it treats them as in training.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        factor = 1 / torch.tensor(std).clamp_min(1e-3)  # images of a single colour have no deviation
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("factor", factor.view(1, -1, 1, 1), persistent=False)

    def forward(
        self, images: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image channel height width"]:
        return (images - self.mean).mul_(self.factor)
