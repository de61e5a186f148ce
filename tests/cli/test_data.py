"""tpn data, and training on images of one's own."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.images import making
from tests.images.making import as_files, encode, make_images
from tpn.cli import main
from tpn.runs.folder import Run

CLASSES = {
    "train": ["ant", "bee", "cat", "dog"],
    "val": ["emu", "fox", "gnu"],
    "test": ["hen", "ibis", "jay"],
}
TINY = ["--way", "2", "--shot", "1", "--query", "2", "--episodes", "2", "--validation-episodes", "2", "--threads", "1"]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of images, and a cache of its own."""
    monkeypatch.setenv("TPN_CACHE", str(tmp_path / "cache"))
    return making.write_folder(tmp_path / "animals", as_files(make_images(6, 24, CLASSES)))


def said(capsys, *arguments):
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 0
    return capsys.readouterr()


def test_info_prepare_and_info_again(own, capsys):
    before = json.loads(said(capsys, "data", "info", f"folder:{own}", "--image-size", 16, "--json").out)
    assert before["splits"] == {
        "train": {"classes": 4, "images": 24},
        "val": {"classes": 3, "images": 18},
        "test": {"classes": 3, "images": 18},
    }
    assert before["prepared"] is False
    text = said(capsys, "data", "info", f"folder:{own}").out
    assert "train        4       24\n" in text
    assert "not prepared" in text
    prepared = said(capsys, "data", "prepare", f"folder:{own}", "--image-size", 16).out
    assert "Ready in " in prepared
    after = json.loads(said(capsys, "data", "info", f"folder:{own}", "--image-size", 16, "--json").out)
    assert after["prepared"] is True
    assert after["splits"] == before["splits"]
    assert Path(after["store"]).is_dir()
    assert len(after["mean"]) == len(after["std"]) == 3
    assert "no preparation" in said(capsys, "data", "prepare", "quickdraw").out


def test_show_draws_an_episode(own, capsys, tmp_path):
    sheet = tmp_path / "sheet.png"
    options = ["--way", 3, "--shot", 1, "--query", 2, "--unlabelled", 1, "--distractors", 1, "--labelled-share", 0.5]
    said(capsys, "data", "show", f"folder:{own}", "--image-size", 16, "--out", sheet, *options)
    with Image.open(sheet) as drawn:
        assert min(drawn.size) > 200
        colours = np.asarray(drawn.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(colours, axis=0)) > 500, "photographs are on it"
    said(capsys, "data", "show", "quickdraw", "--split", "test", "--out", tmp_path / "drawings.svg")
    assert (tmp_path / "drawings.svg").read_text().startswith("<?xml")


def test_a_run_on_own_images_can_be_tested_resumed_and_moved(own, capsys, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    data = ["--data", "folder:animals", "--image-size", 16]
    said(capsys, "train", "tpn", *data, *TINY, "--augment", "crop", "flip", "jitter")
    run = Path("runs/tpn-folder-animals-2way-1shot-seed0")
    config = Run(run).read_config()
    assert config.data == f"folder:{own}"
    assert (config.channels, config.image_size, config.train_classes) == (3, 16, 4)
    assert config.settings.augment == ("crop", "flip", "jitter")
    monkeypatch.chdir("/")
    result = json.loads(said(capsys, "evaluate", tmp_path / run, "--episodes", 3, "--json").out)
    assert result["data"] == f"folder:{own}"
    said(capsys, "train", "tpn", "--resume", "--out", tmp_path / run, "--episodes", 4)
    own.rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "cache")
    assert "animals does not exist" in refused("evaluate", tmp_path / run)
    moved = ["--data", f"folder:{tmp_path / 'moved'}"]
    said(capsys, "evaluate", tmp_path / run, "--episodes", 3, *moved)
    said(capsys, "train", "tpn", "--resume", "--out", tmp_path / run, "--episodes", 5, *moved)
    assert Run(tmp_path / run).read_config().settings.episodes == 5


def test_changed_images_are_noticed(own, capsys, tmp_path, refused):
    run = tmp_path / "run"
    said(capsys, "train", "tpn", "--data", f"folder:{own}", "--image-size", 16, *TINY, "--out", run)
    (own / "train/ant/0.png").write_bytes(encode(np.zeros((24, 24, 3), np.uint8)))
    os.utime(own / "train/ant/0.png", (1, 1))
    assert "was begun with other images" in refused("train", "tpn", "--resume", "--out", run, "--episodes", 9)
    notes = said(capsys, "evaluate", run, "--episodes", 2).err
    assert notes.startswith("Note: ")
    assert "have changed since" in notes


