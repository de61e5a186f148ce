"""The calls behind tpn data."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.images import making
from tpn.cli import main
from tpn.errors import TPNError, TPNWarning
from tpn.images.images_from import images_from
from tpn.images.opening import open_images
from tpn.workflows.data import data_info, prepare_data, show_data

CLASSES = {"train": ["ant", "bee", "cat"], "val": ["emu", "fox"], "test": ["hen", "ibis"]}
FEATURES = np.random.default_rng(0).normal(size=(30, 8)), np.arange(30) % 3


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("TPN_CACHE", str(tmp_path / "cache"))
    return f"folder:{making.write_folder(tmp_path / 'own', making.as_files(making.make_images(4, 20, CLASSES)))}"


def test_info_before_and_after_preparing(own, tmp_path):
    before = data_info(own, image_size=16)
    assert before.splits["train"] == {"classes": 3, "images": 12}
    assert (before.prepared, before.store, before.mean) == (False, None, None)
    assert not (tmp_path / "cache").exists()
    prepared = prepare_data(own, image_size=16, progress=False)
    assert prepared == data_info(own, image_size=16) == data_info(open_images(own, 16))
    assert prepared.splits == before.splits
    assert prepared.store is not None
    assert prepared.store.parent == tmp_path / "cache"
    assert prepared.store_bytes >= 28 * 16 * 16 * 3
    assert len(prepared.mean or ()) == 3


def test_the_command_prints_what_the_call_returns(own, capsys):
    prepare_data(own, image_size=16, progress=False)
    for arguments in (["quickdraw"], [own], [own, "--image-size", "16"]):
        size = 16 if "--image-size" in arguments else None
        expected = data_info(arguments[0], image_size=size)
        capsys.readouterr()
        assert main(["data", "info", *arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(expected.to_dict()))
        assert main(["data", "info", *arguments]) == 0
        assert capsys.readouterr().out == f"{expected}\n"


def test_problems_are_listed_and_strict_refuses_them(own, tmp_path):
    (tmp_path / "own/train/ant/broken.jpg").write_bytes(b"not an image")
    with pytest.warns(TPNWarning, match=r"broken\.jpg"):
        prepared = prepare_data(own, image_size=16, progress=False)
    assert ["broken.jpg" in problem for problem in prepared.problems] == [True]
    assert "broken.jpg" in str(prepared)
    for call in (data_info, prepare_data):
        with pytest.raises(TPNError, match="strict"):
            call(own, image_size=16, strict=True)
    with pytest.raises(TPNError, match="strict"):
        data_info(open_images(own, 16), strict=True)


def test_info_as_a_table():
    frame = data_info("quickdraw").to_dataframe()
    assert frame["split"].tolist() == ["train", "val", "test"]
    assert frame["classes"].tolist() == [215, 50, 80]


def test_images_and_features_in_memory():
    pixels = np.random.default_rng(0).integers(0, 256, (12, 9, 9, 3), dtype=np.uint8)
    info = data_info(images_from(test=(pixels, np.arange(12) % 4)))
    assert (info.image_size, info.channels, info.splits) == (9, 3, {"test": {"classes": 4, "images": 12}})
    features = images_from(test=FEATURES, name="mine")
    assert "8 features" in str(prepare_data(features))
    with pytest.raises(TPNError, match="features"):
        show_data(features, "x.png", split="test", way=3, shot=1, query=1)


def test_show_draws_an_episode(own, tmp_path):
    out = show_data(own, tmp_path / "sheet.png", image_size=16, way=2, shot=1, query=2, progress=False)
    assert out == tmp_path / "sheet.png"
    flags = ["--image-size", "16", "--way", "2", "--shot", "1", "--query", "2", "--out", str(tmp_path / "b.png")]
    assert main(["data", "show", own, *flags]) == 0
    np.testing.assert_array_equal(np.asarray(Image.open(out)), np.asarray(Image.open(tmp_path / "b.png")))
    other = show_data(own, str(tmp_path / "other.png"), image_size=16, way=2, shot=1, query=2, seed=1)
    assert out.read_bytes() != other.read_bytes()


def test_floats_are_drawn_like_the_bytes_they_stand_for(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 9, 9), dtype=np.uint8)
    drawn = []
    for form in (pixels, pixels.astype(np.float32) / 255):
        images = images_from(train=(form, np.arange(12) % 2))
        drawn.append(np.asarray(Image.open(show_data(images, tmp_path / "a.png", way=2, shot=1, query=2))))
    np.testing.assert_array_equal(*drawn)


def test_wrong_arguments(own):
    with pytest.raises(TypeError, match="Did you mean 'image_size'"):
        data_info("quickdraw", image_sise=3)
    with pytest.raises(TPNError, match="image_size must be"):
        data_info(own, image_size=0)
    with pytest.raises(TPNError, match="images_from"):
        data_info(FEATURES)
    with pytest.raises(TPNError, match="folder:"):
        data_info(Path("photos"))
    with pytest.raises(TPNError, match="way must be"):
        show_data("quickdraw", "x.png", way=1)
