"""tpn predict: a trained method, a few labelled images of new classes, and images to tell apart."""

import json
import os

import numpy as np
import pytest
import torch

import tpn
from tests.images.making import encode, write_folder
from tests.tiny import tiny
from tpn.cli import main
from tpn.episodes.task import Task
from tpn.methods import _inference

CLASSES = ["big bird", "zebra 斑馬", "ёж"]
SHOTS = [3, 1, 2]


@pytest.fixture
def place(tmp_path, monkeypatch, drawings):
    """Drawings as files: labelled ones of three classes, a different number of each, and three of each to classify."""
    monkeypatch.chdir(tmp_path)
    for class_, (name, shots) in enumerate(zip(CLASSES, SHOTS, strict=True)):
        rows = drawings.starts[class_] + np.arange(6)
        contents = [encode(drawings.images[row, :, :, 0]) for row in rows]
        write_folder(tmp_path / "support" / name, {f"{i}.png": contents[i] for i in range(shots)})
        write_folder(tmp_path, {f"new {class_} {i}.png": contents[3 + i] for i in range(3)})
    return tmp_path


FILES = [f"new {class_} {index}.png" for class_ in range(3) for index in range(3)]


@pytest.fixture(scope="module")
def maml_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maml")
    assert main(["train", "maml", *tiny(inner_steps=1, test_steps=2), "--out", str(folder / "run")]) == 0
    return folder / "run"


def expected(run, drawings):
    """The same from the drawings themselves: no files, no commands."""
    support = [drawings.starts[class_] + index for class_ in range(3) for index in range(SHOTS[class_])]
    queries = [drawings.starts[class_] + 3 + index for class_ in range(3) for index in range(3)]
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor(SHOTS))
    method = tpn.load(run)
    with torch.no_grad():
        inputs = method.embed(drawings.load(np.array(support + queries)))
    scores = method.score(Task(inputs[None], labels[None], 3, 9))[0]
    return torch.softmax(scores, -1).detach().numpy()


