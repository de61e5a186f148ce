import json

import pytest
import torch
from torch.autograd.profiler import profile

from tests.conftest import draw_task, sampler
from tests.tiny import flags, tiny
from tests.training.making import make_steps, training_of
from tpn.cli import main
from tpn.errors import TPNError
from tpn.methods._method import Learned
from tpn.methods.tpn import TPNConfig
from tpn.runs.folder import Run
from tpn.training.checkpoint import State
from tpn.training.optimiser import learning_rate
from tpn.training.validation import on_plateau, validation_due


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
    arguments = tiny(validate_every=1, patience=3, episodes=500, lr=1e-9, validation_episodes=4)
    assert main(["train", "tpn", *arguments, "--out", str(tmp_path / "run")]) == 0
    assert "plateau" in capsys.readouterr().out
    metrics = Run(tmp_path / "run").read_metrics()
    assert [line["best"] for line in metrics[-3:]] == [False] * 3
    best = max(metrics, key=lambda line: line["val_accuracy"])
    assert metrics[-4] == best
    assert len(metrics) < 100


def test_the_last_step_is_no_longer_than_the_training(tmp_path):
    arguments = tiny(episodes=7, episodes_per_step=3, validate_every=100)
    assert main(["train", "tpn", *arguments, "--out", str(tmp_path / "run")]) == 0
    assert [line["episode"] for line in Run(tmp_path / "run").read_metrics()] == [0, 7]


def test_more_patience_goes_on_after_a_plateau(tmp_path, capsys):
    run = flags(out=tmp_path / "run", threads=1)
    arguments = tiny(validate_every=1, patience=1, episodes=12, lr=1e-9)
    assert main(["train", "tpn", *arguments, *run]) == 0
    ended = len(Run(tmp_path / "run").read_metrics())
    assert ended < 13
    assert main(["train", "tpn", *run, "--resume", "--patience", "0"]) == 0
    assert len(Run(tmp_path / "run").read_metrics()) == 13


def test_a_loss_that_is_not_a_number_ends_the_training_with_a_word():
    training = training_of("tpn")
    training.method.learn = lambda task, backward: Learned(float("nan"), 0.2)
    before = [parameter.detach().clone() for parameter in training.method.parameters()]
    with pytest.raises(TPNError, match=r"diverged.* episode 0 is nan\. .*smaller lr"):
        make_steps(training)
    assert all(torch.equal(*pair) for pair in zip(before, training.method.parameters(), strict=True))


def test_a_hundred_episodes_teach_it_to_tell_unseen_drawings_apart(tmp_path, capsys):
    def accuracy_after(episodes):
        run = str(tmp_path / episodes)
        settings = ["--backbone", "conv4-32", "--query", "6", "--validation-episodes", "10", "--threads", "1"]
        assert main(["train", "tpn", "--episodes", episodes, *settings, "--out", run]) == 0
        capsys.readouterr()
        assert main(["evaluate", run, "--episodes", "150", "--query", "6", "--threads", "1", "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        return result["accuracy"], result["ci95"]

    (before, spread), (after, interval) = accuracy_after("1"), accuracy_after("100")
    assert after - interval > before + spread, "the intervals are apart"
    assert (tmp_path / "100" / "tensorboard").is_dir()


def test_memory_does_not_grow_with_the_number_of_steps():
    """Eight steps hold no more tensors in the end than two: the gradients of the last one."""
    training = training_of("tpn")
    make_steps(training, 2)

    def kept(steps):
        with profile(profile_memory=True) as profiled:
            make_steps(training, steps)
        return sum(event.self_cpu_memory_usage for event in profiled.function_events)

    gradients = sum(4 * parameter.numel() for parameter in training.method.parameters())
    assert kept(2) == pytest.approx(gradients, rel=0.01), "what is kept is noticed"
    assert abs(kept(8) - kept(2)) < 6 * 4, "less than one number for each step"


def test_drawing_a_task_gives_the_images_of_its_episodes(drawings):
    first, again = sampler(drawings, seed=5), sampler(drawings, seed=5)
    task = draw_task(first, 2)
    for inputs, labels in zip(task.inputs, task.support_labels, strict=True):
        episode = again.draw()
        assert torch.equal(inputs, drawings.load(episode.images))
        assert (labels.numpy() == episode.labels[: len(labels)]).all()
        assert inputs.is_contiguous(memory_format=torch.channels_last)
