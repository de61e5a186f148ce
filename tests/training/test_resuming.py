"""A training that was killed, and resumed, ends exactly as one that was not."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from tpn.cli import main
from tpn.errors import TPNError
from tpn.runs.folder import Run
from tpn.runs.tensors import read_tensors

TINY = ["--way", "3", "--shot", "1", "--query", "3", "--validation-episodes", "4", "--validate-every", "3"]
TRAINING = ["tpn", *TINY, "--episodes", "40", "--halve-every", "15", "--episodes-per-step", "2", "--seed", "3"]


def command(*arguments):
    return [sys.executable, "-m", "tpn", *map(str, arguments)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "uninterrupted"
    assert main(["train", *TRAINING, "--out", str(folder), "--threads", "1"]) == 0
    return Run(folder)


def assert_the_same(run, other):
    assert run.metrics_file.read_bytes() == other.metrics_file.read_bytes()
    assert run.model_file.read_bytes() == other.model_file.read_bytes()
    tensors, facts = read_tensors(run.checkpoint_file)
    expected, expected_facts = read_tensors(other.checkpoint_file)
    assert list(tensors) == list(expected)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in tensors.items())
    for known in (facts, expected_facts):
        known["state"].pop("seconds")
    assert facts == expected_facts
    assert not list(run.folder.glob(".*.part"))


@pytest.mark.parametrize(("kind", "seed"), [("moments", 0), ("moments", 1), ("writes", 0), ("writes", 1)])
def test_a_training_killed_many_times_ends_in_the_same_weights_and_metrics(tmp_path, uninterrupted, kind, seed):
    run = Run(tmp_path / "killed")
    call = [sys.executable, "-m", "tests.training.kill_and_resume", kind, run.folder, seed, "--", *TRAINING]
    done = subprocess.run(list(map(str, call)), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    kills, half_written = map(int, done.stdout.split())
    assert kills >= 3
    if kind == "writes":
        assert half_written > 0, "it was never killed while a file was half written"
    assert_the_same(run, uninterrupted)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_ends_cleanly_and_resuming_goes_on(tmp_path, uninterrupted, number, code):
    run = Run(tmp_path / "stopped")
    process = subprocess.Popen(
        command("train", *TRAINING, "--out", run.folder, "--threads", 1), stderr=subprocess.PIPE, text=True
    )
    while not (run.metrics_file.is_file() and run.metrics_file.stat().st_size):
        time.sleep(0.01)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    if process.returncode != 0:  # it may have been quicker than the signal
        assert process.returncode == code
        assert "Stopped and saved at episode" in error
        assert f"tpn train tpn --out {run.folder} --resume" in error
    assert "Traceback" not in error
    assert main(["train", "tpn", "--out", str(run.folder), "--resume", "--threads", "1"]) == 0
    assert_the_same(run, uninterrupted)


def test_resuming_a_finished_training_changes_nothing(uninterrupted, capsys):
    before = uninterrupted.model_file.read_bytes(), uninterrupted.metrics_file.read_bytes()
    assert main(["train", *TRAINING, "--out", str(uninterrupted.folder), "--resume", "--threads", "1"]) == 0
    assert (uninterrupted.model_file.read_bytes(), uninterrupted.metrics_file.read_bytes()) == before
    assert "Trained tpn for 40 episodes" in capsys.readouterr().out


def test_more_episodes_train_on_as_if_they_had_been_asked_for_at_once(tmp_path, uninterrupted):
    shorter = [*TRAINING, "--out", str(tmp_path / "longer"), "--threads", "1"]
    assert main(["train", *shorter, "--episodes", "18"]) == 0
    assert main(["train", *shorter, "--episodes", "40", "--resume"]) == 0
    assert_the_same(Run(tmp_path / "longer"), uninterrupted)
    assert Run(tmp_path / "longer").read_config().settings.episodes == 40


def test_the_learning_rate_of_a_resumed_run_is_halved_on_time(uninterrupted):
    rates = {line["episode"]: line["lr"] for line in uninterrupted.read_metrics()}
    assert rates[0] == 1e-3
    assert rates[16] == 5e-4
    assert rates[40] == 2.5e-4
    assert sorted(rates) == [0, 4, 6, 10, 12, 16, 18, 22, 24, 28, 30, 34, 36, 40]


def test_another_seed_makes_another_run(tmp_path, uninterrupted):
    assert main(["train", *TRAINING, "--seed", "4", "--out", str(tmp_path / "other"), "--threads", "1"]) == 0
    assert Run(tmp_path / "other").metrics_file.read_bytes() != uninterrupted.metrics_file.read_bytes()


def test_two_processes_cannot_train_in_one_folder(uninterrupted):
    with uninterrupted.claimed(), pytest.raises(TPNError, match="Another process is training"), uninterrupted.claimed():
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_a_full_disk_ends_the_training_with_a_word_and_loses_nothing(tmp_path, uninterrupted):
    run = Run(tmp_path / "full")
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6)); "
    limited += "from tpn.cli import main; sys.exit(main(sys.argv[1:]))"
    call = [sys.executable, "-c", limited, "train", *TRAINING, "--out", str(run.folder), "--threads", "1"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "checkpoint.safetensors: File too large. Nothing that was there before is lost" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(run.folder.glob(".*.part"))
    assert main(["train", "tpn", "--out", str(run.folder), "--resume", "--threads", "1"]) == 0
    assert_the_same(run, uninterrupted)


def test_nothing_in_a_run_is_a_pickle(uninterrupted):
    files = [name for name in os.listdir(uninterrupted.folder) if name not in ("tensorboard", ".lock")]
    assert sorted(files) == ["checkpoint.safetensors", "config.json", "metrics.jsonl", "model.safetensors"]


def test_other_circumstances_are_told(uninterrupted, capsys):
    text = uninterrupted.config_file.read_text()
    uninterrupted.config_file.write_text(text.replace('"threads": 1', '"threads": 99'))
    assert main(["train", "tpn", "--out", str(uninterrupted.folder), "--resume", "--threads", "1"]) == 0
    assert "Note: threads was 99 and is 1" in capsys.readouterr().err


def test_a_parameter_that_never_had_a_gradient_does_not_keep_a_run_from_going_on(tmp_path):
    run = ["--out", str(tmp_path / "run"), "--threads", "1"]
    assert main(["train", "masked-soft-kmeans", *TINY, "--episodes", "3", "--refinements", "0", *run]) == 0
    assert main(["train", "masked-soft-kmeans", "--resume", "--episodes", "6", *run]) == 0
    assert Run(tmp_path / "run").read_metrics()[-1]["episode"] == 6
