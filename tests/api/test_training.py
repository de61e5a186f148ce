"""Train, resume, evaluate, compare, plot and use a method, from Python; and the same by command, to the bit."""

import json
import os
import signal

import numpy as np
import pandas as pd
import pytest
import torch

import tpn
from tests.api.conftest import TINY
from tpn.cli import main


def as_flags(keywords):
    """The command line of a call."""
    words = []
    for name, value in keywords.items():
        if name != "progress":
            words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else (value,))]
    return words


def weights(run):
    return dict(tpn.load(run).state_dict())


def assert_same_weights(one, other):
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_training_tells_how_it_went(trained):
    run = trained["tpn"]
    assert run.folder.is_dir()
    assert [line["episode"] for line in run.metrics] == [0, 3, 6]
    assert run.best_accuracy == max(line["val_accuracy"] for line in run.metrics)
    assert "Trained tpn for 6 episodes" in str(run)
    assert run.to_dict()["run"] == str(run.folder)
    assert list(run.to_dataframe()["episode"]) == [0, 3, 6]
    assert run.plot().axes, "a matplotlib figure"
    assert run.load().info.name == "tpn"


def test_the_same_training_by_call_and_by_command(trained, tmp_path):
    assert main(["train", "tpn", "--out", str(tmp_path / "run"), *as_flags(TINY)]) == 0
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (trained["tpn"].folder / "metrics.jsonl").read_bytes()
    assert_same_weights(tmp_path / "run", trained["tpn"])
    ours, theirs = (
        json.loads((folder / "config.json").read_text()) for folder in (trained["tpn"].folder, tmp_path / "run")
    )
    assert ours == theirs


def test_the_same_test_by_call_and_by_command(trained, capsys):
    result = tpn.evaluate(trained["tpn"], shot=2, episodes=20, threads=1, progress=False)
    capsys.readouterr()
    command = ["evaluate", str(trained["tpn"].folder), "--shot", "2", "--episodes", "20", "--threads", "1"]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {**printed, "seconds": 0} == {**json.loads(json.dumps(result.to_dict())), "seconds": 0}
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == str(result).splitlines()[:-1], "all but the time"


def test_an_evaluation_has_its_numbers_and_prints_as_a_table(trained):
    result = tpn.evaluate(trained["protonet"], shot=2, query_dirichlet=1.0, episodes=20, progress=False)
    assert result.accuracies.shape == (20,)
    assert result.accuracy == pytest.approx(result.accuracies.mean())
    assert result.ci95 == pytest.approx(1.96 * result.accuracies.std(ddof=1) / np.sqrt(20))
    assert (result.episode.way, result.episode.shot, result.method, result.transduction) == (3, 2, "protonet", "no")
    assert f"{100 * result.accuracy:.2f}" in str(result)
    assert isinstance(result.to_dataframe(), pd.DataFrame)


def test_a_comparison_is_paired(trained, tmp_path, capsys):
    comparison = tpn.compare(list(trained.values()), shot=1, episodes=20, progress=False)
    alone = {name: tpn.evaluate(run, shot=1, episodes=20, progress=False) for name, run in trained.items()}
    assert {name: result.accuracy for name, result in comparison.results.items()} == {
        name: result.accuracy for name, result in alone.items()
    }
    [pair] = comparison.differences
    paired = alone[pair.better].accuracies - alone[pair.worse].accuracies
    assert pair.difference.value == pytest.approx(paired.mean())
    assert pair.difference.ci95 == pytest.approx(1.96 * paired.std(ddof=1) / np.sqrt(20))
    comparison.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert main(["compare", *(str(run.folder) for run in trained.values()), "--shot", "1", "--episodes", "20"]) == 0
    assert capsys.readouterr().out.splitlines() == str(comparison).splitlines()
    named = tpn.compare({"ours": trained["tpn"], "theirs": trained["protonet"].load()}, "quickdraw", shot=1, episodes=2,
                        progress=False)  # fmt: skip
    assert set(named.results) == {"ours", "theirs"}


