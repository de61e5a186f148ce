"""Arrays, features and torch datasets as images."""

from inspect import unwrap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import Dataset, Subset, TensorDataset

from tests.images import making
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.images.images_from import images_from
from tpn.images.opening import open_images
from tpn.images.split import Split

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (12, 6, 6, 3), dtype=np.uint8)
LABELS = np.array([3, 1, 2] * 4)


def of_class(split, name):
    index = split.classes.index(name)
    return split.load(np.arange(split.starts[index], split.starts[index + 1])).numpy()


class Fake(Dataset):
    """A dataset as torchvision makes them."""

    def __init__(self, images, targets, classes=None):
        self.images, self.targets, self.reads = images, targets, 0
        if classes is not None:
            self.classes = classes

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        self.reads += 1
        return self.images[index], self.targets[index]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.randoms())
def test_grouping_keeps_every_image_with_its_class_whatever_the_order(labels, random):
    images = np.zeros((len(labels), 2, 2, 1), np.uint8)
    images[:, 0, 0, 0] = np.arange(len(labels))
    images[:, 1, 1, 0] = labels
    split = images_from(train=(images, labels)).split("train")
    assert split.classes == tuple(map(str, sorted(set(labels))))
    assert len(split) == len(labels)
    assert split.counts.tolist() == [labels.count(label) for label in sorted(set(labels))]
    for name in split.classes:
        loaded = np.rint(of_class(split, name) * 255)
        assert (loaded[:, 0, 1, 1] == int(name)).all()
        assert loaded[:, 0, 0, 0].tolist() == [row for row, label in enumerate(labels) if label == int(name)]
    rows = list(range(len(labels)))
    random.shuffle(rows)
    shuffled = images_from(train=(images[rows], [labels[row] for row in rows])).split("train")
    for name in split.classes:
        assert sorted(of_class(split, name)[:, 0, 0, 0]) == sorted(of_class(shuffled, name)[:, 0, 0, 0])


@pytest.mark.parametrize("as_type", [np.uint8, np.float32, np.float64, np.float16])
def test_channels_first_and_last_arrays_and_tensors_load_alike(as_type):
    pixels = PIXELS if as_type is np.uint8 else (PIXELS / 255).astype(as_type)
    first = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    forms = [pixels, first, torch.from_numpy(pixels), torch.from_numpy(first)]
    opened = [images_from(train=(form, LABELS)) for form in forms]
    rows = RNG.permutation(12)
    expected = opened[0].split("train").load(rows)
    order = np.argsort(LABELS, kind="stable")
    by_hand = (PIXELS[order][rows].transpose(0, 3, 1, 2) / 255).astype(np.float32)
    np.testing.assert_allclose(expected.numpy(), by_hand, rtol=1e-3 if as_type is np.float16 else 1e-6)
    for images in opened:
        loaded = images.split("train").load(rows)
        assert torch.equal(loaded, expected)
        assert loaded.is_contiguous(memory_format=torch.channels_last)
        assert images.digest == opened[0].digest
        assert (images.image_size, images.channels, images.are_features) == (6, 3, False)
        np.testing.assert_allclose(images.mean, PIXELS.mean((0, 1, 2)) / 255, atol=1e-3)
        np.testing.assert_allclose(images.std, PIXELS.std((0, 1, 2)) / 255, atol=1e-3)


@pytest.mark.parametrize(
    "array",
    [
        PIXELS,
        PIXELS.transpose(0, 3, 1, 2),
        PIXELS[..., 0],
        PIXELS.astype(np.float32),
        PIXELS.reshape(12, -1).astype(np.float32),
        torch.from_numpy(PIXELS),
    ],
    ids=["NHWC", "NCHW", "NHW", "float", "features", "tensor"],
)
def test_nothing_is_copied(array):
    split = images_from(train=(array, LABELS)).split("train")
    assert np.shares_memory(split.images, np.asarray(array))


def test_a_mapped_file_stays_on_the_disk(tmp_path):
    np.save(tmp_path / "pixels.npy", PIXELS)
    mapped = np.load(tmp_path / "pixels.npy", mmap_mode="r")
    assert np.shares_memory(images_from(val=(mapped, LABELS)).split("val").images, mapped)


