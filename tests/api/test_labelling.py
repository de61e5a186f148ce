"""A folder of images and few labels, from Python."""

import json

import numpy as np
import pytest
from PIL import Image

import tpn
from tpn.cli import main

COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 60, 210)}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Images of three colours in one folder."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        for index in range(6):
            pixels = np.array(colour) + rng.integers(-35, 35, (32, 32, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{name}-{index}.png")
    return folder


def truth(path):
    return path.partition("-")[0]


def test_label_a_folder_in_memory_and_by_command(photos, tmp_path, capsys):
    given = {f"{name}-0.png": name for name in COLOURS}
    cache = tmp_path / "cache"
    before = sorted(photos.iterdir())
    found = tpn.label_folder(photos, labels=given, suggest=2, cache=cache, threads=1, progress=False)
    assert sorted(photos.iterdir()) == before, "nothing is written"
    assert np.mean([label == truth(path) for path, label in zip(found.paths, found.labels, strict=True)]) > 0.9
    assert len(found.suggestions) == 2
    assert not set(found.suggestions) & set(given)
    assert list(found.to_dataframe().columns)[:3] == ["path", "label", "confidence"]
    (tmp_path / "few.csv").write_text("path,label\n" + "".join(f"{path},{label}\n" for path, label in given.items()))
    command = ["label", str(photos), "--labels", str(tmp_path / "few.csv"), "--out", str(tmp_path / "out.csv")]
    capsys.readouterr()
    assert main([*command, "--suggest", "2", "--cache", str(cache), "--threads", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    kept = ("pictures", "classes", "mean_confidence", "suggestions", "unreached")
    assert {name: printed[name] for name in kept} == {name: found.to_dict()[name] for name in kept}
    found.write_csv(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


def test_features_of_ones_own(photos):
    found = tpn.label_folder(
        photos,
        labels={f"{name}-0.png": name for name in COLOURS},
        features=np.stack([np.asarray(Image.open(file)).mean((0, 1)) for file in sorted(photos.iterdir())]),
        progress=False,
    )
    assert list(found.labels) == [truth(path) for path in found.paths]


def test_a_backbone_of_ones_own(photos, tmp_path):
    from torch import nn

    tpn.register_backbone("mean-colour", lambda: nn.AdaptiveAvgPool2d(1))
    labels = {f"{name}-0.png": name for name in COLOURS}
    found = tpn.label_folder(photos, labels=labels, backbone="mean-colour", cache=tmp_path, progress=False)
    assert list(found.labels) == [truth(path) for path in found.paths]


def test_predict_single_images(photos, capsys):
    support = {name: [photos / f"{name}-0.png", photos / f"{name}-1.png"] for name in COLOURS}
    files = [photos / f"{name}-5.png" for name in COLOURS]
    predictions = tpn.predict("mini-conv4", files, support, threads=1, progress=False)
    assert predictions.labels == list(COLOURS)
    np.testing.assert_allclose(predictions.probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(predictions.confidence, predictions.probabilities.max(1))
    assert [row["label"] for row in predictions.rows()] == predictions.labels
    assert str(predictions).count("%") == 3