def test_what_is_left_out_is_noted_and_strict_refuses(own, capsys, tmp_path, refused):
    (own / "train/ant/broken.jpg").write_bytes(b"no image")
    notes = said(capsys, "data", "prepare", f"folder:{own}", "--image-size", 16).err
    assert "Note: folder:" in notes
    assert "1 image cannot be read" in notes
    assert "train/ant/broken.jpg" in notes
    assert "broken.jpg" in said(capsys, "data", "info", f"folder:{own}", "--image-size", 16).out
    assert "--strict" in refused("data", "prepare", f"folder:{own}", "--image-size", 16, "--strict")
    out = tmp_path / "run"
    assert "--strict" in refused(
        "train", "tpn", "--data", f"folder:{own}", "--image-size", 16, "--strict", *TINY, "--out", out
    )
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["info", "folder:nowhere"], "nowhere does not exist"),
        (["info", "folder:"], "folder:PATH"),
        (["info", "mini-imagenet"], "mini-imagenet:PATH"),
        (["prepare", "imagenet:x"], "Unknown data 'imagenet:x'"),
        (["prepare", "folder:animals", "--image-size", "0"], "--image-size must be between 1 and 1024"),
        (["prepare", "folder:animals", "--class-seed", "-1"], "--class-seed must be at least 0"),
        (["prepare", "mini-imagenet:animals/train"], "none of the layouts of mini-imagenet"),
        (["info", "folder:animals", "--image-size", "5000"], "--image-size must be between 1 and 1024"),
        (["show", "folder:animals"], "required"),
        (["show", "folder:animals", "--out", "x.txt"], "the ending must be one of"),
        (["show", "folder:animals", "--out", "x.png"], "needs 5 classes, but the train split has 4"),
        (
            ["show", "folder:animals", "--out", "x.png", "--way", "2"],
            "needs 20 images of each class",
        ),
    ],
)
def test_wrong_inputs(own, tmp_path, monkeypatch, refused, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert complaint in refused("data", *arguments)
    assert sorted(os.listdir(tmp_path)) in (["animals"], ["animals", "cache"])


COMMAND = """
import sys
from tpn.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code or 0
print(code, "torch" in sys.modules)
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["info", "--help"], 0),
        (["prepare", "--help"], 0),
        (["show", "--help"], 0),
        (["infos"], 2),
        (["info", "quickdraw", "--jsno"], 2),
        (["info"], 2),
        (["info", "cifar:here"], 2),
        (["prepare", "folder:"], 2),
        (["show", "cifar", "--out", "x.png"], 2),
        (["show", "quickdraw", "--out", "x.png", "--way", "1"], 2),
        (["prepare", "folder:animals", "--image-size", "0"], 2),
    ],
)
def test_help_and_wrong_arguments_answer_without_loading_torch(arguments, code):
    said = subprocess.run([sys.executable, "-c", COMMAND, "data", *arguments], capture_output=True, text=True)
    assert said.stdout.splitlines()[-1] == f"{code} False", said.stderr


def test_sizes_no_network_takes_are_refused_before_images_are_prepared(own, tmp_path, refused):
    complaint = refused("train", "tpn", "--data", f"folder:{own}", "--image-size", 15, *TINY, "--out", tmp_path / "run")
    assert "at least 16x16 pixels" in complaint
    assert not (tmp_path / "cache").exists()


def test_a_run_among_the_images_is_refused(own, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(own)
    assert "lies among the images" in refused("train", "tpn", "--data", "folder:.", "--image-size", 16, *TINY)
    assert sorted(os.listdir(own)) == ["test", "train", "val"]


def test_a_method_keeps_the_normalisation_of_its_training(own, capsys, tmp_path):
    import torch

    import tpn

    run = tmp_path / "run"
    said(capsys, "train", "tpn", "--data", f"folder:{own}", "--image-size", 16, *TINY, "--out", run)
    config, method = Run(run).read_config(), tpn.load(run)
    images = torch.rand(4, 3, 16, 16)
    expected = (images - torch.tensor(config.mean).view(3, 1, 1)) / torch.tensor(config.std).view(3, 1, 1)
    torch.testing.assert_close(method.backbone.normalise(images), expected)


@pytest.mark.skipif(
    "TPN_MINI_IMAGENET" not in os.environ, reason="TPN_MINI_IMAGENET does not name a copy of miniImageNet"
)
def test_the_real_mini_imagenet(capsys, tmp_path, monkeypatch):
    """Its counts, and that its file names are those of the lists that ship with the package."""
    monkeypatch.setenv("TPN_CACHE", str(tmp_path / "cache"))
    copy = Path(os.environ["TPN_MINI_IMAGENET"])
    facts = json.loads(said(capsys, "data", "info", f"mini-imagenet:{copy}", "--json").out)
    assert facts["splits"] == {
        "train": {"classes": 64, "images": 38400},
        "val": {"classes": 16, "images": 9600},
        "test": {"classes": 20, "images": 12000},
    }
    assert facts["problems"] == facts["remarks"] == []
    if copy.suffix == ".zip":
        with zipfile.ZipFile(copy) as archive:
            names = {Path(name).stem for name in archive.namelist() if name.endswith(".jpg")}
        from tpn.images.mini_imagenet import read_lists

        for classes in read_lists().values():
            for class_, ranks in classes.items():
                assert {f"{class_}{rank:08}" for rank in ranks} <= names
