import csv
import json
import os
import subprocess
import sys

import pytest
import torch

import tpn
from tests.tiny import tiny
from tpn.cli import COMMANDS, main
from tpn.methods._registry import all_methods
from tpn.runs.folder import Run


def output(capsys, *arguments):
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["train", "--help"],
        ["evaluate", "--help"],
        ["label", "--help"],
        ["train", "--way", "5"],
        ["evaluate", "nowhere"],
        ["fly"],
    ],
)
def test_help_and_common_mistakes_are_answered_without_loading_torch(arguments):
    """It takes seconds, where the answer takes a tenth of one."""
    code = f"""
import contextlib, sys, tpn.cli
with contextlib.suppress(SystemExit):
    tpn.cli.main({arguments!r})
slow = {{"torch", "scipy", "sklearn", "matplotlib", "PIL"}} & set(sys.modules)
assert not slow, slow
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "tpn"],
        ["evaluate"],
        ["compare"],
        ["plot"],
        ["methods"],
        ["splits"],
        ["splits", "tpn-semi"],
        ["data", "info"],
    ],
)
def test_every_command_explains_itself(capsys, arguments):
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert "usage: tpn" in text
    if arguments[0] == "train":
        for flag in ("--way", "--shot", "--query", "--lr", "--halve-every", "--seed", "--out", "--resume"):
            assert flag in text
    if arguments == ["train", "tpn"]:
        assert all(flag in text for flag in ("--k", "--alpha", "--solver", "--steps"))


def test_data_and_version(capsys):
    assert all(command in output(capsys, "--help") for command in COMMANDS)
    assert "tpn data info SOURCE" in output(capsys, "data")
    assert output(capsys, "--version").strip() == f"tpn {tpn.__version__}"


def test_methods(capsys):
    listed = {method["name"]: method for method in json.loads(output(capsys, "methods", "--json"))["methods"]}
    assert list(listed) == sorted(all_methods())
    assert {"transduction": "yes", "unlabelled": "uses"}.items() <= listed["tpn"].items()
    assert "ICLR 2019" in output(capsys, "methods")


def test_data_info(capsys):
    info = json.loads(output(capsys, "data", "info", "quickdraw", "--json"))
    assert info["splits"] == {
        "train": {"classes": 215, "images": 21500},
        "val": {"classes": 50, "images": 5000},
        "test": {"classes": 80, "images": 8000},
    }
    assert "train      215    21500" in output(capsys, "data", "info", "quickdraw")


def test_evaluate_prints_one_json_object(capsys, runs):
    result = json.loads(output(capsys, "evaluate", runs / "one", "--episodes", 30, "--json"))
    keys = "accuracy ci95 way shot query episodes seconds method transduction class_balance batch_norm data split"
    assert " ".join(list(result)[:13]) == keys
    assert 0.2 < result["accuracy"] < 0.9
    assert 0 < result["ci95"] < 0.2
    assert (result["way"], result["shot"], result["query"]) == (3, 1, 4), "as in the run"
    assert (result["method"], result["transduction"], result["data"]) == ("tpn", "yes", "quickdraw")
    assert (result["split"], result["batch_norm"], result["episodes"]) == ("test", "running", 30)


def test_evaluate_in_another_setting_and_with_flags_before_the_run(capsys, runs):
    text = output(capsys, "evaluate", "--way", 4, "--shot", 2, "--split", "val", runs / "one", "--episodes", 5)
    assert "tpn on quickdraw, val split (50 classes): 4-way 2-shot, 4 queries per class, 5 episodes" in text
    assert "±" in text
    assert "transduction  yes, batch norm with running statistics" in text
    unbalanced = ["--query-counts", 1, 2, 9, "--unlabelled", 2, "--distractors", 1, "--batch-norm", "batch"]
    text = output(capsys, "evaluate", runs / "one", "--episodes", 5, *unbalanced)
    assert "1+2+9 queries, 2 unlabelled per class, 1 distractor classes" in text
    assert "batch statistics" in text


def test_the_number_of_queries_overrides_the_unbalanced_ones_of_the_run(capsys, tmp_path):
    run = str(tmp_path / "run")
    assert main(["train", "tpn", *tiny(query_counts=(1, 2, 3), episodes=1), "--out", run]) == 0
    assert "1+2+3 queries" in output(capsys, "evaluate", run, "--episodes", 2)
    assert "3-way 1-shot, 5 queries per class" in output(capsys, "evaluate", run, "--episodes", 2, "--query", 5)
    assert "5-way 1-shot, 2 queries per class" in output(capsys, "evaluate", run, "--episodes", 2, "--way=5")
    assert "by Dirichlet(1)" in output(capsys, "evaluate", run, "--episodes", 2, "--query-dirichlet", 1)


def test_the_accuracies_of_the_episodes_go_to_a_file(capsys, runs, tmp_path):
    path = tmp_path / "episodes.csv"
    arguments = ["--episodes", 20, "--json", "--per-episode", path]
    result = json.loads(output(capsys, "evaluate", runs / "one", *arguments))
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 20
    mean = sum(float(row["accuracy"]) for row in rows) / 20
    assert mean == pytest.approx(result["accuracy"], abs=1e-5)


def test_the_same_seed_meets_the_same_episodes(capsys, runs):
    def accuracy(seed):
        return json.loads(output(capsys, "evaluate", runs / "one", "--episodes", 20, "--seed", seed, "--json"))[
            "accuracy"
        ]

    assert accuracy(0) == accuracy(0)
    assert accuracy(0) != accuracy(1)


def test_compare(capsys, runs, tmp_path):
    plot = tmp_path / "comparison.png"
    arguments = [runs / "one", runs / "two", "--episodes", 25]
    result = json.loads(output(capsys, "compare", *arguments, "--json", "--plot", plot))
    accuracies = {run["name"]: run["accuracy"] for run in result["runs"]}
    alone = json.loads(output(capsys, "evaluate", runs / "two", "--episodes", 25, "--json"))
    assert accuracies["two"] == alone["accuracy"], "the same episodes as in a test of its own"
    [pair] = result["differences"]
    assert pair["difference"] == pytest.approx(abs(accuracies["one"] - accuracies["two"]))
    assert pair["ci95"] > 0
    assert plot.is_file()
    text = output(capsys, "compare", *arguments)
    assert "paired differences" in text
    assert "±" in text


def test_plot(capsys, runs, tmp_path):
    text = output(capsys, "plot", runs / "one", "--out", tmp_path / "new" / "folder", "--way", 2, "--query", 3)
    for name in ("learning-curve.png", "episode.png"):
        assert (tmp_path / "new" / "folder" / name).stat().st_size > 5000
        assert name in text


def test_a_loaded_method_is_ready(runs):
    method = tpn.load(runs / "one")
    assert not method.training
    assert method.embed(torch.rand(2, 1, 28, 28)).shape == (2, 256)
    assert tpn.Episode.__name__ == "Episode"
    assert "load" in dir(tpn)
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = tpn.lod


def test_flags_reach_the_settings(runs, tmp_path):
    flags = tiny(episodes=2, k=7, alpha=0.5, solver="iterative", steps=4, mutual=True, learn_alpha=True, image_size=32)
    flags += ["--loss-over", "query", "--initial-scale", "plain", "--backbone", "conv4"]
    folder = tmp_path / "run"
    assert main(["train", "tpn", *flags, "--out", str(folder)]) == 0
    config = Run(folder).read_config()
    settings = config.settings
    assert (settings.k, settings.alpha, settings.solver, settings.steps) == (7, 0.5, "iterative", 4)
    assert (settings.mutual, settings.learn_alpha, settings.loss_over) == (True, True, "query")
    assert config.image_size == 32
    assert "alpha_logit" in tpn.load(folder).state_dict()
    assert main(["train", "tpn", *flags, "--out", str(folder), "--resume"]) == 0, "the same flags again"


def test_a_run_has_a_place_of_its_own_if_none_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "tpn", *tiny(episodes=1)]) == 0
    assert (tmp_path / "runs" / "tpn-quickdraw-3way-1shot-seed0" / "model.safetensors").is_file()
    assert "tpn evaluate runs/tpn-quickdraw-3way-1shot-seed0" in capsys.readouterr().out


@pytest.mark.parametrize(("environment", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_waiting_threads_sleep_unless_the_user_has_chosen_otherwise(environment, policy):
    code = "import os, tpn.cli; tpn.cli.main(['--version']); print(os.environ['OMP_WAIT_POLICY'])"
    known = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"} | environment
    done = subprocess.run([sys.executable, "-c", code], env=known, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == policy
