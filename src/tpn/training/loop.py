"""The training loop, by episodes or mini-batches, resumable at any point."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tpn.allocator import give_back_freed_memory
from tpn.errors import TPNError
from tpn.methods._method import Learned
from tpn.progress import progress
from tpn.training.checkpoint import State
from tpn.training.learner import Learner
from tpn.training.optimiser import learning_rate, set_learning_rate
from tpn.training.setup import Training
from tpn.training.stopping import Stopped, listening
from tpn.training.tensorboard import TensorBoard
from tpn.training.validation import advice, on_plateau, record, truncate_metrics, validate, validation_due

WORTH_A_FIGURE = 30.0
"""Seconds of training after which the second that it takes to draw an episode does not matter."""


@dataclass(frozen=True)
class Callbacks:
    """Functions of the user to call during training, for other loggers."""

    on_step: Callable[[dict[str, Any]], None] | None = None
    """Called after each optimiser step with its episode, loss, accuracy and lr."""
    on_validation: Callable[[dict[str, Any]], None] | None = None
    """Called after each validation with the line of metrics.jsonl."""


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    state: State
    stopped_by: int | None
    """The signal that ended it early, if one did."""
    plateau: bool
    """Whether it ended because the validation accuracy reached a plateau."""


def train(training: Training, callbacks: Callbacks = Callbacks()) -> Outcome:  # noqa: B008
    """Train until the last episode, a plateau, or a signal to stop, from the state that `Training.restore` loaded.

    Resuming is exact on a CPU: with the same versions and number of threads, a training that was killed at any time
    ends in the same weights and metrics as an uninterrupted one. With several processes, the first validates and writes
    files; the others only learn.
    """
    run, config, execution, method = training.run, training.config, training.execution, training.method
    settings, processes, state = config.settings, execution.processes, training.state
    processes.check(settings, state.episode)
    if processes.by_first(lambda: (config.digest, state.episode)) != (config.digest, state.episode):
        raise TPNError("All processes must see the same run folder, the same settings and the same images.")
    processes.wait()  # until all have read what the first now changes
    processes.by_first(lambda: begin(training))
    board = TensorBoard(run.folder, state.episode, asdict(config)) if processes.first else None
    started = time.perf_counter() - state.seconds
    stopped_by = None
    shown = progress("training", settings.episodes, method.info.counted_in[1], done=state.episode)
    with listening() as request, shown if processes.first else nullcontext(ignore) as advance:
        learner = Learner(method, training.scaler, processes, config.seed, request)

        def save() -> int | None:
            training.state.seconds = time.perf_counter() - started
            training.save()
            return learner.signal

        def validate_and_save() -> State:
            with training.evaluated_weights():
                metrics = validate(training, request)
                record(training, metrics)
            save()
            if board is not None:
                board.validation(metrics)
            if callbacks.on_validation is not None:
                callbacks.on_validation(metrics)
            return training.state

        try:
            while True:
                if validation_due(training.state, settings):
                    training.state = processes.by_first(validate_and_save)
                    give_back_freed_memory()
                state = training.state
                if state.episode >= settings.episodes or on_plateau(state, settings):
                    break
                learner.raise_if_asked()
                before = state.episode
                learned = step(training, learner)
                advance(state.episode - before, **state.means, best=state.best_accuracy)
                if board is not None:
                    board.step(learned, state.episode)
                if callbacks.on_step is not None and processes.first:
                    lr = learning_rate(settings, before)
                    callbacks.on_step({"episode": state.episode, **asdict(learned), "lr": lr})
            if board is not None and board.writes and training.state.seconds >= WORTH_A_FIGURE:
                log_episode(training, board)
        except Stopped:
            stopped_by = processes.by_first(save)
        finally:
            if board is not None:
                board.close()
    return Outcome(training.state, stopped_by, on_plateau(training.state, settings))


def log_episode(training: Training, board: TensorBoard) -> None:
    """Add a plot of the first validation episode, with the current predictions, to the TensorBoard log."""
    from tpn.evaluation.plots.episode import draw_episode

    if training.method.embeds and not training.images.are_features:
        figure = draw_episode(training.method, training.validation, training.validation_episodes[0], "validation")
        board.figure("episode", figure, training.state.episode)


def begin(training: Training) -> None:
    """Write config.json, and drop metrics that are newer than the checkpoint."""
    run, config = training.run, training.config
    truncate_metrics(run, training.state.validations)
    if not run.exists or run.read_config() != config:
        run.write_config(config, training.execution.facts)


def step(training: Training, learner: Learner) -> Learned:
    """Make one optimiser step from the next episodes."""
    method, optimiser, state, settings = training.method, training.optimiser, training.state, training.config.settings
    set_learning_rate(optimiser, settings, state.episode)
    optimiser.zero_grad()
    episodes = min(settings.episodes_per_step, settings.episodes - state.episode)
    learner.seed(state.episode)
    learned = learner.learn(training.draw(episodes, learner.share))
    if not math.isfinite(learned.loss):
        raise TPNError(f"Training diverged: the loss at episode {state.episode} is {learned.loss}. {advice(settings)}")
    training.scaler.unscale_(optimiser)
    if settings.clip:
        torch.nn.utils.clip_grad_norm_(method.parameters(), settings.clip)
    training.scaler.step(optimiser)
    training.scaler.update()
    state.episode += episodes
    state.loss_sum += learned.loss
    state.accuracy_sum += learned.accuracy
    state.steps += 1
    if training.averaged is not None:
        training.averaged.update(state.episode // settings.episodes_per_step)
    return learned


def ignore(count: int, **figures: float) -> None:
    """Show no progress."""
