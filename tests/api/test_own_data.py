"""Any data: a torch Dataset, arrays, features; in train, evaluate and compare."""

import numpy as np
import pytest
import torch
from PIL import Image

import tpn
from tests.api.conftest import TINY

CLASSES, PER_CLASS, SIZE = 5, 8, 16


def own_images(first_class, seed):
    """Images whose classes differ in their colour, in a random order, with text labels."""
    rng = np.random.default_rng(seed)
    colours = rng.integers(0, 200, (CLASSES, 1, 1, 3))
    labels = rng.permutation(np.repeat(np.arange(CLASSES), PER_CLASS))
    images = colours[labels] + rng.integers(0, 55, (len(labels), SIZE, SIZE, 3))
    return images.astype(np.uint8), np.array([f"class {first_class + label}" for label in labels])


class OwnDataset(torch.utils.data.Dataset):
    """As torchvision's datasets are: items of (image, class number), and the names of the classes."""

    def __init__(self, images, labels, kind):
        classes, self.targets = np.unique(labels, return_inverse=True)
        self.classes = classes.tolist()
        self.images, self.kind = images, kind

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if self.kind == "pil":
            image = Image.fromarray(image)
        elif self.kind == "tensor":
            image = torch.from_numpy(image).permute(2, 0, 1).float() / 255
        return image, int(self.targets[index])


@pytest.fixture(scope="module")
def arrays():
    return {split: own_images(10 * place, place) for place, split in enumerate(("train", "val", "test"))}


@pytest.fixture(scope="module")
def run(arrays, tmp_path_factory):
    out = tmp_path_factory.mktemp("own") / "run"
    return tpn.train("protonet", tpn.images_from(**arrays), out=out, **TINY)


def test_arrays(run, arrays):
    result = tpn.evaluate(run, tpn.images_from(test=arrays["test"]), episodes=20, progress=False)
    assert result.accuracy > 0.8, "the classes differ in colour"
    assert result.data.startswith("arrays:")
    with pytest.raises(tpn.TPNError, match="given from Python"):
        tpn.evaluate(run)
    with pytest.raises(tpn.TPNError, match="no val split"):
        tpn.train("protonet", tpn.images_from(train=arrays["train"]), **TINY)


def test_the_order_and_layout_of_arrays_do_not_matter(run, arrays):
    images, labels = arrays["test"]
    expected = tpn.evaluate(run, tpn.images_from(test=(images, labels)), episodes=5, progress=False).accuracies
    channels_first = torch.from_numpy(images).permute(0, 3, 1, 2)
    for other in (channels_first, channels_first.float() / 255):
        accuracies = tpn.evaluate(run, tpn.images_from(test=(other, labels)), episodes=5, progress=False).accuracies
        np.testing.assert_array_equal(accuracies, expected)


@pytest.mark.parametrize("kind", ["pil", "array", "tensor"])
def test_a_dataset_gives_the_same_run_as_its_arrays(run, arrays, kind, tmp_path):
    datasets = {split: OwnDataset(*data, kind) for split, data in arrays.items()}
    data = tpn.images_from(**datasets, progress=False)
    again = tpn.train("protonet", data, out=tmp_path / "run", **TINY)
    np.testing.assert_allclose(
        [line["val_accuracy"] for line in again.metrics], [line["val_accuracy"] for line in run.metrics]
    )
    one, other = tpn.load(run).state_dict(), tpn.load(again).state_dict()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-4, atol=1e-5)


def test_a_run_on_own_data_resumes_exactly_and_on_that_data_only(run, arrays, tmp_path):
    data = tpn.images_from(**arrays)
    tpn.train("protonet", data, out=tmp_path / "run", **{**TINY, "episodes": 3})
    with pytest.raises(tpn.TPNError, match="other images"):
        tpn.train("protonet", "quickdraw", out=tmp_path / "run", resume=True, progress=False)
    resumed = tpn.train(data=data, out=tmp_path / "run", resume=True, episodes=6, threads=1, progress=False)
    assert resumed.metrics == run.metrics
    one, other = tpn.load(run).state_dict(), tpn.load(resumed).state_dict()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_compare_on_own_data(run, arrays, tmp_path):
    data = tpn.images_from(**arrays)
    other = tpn.train("label-propagation", data, out=tmp_path / "other", **TINY)
    comparison = tpn.compare({"prototypes": run, "propagation": other}, data, episodes=5, progress=False)
    assert set(comparison.results) == {"prototypes", "propagation"}


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(8, 32))
    labels = rng.permutation(np.repeat(np.arange(8), 40))
    return middles[labels] + rng.normal(size=(320, 32)), labels


@pytest.mark.parametrize("method", ["protonet", "classifier-baseline", "label-propagation"])
def test_a_head_on_features_alone(features, method):
    result = tpn.evaluate(method, tpn.images_from(test=features), way=5, shot=1, episodes=200, progress=False)
    assert result.accuracy > 0.7
    assert result.run is None


def test_thousands_of_tasks_against_a_nearest_mean_in_numpy(features):
    data = tpn.images_from(test=features)
    result = tpn.evaluate("protonet", data, way=5, shot=3, query=5, episodes=2_000, progress=False)
    assert result.accuracies.shape == (2_000,)
    values, labels = features
    rng, right = np.random.default_rng(1), []
    for _ in range(600):
        classes = rng.choice(8, 5, replace=False)
        rows = np.stack([rng.choice(np.flatnonzero(labels == class_), 8, replace=False) for class_ in classes])
        means, queries = values[rows[:, :3]].mean(1), values[rows[:, 3:]].reshape(25, 32)
        nearest = ((queries[:, None] - means[None]) ** 2).sum(-1).argmin(1)
        right.append((nearest == np.repeat(np.arange(5), 5)).mean())
    assert result.accuracy == pytest.approx(np.mean(right), abs=0.015)


def test_settings_of_a_head_are_keywords(features):
    data = tpn.images_from(test=features)
    near, far = (
        tpn.evaluate("label-propagation", data, way=5, shot=1, episodes=20, sigma=sigma, progress=False)
        for sigma in (0.3, 10.0)
    )
    assert (near.accuracies != far.accuracies).any()
    with pytest.raises(TypeError, match="unexpected keyword argument 'sigm'"):
        tpn.evaluate("label-propagation", data, sigm=1.0)


def test_what_needs_training_or_images_says_so(features, arrays, tmp_path):
    data = tpn.images_from(test=features)
    with pytest.raises(tpn.TPNError, match="weights of its own"):
        tpn.evaluate("tpn", data)
    with pytest.raises(tpn.TPNError, match=r"train it first.*features"):
        tpn.evaluate("protonet", tpn.images_from(test=arrays["test"]))
    with pytest.raises(tpn.TPNError, match="feature maps"):
        tpn.train("relation-net", tpn.images_from(train=features, val=features, labels_restart=True), out=tmp_path)


def test_length_scales_are_learned_on_features(features, tmp_path):
    data = tpn.images_from(train=features, val=features, test=features, labels_restart=True)
    tiny = {name: value for name, value in TINY.items() if name != "backbone"}
    run = tpn.train(
        "tpn", data, out=tmp_path / "run", k=5, **{**tiny, "query": 12, "episodes": 100, "validate_every": 50}
    )
    assert run.config.settings.backbone == "identity"
    assert tpn.evaluate(run, data, episodes=20, progress=False).accuracy > 0.6
    with pytest.raises(tpn.TPNError, match="nothing to train"):
        tpn.train("protonet", data, out=tmp_path / "other", **tiny)
