"""Random augmentation of training images, a batch at a time."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

ImageBatch = Float[Tensor, "image channel height width"]

BORDER = 1 / 8
"""The largest shift of a crop, as a share of the image."""
WIDEST = 4 / 3
"""The widest ratio of the sides of a resized crop."""
STRENGTH = 0.4
"""Brightness, contrast and saturation vary by factors from 1 - STRENGTH to 1 + STRENGTH."""
GREY = (0.299, 0.587, 0.114)
"""The luminance of red, green and blue (ITU-R BT.601)."""


def augment(images: ImageBatch, kinds: tuple[str, ...], crop_area: float = 0.4) -> ImageBatch:
    """Apply these augmentations to each image, always in the same order. Values from 0 to 1 stay in that range."""
    if "resized-crop" in kinds:
        images = resized_crop(images, crop_area)
    for kind, change in CHANGES.items():
        if kind in kinds:
            images = change(images)
    return images


def resized_crop(images: ImageBatch, least: float) -> ImageBatch:
    """Cut a random rectangle from each image, and resize it to the size of the image.

    Its area is `least` to 1 times that of the image, and its sides have a ratio of 3:4 to 4:3, both uniformly at
    random, the ratio on a logarithmic scale.
    """
    count = len(images)
    area = least + (1 - least) * torch.rand(count)
    stretch = torch.exp((2 * torch.rand(count) - 1) * math.log(WIDEST) / 2)
    width, height = (area.sqrt() * side for side in (stretch, 1 / stretch))
    width, height = width.clamp(max=1), height.clamp(max=1)
    across, down = ((2 * torch.rand(count) - 1) * (1 - side) for side in (width, height))  # centres, from -1 to 1
    zero = torch.zeros(count)
    transform = torch.stack([width, zero, across, zero, height, down], dim=1).view(count, 2, 3)
    grid = F.affine_grid(transform, list(images.shape), align_corners=False)
    cut = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return cut.contiguous(memory_format=torch.channels_last)


def shrink(images: ImageBatch, size: int) -> Float[Tensor, "image channel {size} {size}"]:
    """Resize images to a smaller height and width, with antialiasing."""
    smaller = F.interpolate(images, (size, size), mode="bilinear", antialias=True, align_corners=False)
    return smaller.contiguous(memory_format=torch.channels_last)


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
