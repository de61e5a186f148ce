import numpy as np
import pytest
import torch

from tpn.backbones._normalisation import Normalisation
from tpn.backbones._registry import build_backbone
from tpn.images.augmentation import augment, crop, flip, jitter, resized_crop

IMAGES = torch.rand(64, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "kinds", [("crop",), ("flip",), ("jitter",), ("resized-crop",), ("resized-crop", "crop", "flip", "jitter")]
)
def test_images_change_and_stay_images(kinds, channels):
    images = IMAGES[:, :channels].contiguous(memory_format=torch.channels_last)
    before = images.clone()
    torch.manual_seed(0)
    changed = augment(images, kinds)
    assert changed.shape == images.shape
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert not torch.equal(changed, images)
    assert torch.equal(images, before), "what was given is left alone"
    torch.manual_seed(0)
    assert torch.equal(augment(images, kinds[::-1]), changed), "the seed decides, not the order of the names"
    assert torch.equal(augment(images, ()), images)


def test_a_crop_is_a_shift_with_the_edge_repeated():
    torch.manual_seed(0)
    cropped, shifts = crop(IMAGES), set()
    for before, after in zip(IMAGES.numpy(), cropped.numpy(), strict=True):
        padded = np.pad(before, ((0, 0), (2, 2), (2, 2)), mode="edge")
        found = [
            (y, x) for y in range(5) for x in range(5) if np.array_equal(padded[:, y : y + 16, x : x + 16], after)
        ]  # fmt: skip
        assert len(found) == 1
        shifts.add(found[0])
    assert len(shifts) > 15


def test_about_half_are_flipped():
    torch.manual_seed(0)
    flipped = flip(IMAGES)
    same = (flipped == IMAGES).flatten(1).all(1)
    mirrored = (flipped == IMAGES.flip(-1)).flatten(1).all(1)
    assert (same ^ mirrored).all()
    assert 16 < mirrored.sum() < 48


def test_jitter_changes_each_image_as_a_whole():
    grey = torch.full((200, 3, 4, 4), 0.5)
    torch.manual_seed(0)
    changed = jitter(grey)
    assert torch.allclose(changed, changed[:, :1, :1, :1].expand_as(changed), atol=1e-6), (
        "one brightness for all pixels"
    )
    brightness = changed[:, 0, 0, 0]
    assert 0.29 < brightness.min() < 0.35
    assert 0.65 < brightness.max() < 0.71


def test_jitter_follows_its_definition():
    torch.manual_seed(3)
    changed = jitter(IMAGES[:5]).numpy()
    torch.manual_seed(3)
    bright, contrast, saturation = (1 + 0.4 * (2 * torch.rand(5, 1, 1, 1).numpy() - 1) for _ in range(3))
    weights = np.array([0.299, 0.587, 0.114])[None, :, None, None]
    expected = np.clip(IMAGES[:5].numpy() * bright, 0, 1)
    average = (expected * weights).sum(1, keepdims=True).mean((1, 2, 3), keepdims=True)
    expected = np.clip(average + contrast * (expected - average), 0, 1)
    luma = (expected * weights).sum(1, keepdims=True)
    expected = np.clip(luma + saturation * (expected - luma), 0, 1)
    np.testing.assert_allclose(changed, expected, atol=1e-5)


def test_normalisation_gives_mean_0_and_deviation_1():
    mean, std = IMAGES.mean((0, 2, 3)), IMAGES.std((0, 2, 3), correction=0)
    normal = Normalisation(tuple(mean.tolist()), tuple(std.tolist()))(IMAGES)
    np.testing.assert_allclose(normal.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(normal.std((0, 2, 3), correction=0), 1, atol=1e-5)


def test_a_backbone_normalises_its_images():
    torch.manual_seed(0)
    plain = build_backbone("conv4", 3, 16).eval()
    torch.manual_seed(0)
    normalising = build_backbone("conv4", 3, 16, (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)).eval()
    by_hand = (IMAGES - torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1)) / torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)
    torch.testing.assert_close(normalising(IMAGES), plain(by_hand))
    assert not torch.allclose(normalising(IMAGES), plain(IMAGES))
    assert plain.state_dict().keys() == normalising.state_dict().keys()


def test_a_resized_crop_is_a_rectangle_of_the_image():
    """On images whose values are their own coordinates, a crop shows where it was cut."""
    count, size = 400, 32
    places = (torch.arange(size) + 0.5) / size
    images = torch.stack([places.expand(size, size).T, places.expand(size, size)]).expand(count, 2, size, size)
    torch.manual_seed(0)
    down, across = resized_crop(images, 0.4).unbind(1)
    height, width = (down[:, -2, 0] - down[:, 1, 0]), (across[:, 0, -2] - across[:, 0, 1])
    height, width = height * size / (size - 3), width * size / (size - 3)  # between the centres of inner pixels
    area, ratio = (height * width).numpy(), (width / height).numpy()
    assert 0.36 < area.min() < 0.45
    assert 0.95 < area.max() < 1.01
    assert abs(np.median(area) - 0.7) < 0.05
    assert 0.74 < ratio.min() < 0.85
    assert 1.2 < ratio.max() < 1.34
    assert torch.allclose(resized_crop(images[:3], 1.0), images[:3], atol=0.12), "the whole image, but for its ratio"
