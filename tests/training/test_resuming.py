"""A training that was killed, and resumed, ends exactly as one that was not."""

import json
import pickle
import signal
import sys
import time

import pytest
import torch

from tests.processes import Running, command, run
from tests.tiny import flags, tiny
from tests.training.kill_and_resume import kill_and_resume
from tpn.cli import main
from tpn.digests import with_digest
from tpn.errors import TPNError
from tpn.runs.folder import Run
from tpn.runs.loading import load
from tpn.runs.tensors import read_tensors

TRAINING = ["tpn", *tiny(validate_every=3, episodes=40, halve_every=15, episodes_per_step=2, seed=3)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "uninterrupted"
    assert main(["train", *TRAINING, "--out", str(folder)]) == 0
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


@pytest.mark.parametrize(("kind", "seed"), [("moments", 0), ("writes", 0)])
def test_a_training_killed_many_times_ends_in_the_same_weights_and_metrics(tmp_path, uninterrupted, kind, seed):
    folder = tmp_path / "killed"
    done = run(kill_and_resume, kind, folder, seed, TRAINING)
    assert done.code == 0, done.error
    kills, half_written = map(int, done.out.split())
    assert kills >= 3
    if kind == "writes":
        assert half_written > 0, "it was never killed while a file was half written"
    assert_the_same(Run(folder), uninterrupted)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_ends_cleanly_and_resuming_goes_on(tmp_path, uninterrupted, number, code):
    stopped = Run(tmp_path / "stopped")
    process = Running(command, ["train", *TRAINING, "--out", str(stopped.folder)])
    while process.alive and not (stopped.metrics_file.is_file() and stopped.metrics_file.stat().st_size):
        time.sleep(0.01)
    process.send(number)
    ended = process.wait(60)
    if ended.code != 0:  # it may have been quicker than the signal
        assert ended.code == code, ended.error
        assert "Stopped and saved at episode" in ended.error
        assert f"tpn train tpn --out {stopped.folder} --resume" in ended.error
    assert "Traceback" not in ended.error
    assert main(["train", "tpn", *flags(out=stopped.folder, resume=True, threads=1)]) == 0
    assert_the_same(stopped, uninterrupted)


def test_resuming_a_finished_training_changes_nothing(uninterrupted, capsys):
    before = uninterrupted.model_file.read_bytes(), uninterrupted.metrics_file.read_bytes()
    assert main(["train", *TRAINING, "--out", str(uninterrupted.folder), "--resume"]) == 0
    assert (uninterrupted.model_file.read_bytes(), uninterrupted.metrics_file.read_bytes()) == before
    assert "Trained tpn for 40 episodes" in capsys.readouterr().out


def test_more_episodes_train_on_as_if_they_had_been_asked_for_at_once(tmp_path, uninterrupted):
    shorter = [*TRAINING, "--out", str(tmp_path / "longer")]
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
    assert main(["train", *TRAINING, "--seed", "4", "--out", str(tmp_path / "other")]) == 0
    assert Run(tmp_path / "other").metrics_file.read_bytes() != uninterrupted.metrics_file.read_bytes()


def test_two_processes_cannot_train_in_one_folder(uninterrupted):
    with uninterrupted.claimed(), pytest.raises(TPNError, match="Another process is training"), uninterrupted.claimed():
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_a_full_disk_ends_the_training_with_a_word_and_loses_nothing(tmp_path, uninterrupted):
    full = Run(tmp_path / "full")
    done = run(command, ["train", *TRAINING, "--out", str(full.folder)], 10**6)
    assert done.code == 2
    assert "checkpoint.safetensors: File too large" in done.error
    assert "Traceback" not in done.error
    assert not list(full.folder.glob(".*.part"))
    assert main(["train", "tpn", *flags(out=full.folder, resume=True, threads=1)]) == 0
    assert_the_same(full, uninterrupted)


def tensors_only(content):
    """Is it a header in JSON, and tensors of known types that fill the rest of the file?"""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    assert {entry["dtype"] for entry in header.values()} <= {"F32", "I64", "U8"}
    ends = sorted(entry["data_offsets"] for entry in header.values())
    assert [start for start, _ in ends] == [0, *(end for _, end in ends[:-1])]
    return ends[-1][1] == len(content) - 8 - length


def test_nothing_in_a_run_is_a_pickle(uninterrupted, monkeypatch):
    files = [path for path in uninterrupted.folder.rglob("*") if path.is_file()]
    readers = {
        ".json": lambda content: json.loads(content),
        ".jsonl": lambda content: [json.loads(line) for line in content.splitlines()],
        ".safetensors": tensors_only,
    }
    assert len(files) > 4
    for path in files:
        content = path.read_bytes()
        if path.name == ".lock":
            assert content == b""
        elif path.parent.name == "tensorboard":
            assert not content.startswith((b"\x80", b"PK")), "neither a pickle nor what torch.save writes"
        else:
            assert readers[path.suffix](content), path
    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, None)
    assert load(uninterrupted.folder).info.name == "tpn"


def test_other_circumstances_are_told(uninterrupted, capsys):
    config = json.loads(uninterrupted.config_file.read_text())
    del config["digest"]
    config["written_with"]["threads"] = 99
    uninterrupted.config_file.write_text(json.dumps(with_digest(config)))
    assert main(["train", "tpn", *flags(out=uninterrupted.folder, resume=True, threads=1)]) == 0
    assert "Note: threads was 99 and is 1" in capsys.readouterr().err


def test_a_parameter_that_never_had_a_gradient_does_not_keep_a_run_from_going_on(tmp_path):
    run = flags(out=tmp_path / "run", threads=1)
    assert main(["train", "masked-soft-kmeans", *tiny(episodes=3, refinements=0, validate_every=3), *run]) == 0
    assert main(["train", "masked-soft-kmeans", "--resume", "--episodes", "6", *run]) == 0
    assert Run(tmp_path / "run").read_metrics()[-1]["episode"] == 6