def test_an_interrupted_call_resumes_to_the_same_weights(trained, tmp_path):
    def interrupt(step):
        if step["episode"] == 4:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="Stopped and saved at episode 4"):
        tpn.train("tpn", out=tmp_path / "run", on_step=interrupt, **TINY)
    with pytest.raises(tpn.TPNError, match=r"exists\. Continue it with resume"):
        tpn.train("tpn", out=tmp_path / "run", **TINY)
    resumed = tpn.train(out=tmp_path / "run", resume=True, threads=1, progress=False)
    assert resumed.config.method == "tpn"
    assert resumed.metrics == trained["tpn"].metrics
    assert_same_weights(resumed, trained["tpn"])


def test_callbacks_get_every_step_and_validation(tmp_path):
    steps, validations = [], []
    run = tpn.train("protonet", out=tmp_path, on_step=steps.append, on_validation=validations.append, **TINY)
    assert [step["episode"] for step in steps] == [1, 2, 3, 4, 5, 6]
    assert all(step.keys() == {"episode", "loss", "accuracy", "lr"} for step in steps)
    assert validations == run.metrics
    assert run.metrics[1]["train_loss"] == pytest.approx(np.mean([step["loss"] for step in steps[:3]]))


def test_two_stages(tmp_path):
    two = {**TINY, "episodes": 3}
    first = tpn.pretrain(out=tmp_path / "first", batch_size=16, **two)
    second = tpn.train("tpn", init=first, out=tmp_path / "second", **{**two, "lr": 1e-12})
    there, here = weights(first), weights(second)
    convolution = "backbone.blocks.0.convolution.weight"
    torch.testing.assert_close(here[convolution], there[convolution], rtol=0, atol=1e-9)
    assert main(["train", "tpn", "--init", str(first.folder), "--out", str(tmp_path / "again"),
                 *as_flags({**two, "lr": 1e-12})]) == 0  # fmt: skip
    assert_same_weights(second, tmp_path / "again")


def test_progress_is_shown_or_not(trained, capsys):
    tpn.evaluate(trained["protonet"], episodes=2, progress=False)
    tpn.train("protonet", out=trained["protonet"].folder, resume=True, progress=False)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    tpn.train("protonet", out=trained["protonet"].folder, resume=True, threads=1)
    assert "Training protonet" in capsys.readouterr().err


def test_a_method_on_tensors_is_a_classifier(trained):
    method = tpn.load(trained["tpn"])
    split = tpn.open_images("quickdraw").split("test")
    rows = np.concatenate([start + np.arange(6) for start in split.starts[:3]])
    images, names = split.load(rows), np.repeat(["ant", "bee", "cat"], 6)
    support, query = np.flatnonzero(np.arange(18) % 6 < 2), np.flatnonzero(np.arange(18) % 6 >= 2)
    probabilities = method.fit(images[support], names[support]).predict_proba(images[query])
    assert probabilities.shape == (12, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    predicted = method.predict(images[query].numpy())
    assert list(predicted) == list(np.array(["ant", "bee", "cat"])[probabilities.argmax(1)])
    assert method(images).shape == (18, 128), "calling it embeds"
    with pytest.raises(tpn.TPNError, match="floating-point numbers from 0 to 1"):
        method.predict(np.zeros((2, 28, 28), np.uint8))


def test_threads_of_the_caller_are_left_alone(trained):
    before = torch.get_num_threads()
    tpn.evaluate(trained["protonet"], episodes=2, threads=2, progress=False)
    assert torch.get_num_threads() == before


def test_plots_of_a_run(trained, tmp_path):
    plots = tpn.plot_run(trained["tpn"], out=tmp_path, shot=1, query=4, threads=1)
    assert plots.episode.read_bytes().startswith(b"\x89PNG")
    assert plots.learning_curve.is_file()


def test_the_semi_supervised_protocol(tmp_path):
    short = {**TINY, "episodes": 3, "splits": 2, "test_shots": (1,), "test_episodes": 4, "unlabelled": 2}
    result = tpn.train_splits("tpn-semi", out=tmp_path / "splits", **short)
    [test] = result.tests
    assert test.accuracy == pytest.approx(np.mean([mean.value for mean in test.tests.values()]))
    assert json.loads((tmp_path / "splits" / "results.json").read_text())["tests"][0]["accuracy"] == test.accuracy
    again = tpn.train_splits("tpn-semi", out=tmp_path / "splits", resume=True, threads=1, progress=False)
    assert again.to_dict() == result.to_dict()
