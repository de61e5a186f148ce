"""Random changes to training pictures, a whole batch at a time, that leave what they show the same."""

from collections.abc import Callable
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

Augmentation = Literal["crop", "flip", "jitter"]
Pictures = Float[Tensor, "picture channel height width"]

BORDER = 1 / 8
"""How far a crop can be shifted, as a share of the picture."""
STRENGTH = 0.4
"""How much brightness, contrast and saturation vary: factors from 1 - STRENGTH to 1 + STRENGTH."""
GREY = (0.299, 0.587, 0.114)
"""How bright red, green and blue are (ITU-R BT.601)."""


def augment(pictures: Pictures, kinds: tuple[Augmentation, ...]) -> Pictures:
    """Change each picture at random in these ways, always in the same order. Values stay between 0 and 1."""
    for kind in get_args(Augmentation):
        if kind in kinds:
            pictures = CHANGES[kind](pictures)
    return pictures


def crop(pictures: Pictures) -> Pictures:
    """Shift each picture by up to an eighth of its size, repeating its edge."""
    count, _, height, width = pictures.shape
    down, right = (max(1, round(length * BORDER)) for length in (height, width))
    padded = F.pad(pictures, (right, right, down, down), mode="replicate")
    rows = torch.randint(2 * down + 1, (count, 1)) + torch.arange(height)
    columns = torch.randint(2 * right + 1, (count, 1)) + torch.arange(width)
    shifted = padded.permute(0, 2, 3, 1)[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return shifted.permute(0, 3, 1, 2)


def flip(pictures: Pictures) -> Pictures:
    """Mirror every second picture or so, left to right."""
    mirrored = torch.rand(len(pictures), 1, 1, 1) < 0.5
    return torch.where(mirrored, pictures.flip(-1), pictures)


def jitter(pictures: Pictures) -> Pictures:
    """Change brightness, contrast and, of pictures in colour, saturation."""
    pictures = (pictures * _factors(pictures)).clamp_(0, 1)
    average = _grey(pictures).mean((1, 2, 3), keepdim=True)
    pictures = torch.lerp(average, pictures, _factors(pictures)).clamp_(0, 1)
    if pictures.shape[1] == len(GREY):
        pictures = torch.lerp(_grey(pictures), pictures, _factors(pictures)).clamp_(0, 1)
    return pictures


def _factors(pictures: Pictures) -> Float[Tensor, "picture 1 1 1"]:
    return 1 + STRENGTH * (2 * torch.rand(len(pictures), 1, 1, 1) - 1)


def _grey(pictures: Pictures) -> Float[Tensor, "picture 1 height width"]:
    if pictures.shape[1] != len(GREY):
        return pictures.mean(1, keepdim=True)
    return (pictures * torch.tensor(GREY).view(1, -1, 1, 1)).sum(1, keepdim=True)


CHANGES: dict[Augmentation, Callable[[Pictures], Pictures]] = {"crop": crop, "flip": flip, "jitter": jitter}
