"""What TensorBoard gets."""

import threading
from pathlib import Path

import pytest

import tpn
from tests.tiny import tiny
from tpn.cli import main
from tpn.training import loop, tensorboard
from tpn.training.tensorboard import TensorBoard

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def test_training_curves_validations_settings_and_an_episode(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "WORTH_A_FIGURE", 0.0)
    monkeypatch.setattr(tensorboard, "STEPS_PER_POINT", 2)
    steps = []
    settings = {"episodes": 8, "validate_every": 4, "validation_episodes": 2, "backbone": "conv4-32"}
    run = tpn.train(
        "tpn", out=tmp_path, way=3, shot=1, query=3, threads=1, on_step=steps.append, progress=False, **settings
    )
    log = event_accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {"train/loss", "train/accuracy", "train/lr", "val/accuracy"} <= set(log.Tags()["scalars"])
    losses = log.Scalars("train/loss")
    assert [point.step for point in losses] == [2, 4, 6, 8]
    assert losses[0].value == pytest.approx((steps[0]["loss"] + steps[1]["loss"]) / 2)
    assert [point.value for point in log.Scalars("val/accuracy")] == pytest.approx(
        [line["val_accuracy"] for line in run.metrics]
    )
    assert log.Tags()["images"] == ["episode"]
    [text] = log.Tensors("settings/text_summary")
    assert b'"backbone": "conv4-32"' in text.tensor_proto.string_val[0]


def test_a_finished_run_that_is_resumed_stays_as_it_is(tmp_path):
    """On a read-only disk, TensorBoard's writer would end in a traceback."""
    run = tmp_path / "run"
    assert main(["train", "tpn", *tiny(out=run)]) == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert main(["train", "tpn", "--out", str(run), "--resume"]) == 0
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_log_that_cannot_be_written_is_given_up_without_a_word(tmp_path, capfd):
    metrics = {"val_accuracy": 0.5, "val_ci95": None, "lr": 0.1, "episode": 1}
    board = TensorBoard(tmp_path, 0, {})
    board.validation(metrics)
    assert board.writes
    thread_of_tensorboard = type("Writing", (threading.Thread,), {"__module__": "tensorboard.writer"})
    full = thread_of_tensorboard(target=lambda: Path("/dev/full").write_text("x"))
    full.start()
    full.join()
    board.close()
    assert "No space" not in capfd.readouterr().err
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tensorboard").write_text("in the way")
    board = TensorBoard(tmp_path / "other", 0, {})
    board.validation(metrics)
    assert not board.writes
