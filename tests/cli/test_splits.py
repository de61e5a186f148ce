"""The semi-supervised protocol, and testing weights as another method."""

import json
import signal
import statistics
from dataclasses import fields, replace

import pytest

from tests.images.making import as_files, make_images, write_folder
from tests.tiny import flags, tiny
from tpn.cli import main
from tpn.methods._config import Config
from tpn.methods.maml import MAMLConfig
from tpn.runs.folder import Run
from tpn.runs.loading import load
from tpn.workflows import splits

TINY = tiny()
TESTS = flags(test_shots=(1, 2), test_unlabelled=3, test_episodes=5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("splits")
    for name, options in (("protonet", []), ("reptile", ["--episodes-per-step", "2", "--test-steps", "2"])):
        assert main(["train", name, *TINY, *options, "--out", str(folder / name)]) == 0
    return folder


def test_a_training_for_each_partition_and_the_mean_of_their_tests(tmp_path, capsys):
    out = tmp_path / "out"
    command = ["splits", "soft-kmeans", *TINY, *TESTS, "--distractors", "2", "--splits", "3", "--out", str(out)]
    assert main([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads((out / "results.json").read_text())
    assert [(test["shot"], test["unlabelled"], test["distractors"]) for test in result["tests"]] == [
        (1, 3, 2),
        (2, 3, 2),
    ]
    for seed in range(3):
        episode = Run(out / f"split-{seed}").read_config().episode
        assert (episode.split_seed, episode.unlabelled, episode.distractors) == (seed, 5, 2)
    for test in result["tests"]:
        each = list(test["of_each_split"].values())
        assert len(each) == 3
        assert test["accuracy"] == pytest.approx(statistics.mean(each))
        assert test["standard_error"] == pytest.approx(statistics.stdev(each) / 3**0.5)

    weights = [(out / f"split-{seed}" / "model.safetensors").read_bytes() for seed in range(3)]
    assert len(set(weights)) == 3
    assert main([*command, "--resume"]) == 0  # nothing is left to train
    captured = capsys.readouterr()
    assert "3-way 1-shot" in captured.out
    assert "standard error over the partitions" in captured.out
    assert json.loads((out / "results.json").read_text()) == result

    assert main(["evaluate", str(out / "split-1"), "--unlabelled", "3", "--episodes", "5", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one["accuracy"] == pytest.approx(result["tests"][0]["of_each_split"]["1"])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--splits", "0"], "--splits must be at least 1"),
        (["--test-shots", "1", "1"], "--test-shots must be one or more different numbers"),
        (["--test-shots", "0"], "--test-shots must be one or more different numbers"),
        (["--unlabelled", "0"], "All images have labels"),
        (["--labelled-share", "1"], "All images have labels"),
        (["--test-unlabelled", "500"], "needs 503 images of each class"),
        (["--test-unlabelled", "-1"], "--test-unlabelled must be at least 0, not -1"),
        (["--test-unlabelled", "0", "--distractors", "2"], "--test-unlabelled must be at least 1"),
        (["--test-episodes", "0"], "--test-episodes must be at least 1"),
    ],
)
def test_partitions_that_make_no_sense(refused, tmp_path, options, complaint):
    assert complaint in refused("splits", "tpn-semi", *TINY, "--out", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_partitions_where_there_is_something_else(refused, tmp_path, trained):
    call = ["splits", "tpn-semi", *TINY, "--splits", "2", "--out"]
    (tmp_path / "split-1").mkdir()
    (tmp_path / "split-1" / "letter.txt").write_text("dear reader")
    assert "holds files and is not a run folder" in refused(*call, tmp_path)
    assert not (tmp_path / "split-0").exists()
    (tmp_path / "results.json").write_text("mine")
    assert "has a results.json of something else" in refused(*call, tmp_path)
    assert (tmp_path / "results.json").read_text() == "mine"
    assert "results.json is a file" in refused(*call, tmp_path / "results.json")
    assert "is the folder of a single run" in refused(*call, trained / "protonet")


def test_partitions_that_were_stopped_go_on_by_the_name_of_their_folder(tmp_path, capsys, refused, monkeypatch):
    call = ["splits", "protonet", *TINY, "--labelled-share", "0.5", "--split-seed", "3", "--splits", "2"]
    call += ["--test-shots", "2", "--test-episodes", "5"]
    assert main([*call, "--out", str(tmp_path / "unbroken")]) == 0
    train, calls = splits.train_in_folder, []

    def stopped_in_the_second(*args):
        calls.append(train(*args))
        return replace(calls[-1], stopped_by=signal.SIGINT) if len(calls) == 2 else calls[-1]

    monkeypatch.setattr(splits, "train_in_folder", stopped_in_the_second)
    out = str(tmp_path / "broken")
    assert main([*call, "--out", out]) == 130
    assert f"tpn splits protonet --out {out} --resume" in capsys.readouterr().err
    assert "Continue them with --resume" in refused(*call, "--out", out)
    assert main(["splits", "protonet", "--out", out, "--resume", "--threads", "1"]) == 0
    results = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("broken", "unbroken")]
    assert results[0] == results[1]
    assert [(test["shot"], test["unlabelled"]) for test in results[0]["tests"]] == [(2, 0)]
    assert list(results[0]["tests"][0]["of_each_split"]) == ["3", "4"]
    (tmp_path / "broken" / "splits.json").write_text('{"splits": "many"}')
    assert "splits.json is damaged" in refused("splits", "protonet", "--out", out, "--resume")


def test_weights_can_be_tested_as_another_method_that_has_the_same(trained, capsys, refused):
    results = {}
    for run, name in (("reptile", None), ("reptile", "reptile-bn"), ("protonet", "soft-kmeans")):
        options = [] if name is None else ["--as", name]
        assert main(["evaluate", str(trained / run), "--episodes", "4", "--unlabelled", "2", "--json", *options]) == 0
        results[name] = json.loads(capsys.readouterr().out)
    assert [results[name]["method"] for name in results] == ["reptile", "reptile-bn", "soft-kmeans"]
    assert [results[name]["transduction"] for name in results] == ["no", "bn", "no"]
    assert [results[name]["batch_norm"] for name in results] == ["batch", "batch", "running"]
    as_maml, reptile = load(trained / "reptile", "maml").config, load(trained / "reptile").config
    assert as_maml.inner_lr == MAMLConfig.inner_lr != reptile.inner_lr  # one name, two meanings
    assert all(getattr(as_maml, field.name) == getattr(reptile, field.name) for field in fields(Config))
    error = refused("evaluate", trained / "protonet", "--as", "tpn")
    assert "whose weights are not those that tpn needs" in error
    assert "Unknown method 'nope'" in refused("evaluate", trained / "protonet", "--as", "nope")


def test_batch_statistics_are_nothing_new_to_a_method_that_knows_no_others(trained, capsys):
    results = []
    for statistics_ in ("running", "batch"):
        command = ["evaluate", str(trained / "reptile"), "--episodes", "4", "--json", "--batch-norm", statistics_]
        assert main(command) == 0
        results.append({**json.loads(capsys.readouterr().out), "seconds": 0})
    assert results[0] == results[1]


def test_a_method_with_an_output_for_each_class_takes_no_other_number(trained, refused, tmp_path):
    complaint = "reptile was trained for 3 classes"
    assert complaint in refused("evaluate", trained / "reptile", "--way", "4")
    assert complaint in refused("compare", trained / "protonet", trained / "reptile", "--way", "4")
    assert complaint in refused("plot", trained / "reptile", "--way", "4", "--out", tmp_path / "plots")


def test_semi_supervised_methods_are_trained_with_unlabelled_images(tmp_path, refused):
    assert main(["train", "masked-soft-kmeans", *TINY, "--out", str(tmp_path / "run")]) == 0
    assert Run(tmp_path / "run").read_config().episode.unlabelled == 5
    assert "--unlabelled must be at least 1" in refused("train", "tpn-semi", *TINY, "--unlabelled", "0")


def test_more_classes_in_training_than_there_are_to_validate_on(tmp_path, capsys, refused):
    """`Higher way` on miniImageNet: 30 classes in a training episode, of 16 to validate on."""
    counts = {"train": 6, "val": 3, "test": 4}
    names = {split: [f"{split}{index}" for index in range(count)] for split, count in counts.items()}
    source = write_folder(tmp_path / "images", as_files(make_images(per_class=6, size=16, classes=names)))
    options = [*TINY, "--way", "5", "--data", f"folder:{source}", "--image-size", "16", "--cache", str(tmp_path / "c")]
    assert main(["train", "protonet", *options, "--out", str(tmp_path / "run")]) == 0
    assert (
        main(["evaluate", str(tmp_path / "run"), "--way", "3", "--episodes", "3", "--cache", str(tmp_path / "c")]) == 0
    )
    assert "needs 5 classes, but the val split has 3" in refused("train", "maml", *options, "--out", tmp_path / "maml")


def test_unlabelled_images_that_are_there_for_nothing_or_missing_are_noted(trained, capsys):
    for run, options, note in (
        ("protonet", ["--unlabelled", "2"], "Note: protonet ignores unlabelled images"),
        ("protonet", ["--as", "soft-kmeans"], "Note: soft-kmeans is made for unlabelled images"),
        ("protonet", [], ""),
    ):
        assert main(["evaluate", str(trained / run), "--episodes", "2", *options]) == 0
        captured = capsys.readouterr()
        assert note in captured.err
        assert ("Note" in captured.err) == bool(note)