def test_ambiguous_channels_come_last_in_arrays_and_first_in_tensors():
    cube = RNG.integers(0, 256, (2, 3, 3, 3), dtype=np.uint8)
    last = images_from(test=(cube, [0, 1])).split("test").load(np.arange(2))
    first = images_from(test=(torch.from_numpy(cube), [0, 1])).split("test").load(np.arange(2))
    assert torch.equal(first, torch.from_numpy(cube) / 255)
    assert torch.equal(last, first.permute(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("shape", "channels"), [((2, 8, 8, 4), 4), ((2, 2, 4, 4), 2), ((2, 7, 5, 5), 7), ((2, 9, 9), 1)]
)
def test_channels_are_recognised_by_their_number_and_by_what_they_leave(shape, channels):
    images = images_from(test=(np.zeros(shape, np.uint8), ["a", "b"]))
    assert (images.channels, images.image_size) == (channels, max(shape[1:]) if channels < 5 else 5)


@pytest.mark.parametrize(
    "labels",
    [
        ["dog", "ant", "cat"] * 4,
        np.array(["dog", "ant", "cat"] * 4),
        np.array(["dog", "ant", "cat"] * 4, object),
        np.array([b"dog", b"ant", b"cat"] * 4),
        ("dog", "ant", "cat") * 4,
    ],
)
def test_labels_that_are_strings(labels):
    split = images_from(train=(PIXELS, labels)).split("train")
    assert split.classes == ("ant", "cat", "dog")
    np.testing.assert_allclose(of_class(split, "ant"), PIXELS[1::3].transpose(0, 3, 1, 2) / 255, rtol=1e-6)


@pytest.mark.parametrize(
    "labels", [LABELS, LABELS.tolist(), torch.from_numpy(LABELS), LABELS.astype(np.float64), LABELS.astype(np.uint8)]
)
def test_labels_that_are_numbers(labels):
    assert images_from(train=(PIXELS, labels)).split("train").classes == ("1", "2", "3")
    ten = images_from(train=(PIXELS, [10, 9, 100] * 4)).split("train")
    assert ten.classes == ("9", "10", "100"), "in the order of their numbers"


@pytest.mark.parametrize("names", [["none", "wolf", "ape", "bear"], {1: "wolf", 2: "ape", 3: "bear"}])
def test_classes_get_their_names_and_are_sorted_by_them(names):
    split = images_from(train=(PIXELS, LABELS), class_names=names).split("train")
    assert split.classes == ("ape", "bear", "wolf")
    for name, number in (("wolf", 1), ("ape", 2), ("bear", 3)):
        expected = PIXELS[number == LABELS].transpose(0, 3, 1, 2) / 255
        np.testing.assert_allclose(of_class(split, name), expected, rtol=1e-6)


def test_an_unnamed_class_is_refused():
    with pytest.raises(TPNError, match="no name for the label 3"):
        images_from(train=(PIXELS, LABELS), class_names=["a", "b", "c"])


def test_classes_of_two_splits_must_differ_unless_labels_restart():
    splits = {"train": (PIXELS, LABELS), "val": (PIXELS, LABELS % 3)}
    with pytest.raises(TPNError, match=r"'[12]' is in two splits .* labels_restart=True"):
        images_from(**splits)
    images = images_from(**splits, labels_restart=True)
    assert images.split("train").classes == ("train 1", "train 2", "train 3")
    assert images.split("val").classes == ("val 0", "val 1", "val 2")


@pytest.mark.parametrize(
    "convert",
    [
        Image.fromarray,
        lambda pixels: pixels,
        lambda pixels: torch.from_numpy(pixels).permute(2, 0, 1),
        lambda pixels: torch.from_numpy(pixels).permute(2, 0, 1).float() / 255,
        lambda pixels: pixels.astype(np.float32) / 255,
    ],
    ids=["PIL", "array", "tensor", "ToTensor", "float array"],
)
def test_a_dataset_is_read_once_into_bytes(convert):
    data = Fake([convert(pixels) for pixels in PIXELS], LABELS.tolist(), ["none", "wolf", "ape", "bear"])
    images = images_from(train=data)
    split = images.split("train")
    assert data.reads == 12
    assert split.images.dtype == np.uint8
    assert split.classes == ("ape", "bear", "wolf")
    same = images_from(train=(PIXELS, LABELS), class_names=data.classes)
    assert images.digest == same.digest
    assert torch.equal(split.load(np.arange(12)), same.split("train").load(np.arange(12)))


def test_floats_that_are_not_bytes_stay_floats():
    values = RNG.normal(size=(6, 3, 5, 5)).astype(np.float32)
    values[0] = 1 / 255
    data = Fake(list(torch.from_numpy(values)), [0, 1] * 3)
    split = images_from(train=data).split("train")
    assert torch.equal(split.load(np.arange(6)), torch.from_numpy(values)[[0, 2, 4, 1, 3, 5]])


def test_subsets_of_a_dataset_by_class_are_splits():
    data = Fake([Image.fromarray(pixels) for pixels in PIXELS], LABELS.tolist(), ["none", "wolf", "ape", "bear"])
    rows = {name: np.flatnonzero(number == LABELS) for name, number in (("train", 1), ("val", 2), ("test", 3))}
    images = images_from(**{name: Subset(data, where) for name, where in rows.items()})
    assert [images.split(name).classes for name in rows] == [("wolf",), ("ape",), ("bear",)]
    expected = PIXELS[LABELS == 3].transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(images.split("test").load(np.arange(4)), expected, rtol=1e-6)


def test_a_dataset_of_tensors_is_not_copied():
    tensors = torch.from_numpy(PIXELS), torch.from_numpy(LABELS)
    split = images_from(train=TensorDataset(*tensors)).split("train")
    assert np.shares_memory(split.images, PIXELS)


def test_a_dataset_with_grey_images_among_coloured_ones():
    for modes in (["L", "RGB", "L"], ["RGB", "L", "RGB"]):
        items = [Image.fromarray(pixels).convert(mode) for pixels, mode in zip(PIXELS, modes, strict=False)]
        split = images_from(train=Fake(items, [0, 1, 2])).split("train")
        expected = np.stack([np.asarray(item.convert("RGB")) for item in items])
        np.testing.assert_array_equal(split.images, expected)
    grey = Fake([Image.fromarray(pixels).convert("L") for pixels in PIXELS], LABELS.tolist())
    assert images_from(train=grey).channels == 1


def test_images_of_several_sizes_need_an_image_size(tmp_path):
    items = [making.smooth(RNG, size) for size in (20, 31, 84, 84)]
    data = Fake([Image.fromarray(pixels) for pixels in items], ["a", "b", "a", "b"])
    with pytest.raises(TPNError, match="Item 1 of train .*image_size"):
        images_from(train=data)
    split = images_from(train=data, image_size=16).split("train")
    files = {f"train/{name}/{row}.png": making.encode(items[row]) for row, name in enumerate("abab")}
    own = making.write_folder(tmp_path / "own", files)
    store = open_images(f"folder:{own}", 16, cache=tmp_path / "cache").split("train")
    assert torch.equal(split.load(np.arange(4)), store.load(np.arange(4))), "resized as our own sources are"


@pytest.mark.parametrize("scale", [1, 1 / 255])
def test_arrays_are_resized(scale):
    wide = np.stack([np.asarray(Image.fromarray(making.smooth(RNG, 40)).resize((48, 32))) for _ in range(4)])
    values = wide if scale == 1 else (wide * scale).astype(np.float32)
    with pytest.raises(TPNError, match="32 x 48.*image_size"):
        images_from(train=(values, [0, 0, 1, 1]))
    loaded = images_from(train=(values, [0, 0, 1, 1]), image_size=16).split("train").load(np.arange(4))
    for image, pixels in zip(loaded, wide, strict=True):
        expected = np.asarray(Image.fromarray(pixels).resize((16, 16), Image.Resampling.BILINEAR)) / 255
        np.testing.assert_allclose(image.permute(1, 2, 0), expected, atol=0.01)


@pytest.mark.parametrize("kind", ["pair", "dataset", "integers"])
def test_features_are_images_of_one_pixel(kind):
    features = RNG.normal(size=(12, 5)).astype(np.float32)
    features = np.rint(features * 9).astype(np.int64) if kind == "integers" else features
    data = Fake(list(features), LABELS.tolist()) if kind == "dataset" else (features, LABELS)
    images = images_from(test=data, name="mine")
    assert images.are_features
    assert (images.spec, images.channels, images.image_size) == ("arrays:mine", 5, 1)
    assert (images.mean, images.std) == ((), ())
    loaded = images.split("test").load(np.arange(12))
    assert loaded.shape == (12, 5, 1, 1)
    np.testing.assert_allclose(loaded[:, :, 0, 0], features[np.argsort(LABELS, kind="stable")])
    with pytest.raises(TPNError, match="features"):
        images.split("test").pixels(0)


def test_the_digest_tells_other_images_and_other_labels_apart():
    other = PIXELS.copy()
    other[-1, -1, -1, -1] ^= 1
    datas = [
        images_from(train=(PIXELS, LABELS)),
        images_from(train=(other, LABELS)),
        images_from(train=(PIXELS, np.roll(LABELS, 1))),
        images_from(train=(PIXELS, LABELS + 1)),
        images_from(val=(PIXELS, LABELS)),
        images_from(train=(PIXELS.astype(np.float32), LABELS)),
    ]
    assert len({images.digest for images in datas}) == len(datas)
    assert images_from(train=(PIXELS.copy(), LABELS.tolist()), name="other").digest == datas[0].digest


def test_a_split_that_was_not_given_is_asked_for_by_name():
    images = images_from(train=(PIXELS, LABELS))
    assert images.info()["train"].images == 12
    assert set(images.info()) == {"train"}
    with pytest.raises(TPNError, match=r"training.* val=\.\.\. to tpn.images_from"):
        images.split("val")
    with pytest.raises(TPNError, match=r"test=\.\.\. to tpn.images_from"):
        images.split("test")
    with pytest.raises(TPNError, match="train, val, test"):
        images.split("validation")


def test_episodes_are_drawn_from_it():
    split = images_from(train=(PIXELS, LABELS)).split("train")
    episode = EpisodeSampler(split, Setting(way=3, shot=1, query=2), 0).draw()
    loaded = split.load(episode.images)
    for image, label in zip(loaded, episode.labels, strict=True):
        mine = PIXELS[int(split.classes[episode.classes[label]]) == LABELS].transpose(0, 3, 1, 2) / np.float32(255)
        assert any(np.array_equal(image, one) for one in mine)


def test_pixels_can_be_shown():
    order = np.argsort(LABELS, kind="stable")
    split = images_from(train=(PIXELS, LABELS)).split("train")
    np.testing.assert_array_equal(split.pixels(5), PIXELS[order[5]])
    floats = images_from(train=(PIXELS.astype(np.float32) / 255, LABELS)).split("train")
    np.testing.assert_array_equal(floats.pixels(5), PIXELS[order[5]])
    grey = images_from(train=(PIXELS[..., 0], LABELS)).split("train")
    np.testing.assert_array_equal(grey.pixels(5), PIXELS[order[5], :, :, 0])
    standardised = images_from(train=(RNG.normal(size=(12, 6, 6, 3)), LABELS)).split("train").pixels(0)
    assert (standardised.dtype, standardised.min(), standardised.max()) == (np.uint8, 0, 255)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (PIXELS, "labels"),
        ((PIXELS, LABELS[:5]), "12 images, but 5 labels"),
        ((PIXELS, LABELS[:, None]), "one label for each image"),
        ((PIXELS, [None] * 12), "row 0"),
        ((PIXELS, np.full(12, np.nan)), "integers or strings"),
        ((PIXELS, LABELS + 0.5), "integers or strings"),
        ((PIXELS, LABELS - 2), "-1 in row 1"),
        ((PIXELS[:0], []), "empty"),
        ((PIXELS.astype(np.int32), LABELS), "uint8 or floating point"),
        ((PIXELS[0], LABELS[:6]), None),
        ((PIXELS.reshape(12, 2, 3, 6, 3), LABELS), r"shape \(12, 2, 3, 6, 3\)"),
        ((np.zeros((12, 9, 8, 7), np.uint8), LABELS), "channel axis"),
        ((np.zeros((12, 0)), LABELS), "features"),
        ((np.array(["a"] * 12)[:, None], LABELS), "numbers"),
        ((np.where(np.arange(12)[:, None] == 7, np.nan, np.zeros((12, 3))), LABELS), "Row 7 of train .*NaN"),
        ((np.where(np.arange(12)[:, None] == 7, np.inf, np.zeros((12, 3))), LABELS), "Row 7 of train"),
        ((np.full((12, 3), 1e300), LABELS), "Row . of train .*too large"),
        (Fake([], []), "empty"),
        (Fake(["a.png"], [0]), "item 0 of train .*PIL image"),
        ([PIXELS[0], PIXELS[1], PIXELS[2]], r"Item 0 .* pair \(image, class\)"),
        ([{"image": PIXELS[0], "label": 1}], r"Item 0 .* pair \(image, class\)"),
        ("photos", "tpn.open_images"),
        (open_images("quickdraw"), "already"),
        (iter([(PIXELS[0], 1)]), "length"),
        (3, "torch Dataset"),
        ({"images": PIXELS}, "torch Dataset"),
    ],
)
def test_what_cannot_be_used_is_refused(data, complaint):
    if complaint is None:  # six rows of a grey image: 6 x 6 x 3 is read as six images of 6 x 3
        complaint = "6 x 3.*image_size"
    with pytest.raises(TPNError, match=complaint):
        images_from(train=data)


