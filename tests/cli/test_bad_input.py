"""Every wrong input gets one clear paragraph on standard error, exit code 2, and nothing half-written."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch

from tests.processes import Ended, command, run
from tests.tiny import tiny
from tpn.cli import main
from tpn.digests import with_digest
from tpn.runs.tensors import read_tensors, write_tensors

TINY = tiny(episodes=2)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fly"], "Unknown command 'fly': choose one of label, studio, embed, predict, train"),
        (["train", "tpm"], "Unknown method 'tpm': choose one of"),
        (["train", "--way", "5"], "tpn train METHOD --way 5"),
        (["train", "tpn", "--data", "imagenet"], "Unknown data 'imagenet'"),
        (["train", "tpn", "--solver", "magic"], "invalid choice 'magic' for argument '--solver'"),
        (["train", "tpn", "--way", "five"], "Error parsing --way: invalid literal for int()"),
        (["train", "tpn", "--image-size", "big"], "Error parsing --image-size: no type matching {None}|INT"),
        (["train", "tpn", "--waay", "5"], "Unrecognized options: --waay"),
        (["evaluate", "mini-conv4", "--test-flip"], "The settings of a method, such as --k, need --as METHOD"),
        (["train", "maml", "--way", "51"], "needs 51 classes, but the val split has 50"),
        (["train", "tpn", "--way", "300"], "needs 300 classes, but the train split has 215"),
        (["train", "tpn", "--shot", "90"], "needs 105 images of each class, but the class"),
        (["train", "tpn", "--way", "0"], "--way must be at least 2, not 0"),
        (["train", "tpn", "--query", "-1"], "--query must be at least 1, not -1"),
        (["train", "tpn", "--episodes", "0"], "--episodes must be at least 1, not 0"),
        (["train", "tpn", "--lr", "-0.1"], "--lr must be above 0 and at most 1, not -0.1"),
        (["train", "tpn", "--lr", "nan"], "--lr must be above 0 and at most 1, not nan"),
        (["train", "tpn", "--alpha", "1"], "--alpha must be above 0 and at most 0.9999, not 1.0"),
        (["train", "tpn", "--image-size", "15"], "at least 16x16 pixels, not 15x15"),
        (["train", "tpn", "--image-size", "-4"], "--image-size must be between"),
        (["train", "maml", "--image-size", "100000"], "--image-size must be between"),
        (["train", "maml", "--inner-lr", "nan"], "--inner-lr must be above 0 and at most 10, not nan"),
        (["train", "reptile", "--optimiser", "adam"], "--optimiser must be sgd"),
        (["train", "soft-kmeans", "--refinements", "9999999"], "--refinements must be at most 100000, not 9999999"),
        (["train", "label-propagation", "--sigma", "foo"], "no type matching FLOAT|{median}"),
        (["train", "tpn", "--backbone", "conv5"], "Unknown backbone 'conv5'"),
        (["train", "tpn", "--threads", "0"], "--threads must be at least 1 and at most 1024, not 0"),
        (["train", "tpn", "--seed", "-1"], "--seed must be at least 0 and below 2^63, not -1"),
        (["evaluate", "nowhere"], "nowhere does not exist"),
        (["evaluate"], "required"),
        (["compare", "nowhere"], "Name at least two run folders"),
        (["compare"], "Name at least two run folders"),
        (["data", "look"], "Unknown command data 'look'"),
        (["data", "info", "cifar"], "Unknown data 'cifar'"),
        (["data", "info"], "required"),
    ],
)
def test_wrong_options(refused, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert complaint in refused(*arguments)
    assert os.listdir(tmp_path) == [], "nothing is left behind"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--way", "81"], "needs 81 classes, but the test split has 80"),
        (["--shot", "98"], "needs 102 images"),
        (["--episodes", "0"], "--episodes must be at least 1, not 0"),
        (["--split", "tests"], "invalid choice 'tests'"),
        (["--data", "cifar"], "Unknown data 'cifar'"),
        (["--batch-norm", "frozen"], "invalid choice 'frozen'"),
        (["--per-episode", "no/such/folder/file.csv"], "Cannot write no/such/folder/file.csv: There is no folder"),
        (["--per-episode", ""], "The value of --per-episode is empty"),
        (["--threads", "99999999999"], "--threads must be at least 1 and at most 1024"),
        (["--seed", "-3"], "--seed must be at least 0 and below 2^63, not -3"),
    ],
)
def test_wrong_options_of_a_test(refused, runs, options, complaint):
    assert complaint in refused("evaluate", runs / "one", "--episodes", "2", *options)


def test_a_run_folder_that_exists(refused, runs):
    before = (runs / "one" / "config.json").read_bytes()
    error = refused("train", "tpn", *TINY, "--out", runs / "one")
    assert "exists. Continue it with --resume" in error
    assert (runs / "one" / "config.json").read_bytes() == before


def test_a_folder_that_is_not_a_run(refused, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("Dear")
    assert "holds files and is not a run folder" in refused("train", "tpn", *TINY, "--out", tmp_path / "letters")
    resumed = refused("train", "tpn", *TINY, "--out", tmp_path / "letters", "--resume")
    assert "holds files and is not a run folder" in resumed
    assert "is a file" in refused("train", "tpn", *TINY, "--out", tmp_path / "letters" / "dear.txt")
    assert "has no config.json" in refused("evaluate", tmp_path / "letters")
    assert os.listdir(tmp_path / "letters") == ["dear.txt"]


def test_a_run_of_other_settings(refused, runs):
    error = refused("train", "tpn", "--out", runs / "one", "--resume", "--k", "7", "--shot", "2")
    assert "belongs to other settings" in error
    assert "k is 7, not 20" in error
    assert "shot is 2, not 1" in error
    assert "episodes is 3, not 6" in refused("train", "tpn", "--out", runs / "one", "--resume", "--episodes", "3")


def test_runs_that_cannot_be_compared(refused, runs, tmp_path):
    assert main(["train", "tpn", *tiny(shot=2, episodes=1), "--out", str(tmp_path / "other")]) == 0
    assert "trained on different episodes" in refused("compare", runs / "one", tmp_path / "other")
    assert "named twice" in refused("compare", runs / "one", runs / "one")


def damage(run, name, content):
    path = run / name
    if content is None:
        path.unlink()
    elif isinstance(content, int):
        path.write_bytes(path.read_bytes()[:content])
    elif isinstance(content, dict):
        known = json.loads(path.read_text())
        for key, value in content.items():
            if isinstance(value, dict):
                known[key].update(value)
            else:
                known[key] = value
        del known["digest"]
        path.write_text(json.dumps(with_digest(known)))
    else:
        path.write_text(content)


DAMAGES = [
    ("evaluate", "config.json", 40, "config.json is damaged: it is not JSON"),
    ("evaluate", "config.json", "[]", "config.json is damaged"),
    ("evaluate", "config.json", "{}", "has the format None"),
    ("evaluate", "config.json", {"format": 99}, "has the format 99; this version of tpn reads 4, 5, 6"),
    ("evaluate", "config.json", {"method": "magic"}, "the method 'magic', which is not known here"),
    ("evaluate", "config.json", {"settings": {"alpha": 7.0}}, "config.json cannot be read: --alpha must be above 0"),
    ("evaluate", "config.json", {"settings": {"alpha": "x"}}, "the setting alpha cannot be 'x'"),
    ("evaluate", "config.json", {"settings": {"solver": "magic"}}, "the setting solver cannot be 'magic'"),
    ("evaluate", "config.json", {"seed": None}, "the setting seed cannot be None"),
    ("evaluate", "config.json", {"settings": {"beta": 1}}, "unknown setting beta"),
    ("evaluate", "config.json", {"settings": 3}, "config.json cannot be read"),
    ("evaluate", "config.json", {"image_size": 84}, "belongs to another run"),
    ("evaluate", "model.safetensors", 1000, "model.safetensors is damaged"),
    ("evaluate", "model.safetensors", "<html>", "model.safetensors is damaged"),
    ("evaluate", "model.safetensors", None, "has no weights"),
    ("plot", "metrics.jsonl", '{"episode": 0, "val_accuracy": 0.2}\n{"epis', "metrics.jsonl is damaged in line 2"),
    ("plot", "metrics.jsonl", "[1]\n", "metrics.jsonl is damaged in line 1"),
    ("plot", "metrics.jsonl", None, "Cannot read"),
    ("train", "checkpoint.safetensors", 5000, "checkpoint.safetensors is damaged"),
    ("train", "checkpoint.safetensors", "", "checkpoint.safetensors is damaged"),
    ("train", "metrics.jsonl", "", "metrics.jsonl has 0 lines"),
    ("train", "config.json", 100, "config.json is damaged"),
    ("train", "checkpoint.safetensors", None, "metrics.jsonl has 2 lines"),
    ("train", "model.safetensors", None, "has no weights"),
    ("train", "model.safetensors", 2000, "model.safetensors is damaged"),
    ("train", "metrics.jsonl", "1\n2\n", "metrics.jsonl is damaged in line 1"),
    ("train", "metrics.jsonl", '{"episode": 0, "val_accuracy": NaN}\n{}\n', "metrics.jsonl is damaged in line 1"),
    ("train", "config.json", {"written_with": None, "seed": 77}, "belongs to another run"),
    ("evaluate", "config.json", "[" * 100_000, "config.json is damaged: it is not JSON"),
    ("evaluate", "config.json", {"channels": -1}, "channels must be at least 1"),
    ("evaluate", "config.json", {"seed": 77}, "model.safetensors belongs to another run"),
    ("plot", "metrics.jsonl", "{}\n", "metrics.jsonl is damaged in line 1"),
    ("plot", "metrics.jsonl", '{"episode": 0, "val_accuracy": Infinity}\n', "metrics.jsonl is damaged in line 1"),
]


@pytest.mark.parametrize(("command", "name", "content", "complaint"), DAMAGES)
def test_a_damaged_run(refused, runs, tmp_path, command, name, content, complaint):
    run = tmp_path / "run"
    shutil.copytree(runs / "one", run)
    damage(run, name, content)
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    arguments = [command, run]
    if command == "train":
        arguments = ["train", "tpn", "--out", run, "--resume", "--episodes", "8"]
    assert complaint in refused(*arguments)
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


def test_a_place_that_cannot_be_written(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "Cannot write" in refused("train", "tpn", *TINY, "--out", tmp_path / "file" / "run")
    if os.path.isdir("/proc/self"):
        assert "Cannot write" in refused("train", "tpn", *TINY, "--out", "/proc/self/run")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda tensors, facts: tensors["model/length_scale.out.bias"].fill_(float("nan")), "bias is not finite"),
        (lambda tensors, facts: tensors.update({"model/length_scale.out.bias": torch.ones(1).int()}), "of type"),
        (lambda tensors, facts: tensors.pop("optimiser/length_scale.out.bias/step"), ""),
        (lambda tensors, facts: tensors.update({"optimiser/length_scale.out.bias/exp_avg": torch.ones(3)}), "shape"),
        (lambda tensors, facts: tensors.pop("random/torch"), "random/torch"),
        (lambda tensors, facts: facts["state"].update(episode="6"), "episode cannot be '6'"),
        (lambda tensors, facts: facts["state"].update(episode=-3), "negative"),
        (lambda tensors, facts: facts["state"].update(seconds=float("nan")), "not finite"),
        (lambda tensors, facts: facts["sampler"]["state"].update(state=-4), ""),
        (lambda tensors, facts: facts.update(run="another"), "belongs to another run"),
    ],
)
def test_a_checkpoint_that_was_tampered_with(refused, runs, tmp_path, change, complaint):
    run = tmp_path / "run"
    shutil.copytree(runs / "one", run)
    tensors, facts = read_tensors(run / "checkpoint.safetensors")
    change(tensors, facts)
    write_tensors(run / "checkpoint.safetensors", tensors, facts)
    error = refused("train", "tpn", "--out", run, "--resume", "--episodes", "8")
    assert "checkpoint.safetensors" in error
    assert complaint in error


def test_a_plot_is_not_half_drawn_when_its_episode_is_impossible(refused, runs, tmp_path):
    refused("plot", runs / "one", "--way", "99", "--out", tmp_path / "new")
    refused("compare", runs / "one", runs / "two", "--plot", tmp_path / "x.foo")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "call",
    ["paper list | true", "--help | true", "paper list >&-", "paper list 2>&-", "--help > /dev/full"],
)
def test_nobody_listens(call):
    """Output that nobody takes ends a command without a traceback (these load no torch, and start quickly)."""
    done = subprocess.run(f"{sys.executable} -m tpn {call}", shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"COLUMNS": "5"}, {"TERM": "dumb"}])
def test_poor_terminals(runs, environment):
    def ended(*arguments):
        call = list(map(str, arguments))
        if "PYTHONIOENCODING" not in environment:
            return run(command, call, **environment)
        done = subprocess.run(  # this is read when an interpreter starts
            [sys.executable, "-m", "tpn", *call], env={**os.environ, **environment}, capture_output=True, text=True
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    done = ended("evaluate", runs / "one", "--episodes", 2, "--threads", 1)
    assert (done.code, done.error) == (0, "")
    refused = ended("evaluate", runs / "one", "--waay", 3)
    assert refused.code == 2
    assert refused.error.startswith("tpn: Unrecognized options: --waay")
    assert ended("methods", "--help").code == 0


def test_what_is_not_a_file_is_written_through_and_links_are_followed(runs, tmp_path):
    (tmp_path / "real.csv").write_text("")
    (tmp_path / "link.csv").symlink_to("real.csv")
    for path in (tmp_path / "link.csv", "/dev/null"):
        assert main(["evaluate", str(runs / "one"), "--episodes", "2", "--per-episode", str(path)]) == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("episode,accuracy")
    assert not os.path.isfile("/dev/null")
