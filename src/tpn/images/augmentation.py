"""Random augmentation of training images, a batch at a time."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

ImageBatch = Float[Tensor, "image channel height width"]

BORDER = 1 / 8
"""The largest shift of a crop, as a share of the image."""
STRENGTH = 0.4
"""Brightness, contrast and saturation vary by factors from 1 - STRENGTH to 1 + STRENGTH."""
GREY = (0.299, 0.587, 0.114)
"""The luminance of red, green and blue (ITU-R BT.601)."""


def augment(images: ImageBatch, kinds: tuple[str, ...]) -> ImageBatch:
    """Apply these augmentations to each image, always in the same order. Values from 0 to 1 stay in that range."""
    for kind, change in CHANGES.items():
        if kind in kinds:
            images = change(images)
    return images


def crop(images: ImageBatch) -> ImageBatch:
    """Shift each image by up to an eighth of its size, replicating its edge."""
    count, _, height, width = images.shape
    down, right = (max(1, round(length * BORDER)) for length in (height, width))
    padded = F.pad(images, (right, right, down, down), mode="replicate")
    rows = torch.randint(2 * down + 1, (count, 1)) + torch.arange(height)
    columns = torch.randint(2 * right + 1, (count, 1)) + torch.arange(width)
    shifted = padded.permute(0, 2, 3, 1)[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return shifted.permute(0, 3, 1, 2)


def flip(images: ImageBatch) -> ImageBatch:
    """Flip each image horizontally with probability 0.5."""
    mirrored = torch.rand(len(images), 1, 1, 1) < 0.5
    return torch.where(mirrored, images.flip(-1), images)


def jitter(images: ImageBatch) -> ImageBatch:
    """Vary brightness, contrast and, of RGB images, saturation."""
    images = (images * _factors(images)).clamp_(0, 1)
    average = _grey(images).mean((1, 2, 3), keepdim=True)
    images = torch.lerp(average, images, _factors(images)).clamp_(0, 1)
    if images.shape[1] == len(GREY):
        images = torch.lerp(_grey(images), images, _factors(images)).clamp_(0, 1)
    return images


def _factors(images: ImageBatch) -> Float[Tensor, "image 1 1 1"]:
    return 1 + STRENGTH * (2 * torch.rand(len(images), 1, 1, 1) - 1)


def _grey(images: ImageBatch) -> Float[Tensor, "image 1 height width"]:
    if images.shape[1] != len(GREY):
        return images.mean(1, keepdim=True)
    return (images * torch.tensor(GREY).view(1, -1, 1, 1)).sum(1, keepdim=True)


CHANGES: dict[str, Callable[[ImageBatch], ImageBatch]] = {"crop": crop, "flip": flip, "jitter": jitter}
