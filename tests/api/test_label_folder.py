"""Labelling a folder from Python: what is in memory, what is written, and the same as the command."""

import csv
import inspect
import json
import os

import numpy as np
import pytest
from PIL import Image

import tpn
from tpn.cli import main

COLOURS = {"blue": (40, 40, 210), "red": (210, 40, 40)}
NAMES = [f"{colour} {index}.png" for colour in COLOURS for index in range(10)]
LABELS = {"blue 0.png": "blue", "red 0.png": "red"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with images of two colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TPN_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    os.mkdir("photos")
    for name in NAMES:
        pixels = np.array(COLOURS[name.split()[0]]) + rng.integers(-30, 30, (24, 24, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(f"photos/{name}")
    return tmp_path


@pytest.fixture
def features(place):
    return np.stack([np.asarray(Image.open(f"photos/{name}"), float).mean((0, 1)) for name in NAMES])


def truth(found):
    return [path.split()[0] for path in found.paths]


def test_the_labels_are_in_memory_and_nothing_is_written(place, features, capsys):
    before = sorted(os.listdir())
    found = tpn.label_folder("photos", labels=LABELS, features=features, suggest=3)
    assert found.paths == sorted(NAMES)
    assert found.labels == truth(found)
    assert found.confidence.shape == (20,)
    assert [found.paths[index] for index in np.flatnonzero(found.given)] == list(LABELS)
    assert len(set(found.suggestions) - set(LABELS)) == 3
    assert found.files == {}
    assert sorted(os.listdir()) == before
    assert capsys.readouterr().out == "", "it prints only what it is asked to"
    assert "blue" in str(found)
    assert len(found.to_dataframe()) == 20


def test_it_is_what_the_command_does(place, features, capsys):
    np.save("features.npy", features + np.random.default_rng(1).normal(0, 300, features.shape))
    with open("few.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([("path", "label"), *LABELS.items()])
    found = tpn.label_folder("photos", labels="few.csv", features="features.npy", neighbours=5, class_prior="none")
    least = float(np.median(found.confidence))
    options = ["--min-confidence", str(least), "--suggest", "4", "--neighbours", "5", "--class-prior", "none"]
    assert main(["label", "photos", "--labels", "few.csv", "--features", "features.npy", "--json", *options]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = tpn.label_folder(
        "photos", labels="few.csv", features="features.npy", min_confidence=least, suggest=4, neighbours=5,
        class_prior="none", out="again.csv", page="again.html",
    )  # fmt: skip
    changes = ("files", "seconds")
    assert {**found.to_dict(), **dict.fromkeys(changes)} == {**printed, **dict.fromkeys(changes)}
    assert "" in found.labels, "some are doubtful"
    for one, other in (("labels.csv", "again.csv"), ("labels-suggestions.csv", "again-suggestions.csv")):
        assert (place / one).read_bytes() == (place / other).read_bytes()
    assert (place / "labels.html").read_text() == (place / "again.html").read_text()
    found.write_csv("third.csv")
    assert (place / "third.csv").read_bytes() == (place / "labels.csv").read_bytes()


def test_a_network_embeds_the_images_once(place, capsys):
    found = tpn.label_folder("photos", labels=LABELS, backbone="mini-conv4", progress=False)
    assert np.mean(np.array(found.labels) == truth(found)) > 0.9
    assert found.backbone == "mini-conv4"
    again = tpn.label_folder("photos", labels=LABELS, backbone="mini-conv4", threads=1, device="cpu")
    np.testing.assert_array_equal(again.confidence, found.confidence)
    assert capsys.readouterr().err == ""


def test_remarks_are_warnings(place, features):
    (place / "photos" / "notes.txt").write_text("…")
    with pytest.warns(tpn.errors.TPNWarning, match="notes.txt"):
        tpn.label_folder("photos", labels=LABELS, features=features)


def test_options_are_documented_keywords():
    keywords = inspect.signature(tpn.label_folder).parameters
    assert keywords["rounds"].default == 2
    assert keywords["out"].default is None
    assert "rounds : int, default=2" in tpn.label_folder.__doc__
    with pytest.raises(TypeError, match=r"neighbors.*neighbours"):
        tpn.label_folder("photos", neighbors=5)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"min_confidence": 2}, "^min_confidence must be"),
        ({"class_prior": "even"}, "^class_prior must be"),
        ({"labels": {"blue 0.png": "blue"}}, "All labels are 'blue'"),
        ({"labels": {"green.png": "green"}}, "green.png"),
        ({"features": np.ones((3, 2))}, "3 rows"),
        ({"features": np.full((20, 2), np.nan)}, "row 1"),
        ({"device": "tpu"}, "device 'tpu'"),
        ({"out": "nowhere/labels.csv"}, "nowhere"),
    ],
)
def test_what_is_wrong_is_told_in_the_words_of_python(place, features, options, complaint):
    with pytest.raises(tpn.TPNError, match=complaint):
        tpn.label_folder("photos", **{"labels": LABELS, "features": features, **options})
