import hashlib
import json
from importlib.resources import files

import numpy as np
import pytest
import torch

from tpn.errors import TPNError
from tpn.images.dataset_index import SPLITS
from tpn.images.opening import open_images
from tpn.images.split import resize

FOLDER = files("tpn.images.quickdraw")


def test_the_archive_is_small_and_names_its_licence():
    assert len(FOLDER.joinpath("drawings.zip").read_bytes()) <= 8_000_000
    licence = FOLDER.joinpath("LICENSE.txt").read_text()
    assert "CC BY 4.0" in licence
    assert "Google" in licence


def test_the_splits_are_the_ones_settled_once_and_for_all():
    info = open_images("quickdraw").info()
    assert {split: (part.classes, part.images) for split, part in info.items()} == {
        "train": (215, 21_500),
        "val": (50, 5_000),
        "test": (80, 8_000),
    }
    classes = json.loads(FOLDER.joinpath("classes.json").read_bytes())
    names = [name for split in SPLITS for name in classes[split]]
    assert len(set(names)) == 345
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    assert digest == "3b2121fbff065ca2613c822b23e58f3721097e70df11851231d5bbc759edbadc"


def test_images_are_drawings_grouped_by_class(drawings):
    assert drawings.images.shape == (5_000, 28, 28, 1)
    assert (drawings.counts == 100).all()
    assert 0.1 < (drawings.images > 0).mean() < 0.4
    # each class is more like itself than like others: ink per place, first half against second
    halves = drawings.images.reshape(50, 2, 50, -1).mean(2)
    halves = halves - halves.mean(0)
    likeness = np.corrcoef(halves[:, 0], halves[:, 1])[:50, 50:]
    assert (likeness.argmax(1) == np.arange(50)).mean() > 0.8


def test_loading_gives_values_of_0_to_1_in_channels_last_memory(drawings):
    images = drawings.load(np.array([3, 700, 3]))
    assert images.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(images[1, 0].numpy(), drawings.images[700, :, :, 0] / 255, rtol=1e-6)
    assert torch.equal(images[0], images[2])


@pytest.mark.parametrize("size", [16, 42])
def test_images_can_be_scaled(size):
    images = open_images("quickdraw", size)
    assert images.image_size == size
    split = images.split("val")
    assert split.images.shape == (5_000, size, size, 1)
    original = open_images("quickdraw").split("val").images
    assert abs(split.images.mean() - original.mean()) < 1.0


def test_scaling_down_averages_and_keeps_flat_images_flat():
    checkerboard = np.indices((28, 28)).sum(0)[None, :, :, None] % 2 * 255
    assert np.ptp(resize(checkerboard.astype(np.uint8), 7)[0, 1:-1, 1:-1]) <= 16
    assert (resize(np.full((2, 28, 28, 3), 77, np.uint8), 50) == 77).all()


@pytest.mark.parametrize("spec", ["quikdraw", "", "imagenet:here"])
def test_unknown_data_is_refused(spec):
    with pytest.raises(TPNError, match="Unknown data"):
        open_images(spec)


@pytest.mark.parametrize("size", [0, -3, 5000])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(TPNError, match="image_size must be between"):
        open_images("quickdraw", size)
