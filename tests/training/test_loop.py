import json
import os
import sys

import pytest
import torch

from benchmarks.memory import own_memory
from tests.conftest import sampler
from tpn.cli import main
from tpn.errors import TPNError
from tpn.methods._method import Dimensions, Learned
from tpn.methods.tpn import TPN, TPNConfig
from tpn.runs.folder import Run
from tpn.training.checkpoint import State
from tpn.training.loop import draw_task, learning_rate, on_plateau, step, validation_due

TINY = ["--way", "3", "--shot", "1", "--query", "3", "--validation-episodes", "4"]


def test_the_learning_rate_is_halved_every_so_many_episodes():
    config = TPNConfig(lr=1e-3, halve_every=100)
    assert [learning_rate(config, episode) for episode in (0, 99, 100, 250)] == [1e-3, 1e-3, 5e-4, 2.5e-4]


def test_validation_comes_first_last_and_in_between():
    config = TPNConfig(episodes=25, validate_every=10)
    due = []
    state = State()
    for state.episode in range(26):
        if validation_due(state, config):
            due.append(state.episode)
            state.validated_at = state.episode
    assert due == [0, 10, 20, 25]
    assert not validation_due(state, config)


def test_training_stops_on_a_plateau_just_if_it_has_patience():
    state = State(validations_since_best=3)
    assert on_plateau(state, TPNConfig(patience=3))
    assert not on_plateau(state, TPNConfig(patience=4))
    assert not on_plateau(state, TPNConfig(patience=0))


def test_a_plateau_ends_the_training_and_keeps_the_best_weights(tmp_path, capsys):
    arguments = [*TINY, "--validate-every", "1", "--patience", "3", "--episodes", "500", "--lr", "1e-9"]
    assert main(["train", "tpn", *arguments, "--out", str(tmp_path / "run"), "--threads", "1"]) == 0
    assert "plateau" in capsys.readouterr().out
    metrics = Run(tmp_path / "run").read_metrics()
    assert [line["best"] for line in metrics[-3:]] == [False] * 3
    best = max(metrics, key=lambda line: line["val_accuracy"])
    assert metrics[-4] == best
    assert len(metrics) < 100


def test_the_last_step_is_no_longer_than_the_training(tmp_path):
    arguments = [*TINY, "--episodes", "7", "--episodes-per-step", "3", "--validate-every", "100"]
    assert main(["train", "tpn", *arguments, "--out", str(tmp_path / "run"), "--threads", "1"]) == 0
    assert [line["episode"] for line in Run(tmp_path / "run").read_metrics()] == [0, 7]


def test_more_patience_goes_on_after_a_plateau(tmp_path, capsys):
    run = ["--out", str(tmp_path / "run"), "--threads", "1"]
    arguments = [*TINY, "--validate-every", "1", "--patience", "1", "--episodes", "40", "--lr", "1e-9"]
    assert main(["train", "tpn", *arguments, *run]) == 0
    ended = len(Run(tmp_path / "run").read_metrics())
    assert ended < 41
    assert main(["train", "tpn", *run, "--resume", "--patience", "0"]) == 0
    assert len(Run(tmp_path / "run").read_metrics()) == 41


def test_a_loss_that_is_not_a_number_ends_the_training_with_a_word(drawings):
    class Diverging(TPN):
        def learn(self, task):
            return Learned(float("nan"), 0.2)

    method = Diverging(TPNConfig(), Dimensions(1, 28, 3, 1, 50))
    optimiser = torch.optim.Adam(method.parameters())
    before = [parameter.clone() for parameter in method.parameters()]
    with pytest.raises(TPNError, match=r"Training diverged: the loss at episode 0 is nan\. Try a smaller --lr"):
        step(method, optimiser, sampler(drawings, way=3), State(), TPNConfig())
    assert all(torch.equal(*pair) for pair in zip(before, method.parameters(), strict=True))


def test_two_hundred_episodes_teach_it_to_tell_unseen_drawings_apart(tmp_path, capsys):
    run = str(tmp_path / "run")
    assert main(["train", "tpn", "--episodes", "200", "--out", run, "--validation-episodes", "50"]) == 0
    capsys.readouterr()
    assert main(["evaluate", run, "--episodes", "200", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["accuracy"] - result["ci95"] > 0.58
    assert (tmp_path / "run" / "tensorboard").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="measured by /proc")
def test_memory_does_not_grow_with_time(drawings):
    method = TPN(TPNConfig(), Dimensions(1, 28, 5, 1, 50)).train()
    optimiser = torch.optim.Adam(method.parameters())
    drawn, state = sampler(drawings, shot=1, query=3), State()
    taken = []
    for episode in range(450):
        step(method, optimiser, drawn, state, TPNConfig())
        if episode in (150, 449):
            taken.append(own_memory(os.getpid()))
    assert taken[1] - taken[0] < 20e3


def test_drawing_a_task_gives_the_images_of_its_episodes(drawings):
    first, again = sampler(drawings, seed=5), sampler(drawings, seed=5)
    task = draw_task(first, 2)
    for inputs, labels in zip(task.inputs, task.support_labels, strict=True):
        episode = again.draw()
        assert torch.equal(inputs, drawings.load(episode.images))
        assert (labels.numpy() == episode.labels[: len(labels)]).all()
        assert inputs.is_contiguous(memory_format=torch.channels_last)