def results(capsys, *arguments):
    capsys.readouterr()
    assert main(["predict", *map(str, arguments), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    return json.loads(captured.out), captured.err


def table(result):
    return np.array([[one["probabilities"][class_] for class_ in CLASSES] for one in result["predictions"]])


def test_it_says_what_the_method_says(place, runs, drawings, capsys):
    result, _ = results(capsys, runs / "one", *FILES, "--support", "support", "--threads", 1)
    assert (result["method"], result["transduction"]) == ("tpn", "yes")
    assert [one["path"] for one in result["predictions"]] == FILES
    probabilities = table(result)
    np.testing.assert_allclose(probabilities, expected(runs / "one", drawings), atol=1e-5)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    for one, row in zip(result["predictions"], probabilities, strict=True):
        assert one["label"] == CLASSES[row.argmax()]
        assert one["confidence"] == pytest.approx(row.max())


def test_in_words_there_is_a_line_for_each_file(place, runs, capsys):
    result, _ = results(capsys, runs / "one", *FILES, "--support", "support")
    assert main(["predict", str(runs / "one"), "--support", "support", *FILES]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    for line, one in zip(lines, result["predictions"], strict=True):
        assert line.startswith(one["label"])
        assert line.endswith(f"{100 * one['confidence']:.1f} %  {one['path']}")


def test_a_method_that_adapts(place, maml_run, drawings, capsys):
    result, _ = results(capsys, maml_run, *FILES, "--support", "support", "--threads", 1)
    assert (result["method"], result["transduction"]) == ("maml", "bn")
    np.testing.assert_allclose(table(result), expected(maml_run, drawings), atol=1e-4)


def test_many_images_are_embedded_a_few_at_a_time(place, runs, capsys, monkeypatch):
    at_once, _ = results(capsys, runs / "one", *FILES, "--support", "support")
    monkeypatch.setattr(_inference, "IMAGES_AT_ONCE", 2)
    in_parts, _ = results(capsys, runs / "one", *FILES, "--support", "support")
    np.testing.assert_allclose(table(in_parts), table(at_once), atol=1e-5)


def test_what_cannot_be_read_is_noted_and_the_rest_goes_on(place, runs, capsys):
    (place / "broken.png").write_bytes(b"\x89PNG and no more")
    os.mkfifo(place / "pipe.png")
    given = ["broken.png", FILES[0], "nowhere.png", "support", "pipe.png", FILES[1]]
    result, notes = results(capsys, runs / "one", *given, "--support", "support")
    assert [one["path"] for one in result["predictions"]] == FILES[:2]
    assert "Note: broken.png is left out: it cannot be read" in notes
    assert "Note: nowhere.png is left out: No such file" in notes
    assert "Note: support is left out" in notes
    assert "Note: pipe.png is left out" in notes


def test_when_nothing_can_be_read(place, runs, capsys):
    assert main(["predict", str(runs / "one"), "--support", "support", "nowhere.png"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith("tpn: None of the files can be read")


def test_without_a_run_the_good_network_is_taken(tmp_path, capsys):
    """As `tpn label` does it: the best network at hand, and labels that propagate."""
    rng = np.random.default_rng(0)
    colours = {"red": (220, 40, 30), "green": (30, 200, 60), "blue": (40, 60, 220)}
    truth = {}
    for name, colour in colours.items():
        for index in range(6):
            pixels = np.clip(rng.normal(colour, 25, (40, 40, 3)), 0, 255).astype(np.uint8)
            folder = tmp_path / "support" / name if index < 2 else tmp_path / "new"
            write_folder(folder, {f"{name[0]}{index}.png": encode(pixels)})
            truth |= {str(folder / f"{name[0]}{index}.png"): name} if index >= 2 else {}
    (tmp_path / "new" / "broken.png").write_bytes(b"nothing")
    files = [*truth, str(tmp_path / "new" / "broken.png")]
    result, notes = results(capsys, *files, "--support", tmp_path / "support", "--cache", tmp_path / "cache")
    assert result["method"] == "LabelPropagator on efficientnet-lite0"
    assert {one["path"]: one["label"] for one in result["predictions"]} == truth
    assert "Network: efficientnet-lite0" in notes
    assert "Note: 1 image cannot be read" in notes
    for one in result["predictions"]:
        assert sum(one["probabilities"].values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["{one}", FILES[0], "--support", "support", "--backbone", "efficientnet-lite0"], "without a run"),
        ([FILES[0], "--support", "broken", "--backbone", "mini-conv4"], "bad.png cannot be used"),
        ([FILES[0], "--support", "support", "--backbone", "unknown"], "Unknown backbone 'unknown'"),
        (["{one}", "--support", "support"], "at least one image"),
        (["{one}", FILES[0]], "required"),
        (["nowhere", FILES[0], "--support", "support"], "nowhere does not exist"),
        (["support", FILES[0], "--support", "support"], "support is not a run folder"),
        (["{one}", FILES[0], "--support", "nowhere"], "nowhere does not exist"),
        (["{one}", FILES[0], "--support", FILES[0]], "is a file, not a folder"),
        (["{one}", FILES[0], "--support", "support/ёж"], "two classes; it has 0"),
        (["{one}", FILES[0], "--support", "single"], "two classes; it has 1"),
        (["{one}", FILES[0], "--support", "empty"], "There are no images in empty"),
        (["{one}", FILES[0], "--support", "broken"], "bad.png cannot be used: it cannot be read as an image"),
        (["{one}", FILES[0], "--support", "support", "--device", "tpu"], "tpu"),
        (["{maml}", FILES[0], "--support", "two"], "was trained for 3 classes"),
    ],
)
def test_wrong_input(place, runs, maml_run, refused, arguments, complaint):
    content = (place / FILES[0]).read_bytes()
    (place / "empty").mkdir()
    write_folder(place / "single", {"only/1.png": content, "2.png": content})
    write_folder(place / "two", {"a/1.png": content, "b/1.png": content})
    write_folder(place / "broken", {"a/1.png": content, "b/bad.png": content[:50]})
    assert complaint in refused("predict", *(one.format(one=runs / "one", maml=maml_run) for one in arguments))


def test_a_labelling_is_saved_and_applied_to_new_images(place, capsys, monkeypatch, refused):
    monkeypatch.setenv("TPN_CACHE", str(place / "cache"))
    few = ["path,label", *(f"{name}/0.png,{name}" for name in CLASSES)]
    (place / "few.csv").write_text("\n".join(few), encoding="utf-8")
    options = ["--backbone", "mini-conv4", "--no-page", "--save", "saved.tpn"]
    assert main(["label", "support", "--labels", "few.csv", *options]) == 0
    found, _ = results(capsys, "--labelling", "saved.tpn", *FILES)
    assert [one["path"] for one in found["predictions"]] == FILES
    assert all(0 <= one["confidence"] <= 1 for one in found["predictions"])
    again, _ = results(capsys, "--labelling", "saved.tpn", *FILES)
    assert again == found
    assert "saved.tpn exists" in refused("label", "support", "--labels", "few.csv", *options, "--out", "x.csv")
    content = (place / "saved.tpn").read_bytes()
    (place / "saved.tpn").write_bytes(content[:-100])
    assert "damaged" in refused("predict", "--labelling", "saved.tpn", *FILES)
    assert "--support" in refused("predict", *FILES)


def test_with_a_shipped_run_the_better_network_is_named(place, capsys):
    """It is small: photographs of fruit were right half of the time, with confidence."""
    _, notes = results(capsys, "mini-conv4", *FILES, "--support", "support")
    assert "leave out the run" in notes
