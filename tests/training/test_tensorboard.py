"""What TensorBoard gets."""

import pytest

import tpn
from tpn.training import loop, tensorboard

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