def test_splits_must_be_alike():
    with pytest.raises(TPNError, match="train and val differ"):
        images_from(train=(PIXELS, LABELS), val=(PIXELS[:, :5, :5], LABELS + 9))
    with pytest.raises(TPNError, match="train and test differ"):
        images_from(train=(PIXELS, LABELS), test=(RNG.normal(size=(12, 8)), LABELS + 9))
    with pytest.raises(TPNError, match="same type"):
        images_from(train=(PIXELS, LABELS), test=(PIXELS.astype(np.float32), LABELS + 9))
    images_from(train=(PIXELS, LABELS), test=(PIXELS / 255, LABELS + 9))
    with pytest.raises(TPNError, match="at least one"):
        images_from()
    with pytest.raises(TPNError, match="image_size must be"):
        images_from(train=(PIXELS, LABELS), image_size=0)


@pytest.mark.parametrize("wrong", [np.zeros((4, 10)), np.zeros((4, 2, 2)), np.zeros((4, 2, 2, 1), np.int64)])
def test_a_split_is_made_of_images_only(wrong):
    with pytest.raises(TPNError, match="tpn.images_from"):
        Split("train", wrong, ("a",), np.array([0, 4]))


@pytest.mark.parametrize("wrong", [Fake([], []), (PIXELS, LABELS), PIXELS, 3])
def test_data_instead_of_a_name_is_sent_to_images_from(wrong):
    with pytest.raises(TPNError, match="tpn.images_from"):
        unwrap(open_images)(wrong)  # without the type checks of the tests


def test_open_images_are_taken_as_they_are(tmp_path):
    images = images_from(train=(PIXELS, LABELS))
    assert open_images(images) is images
    assert open_images(images, 6) is images
    with pytest.raises(TPNError, match="6 pixels"):
        open_images(images, 7)
    with pytest.raises(TPNError, match="folder:"):
        unwrap(open_images)(tmp_path)
    with pytest.raises(TPNError, match="pass the data again"):
        open_images(images.spec)


def test_reading_a_dataset_shows_progress_unless_told_not_to(capsys, monkeypatch):
    monkeypatch.setattr("tpn.progress.SECONDS_BETWEEN_LINES", 0)
    data = Fake(list(PIXELS), LABELS.tolist())
    images_from(train=data)
    assert "reading train" in capsys.readouterr().err
    images_from(train=data, progress=False)
    assert capsys.readouterr().err == ""
