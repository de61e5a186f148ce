"""The training loop, by episodes or mini-batches, resumable at any point."""

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch.amp import GradScaler
from torch.optim import Optimizer

from tpn.allocator import give_back_freed_memory
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.sampler import Learnable, Sampler, load_images
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode
from tpn.errors import TPNError
from tpn.evaluation.protocol import evaluate
from tpn.files import explaining_failure, replacing
from tpn.images.augmentation import augment
from tpn.images.split import Images, Split
from tpn.methods._config import Config
from tpn.methods._method import Learned, Method
from tpn.methods._registry import build_method, find_method
from tpn.progress import progress
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run, read_metrics
from tpn.runs.loading import save_weights
from tpn.runs.tensors import not_finite
from tpn.training.checkpoint import State, restore_checkpoint, save_checkpoint
from tpn.training.device import ON_CPU, Execution
from tpn.training.learner import Learner
from tpn.training.optimiser import build_optimiser, learning_rate
from tpn.training.stopping import Stopped, StopRequest, listening
from tpn.training.tensorboard import TensorBoard
from tpn.training.warm_start import copy_backbone, copy_head, warm_start_source

VALIDATION_SEED = 1_000_003
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


@dataclass
class Training:
    """A method and the state of its training. Building it neither reads nor writes the run folder."""

    run: Run
    config: RunConfig
    images: Images
    execution: Execution
    method: Method
    optimiser: Optimizer
    scaler: GradScaler
    sampler: Sampler
    validation: Split
    validation_episodes: list[Episode]
    state: State = field(default_factory=State)

    @classmethod
    def build(cls, run: Run, config: RunConfig, images: Images, execution: Execution = ON_CPU) -> "Training":
        """Build the method, optimiser and sampler, and draw the validation episodes; refuse what cannot be trained."""
        torch.manual_seed(config.seed)
        settings = config.settings
        method = build_method(config.method, settings, config.dimensions).train()
        execution.prepare(method)
        sampler = type(method).sampler(images.split("train"), config.episode, settings, config.seed)
        validation = images.split("val")
        episodes = draw_episodes(
            validation, validation_setting(config, validation), settings.validation_episodes, VALIDATION_SEED
        )
        return cls(
            run,
            config,
            images,
            execution,
            method,
            build_optimiser(method),
            execution.scaler(),
            sampler,
            validation,
            episodes,
        )

    def restore(self) -> None:
        """Restore the checkpoint of the run or, if it has none, initialise the method (with a warm start, if asked)."""
        method, config = self.method, self.config
        if self.run.checkpoint_file.is_file():
            self.state = restore_checkpoint(
                self.run.checkpoint_file, config.digest, method, self.optimiser, self.scaler, self.sampler
            )
            if self.state.validations:
                self.run.read_weights(config)  # refuses if the best weights so far are lost or damaged
            return
        source = warm_start_source(config)
        if source is not None:
            copy_backbone(method, source)
        first = type(method).sampler(self.sampler.split, config.episode, config.settings, config.seed)
        method.initialise(draw_step(first, config.settings.episodes_per_step, method.device))
        if source is not None:
            copy_head(method, source)

    def save(self) -> None:
        """Write the checkpoint."""
        save_checkpoint(
            self.run.checkpoint_file,
            self.config.digest,
            self.state,
            self.method,
            self.optimiser,
            self.scaler,
            self.sampler,
        )


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
    for group in optimiser.param_groups:
        group["lr"] = learning_rate(settings, state.episode)
    optimiser.zero_grad()
    episodes = min(settings.episodes_per_step, settings.episodes - state.episode)
    learner.seed(state.episode)
    learned = learner.learn(draw_step(training.sampler, episodes, method.device, settings.augment, learner.share))
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
    return learned


def draw_step(
    sampler: Sampler,
    episodes: int,
    device: torch.device,
    augmentations: tuple[str, ...] = (),
    share: Callable[[list[Any]], list[Any]] = lambda drawn: drawn,
) -> Learnable:
    """Draw the episodes of one step, and load the images of this process's share of them."""
    drawn = share([sampler.draw() for _ in range(episodes)])
    images = load_images(sampler.split, drawn)
    augmented = augment(images.flatten(0, 1), augmentations).view(images.shape)
    return sampler.collate(drawn, augmented.to(device))


def validate(training: Training, request: StopRequest) -> dict[str, Any]:
    """Test on the validation classes, and update the state; return the line for metrics.jsonl."""
    state, settings = training.state, training.config.settings
    if broken := not_finite(training.method.state_dict()):
        raise TPNError(f"Training diverged: {broken} is not finite at episode {state.episode}. {advice(settings)}")
    result = evaluate(
        training.method,
        training.validation,
        training.validation_episodes,
        advance=lambda count: request.raise_if_asked(),
    ).mean
    best = result.value > state.best_accuracy
    means = state.means if state.steps else {"loss": None, "accuracy": None}
    metrics = {
        "episode": state.episode,
        "train_loss": means["loss"],
        "train_accuracy": means["accuracy"],
        "val_accuracy": result.value,
        "val_ci95": result.ci95,
        "lr": learning_rate(settings, state.episode),
        "best": best,
    }
    if best:
        state.best_accuracy, state.best_episode, state.validations_since_best = result.value, state.episode, 0
    else:
        state.validations_since_best += 1
    state.validations += 1
    state.validated_at = state.episode
    state.loss_sum = state.accuracy_sum = 0.0
    state.steps = 0
    return metrics


def record(training: Training, metrics: dict[str, Any]) -> None:
    """Append a line to metrics.jsonl and, if it is the best so far, write the weights, before the checkpoint."""
    run = training.run
    with explaining_failure(run.metrics_file), open(run.metrics_file, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(metrics) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    if metrics["best"]:
        facts = {"run": training.config.digest} | {name: metrics[name] for name in ("episode", "val_accuracy")}
        save_weights(training.method, run.model_file, facts)


def check_metrics(run: Run, validations: int) -> list[bytes]:
    """Return the lines of metrics.jsonl; refuse them if they are damaged or do not match the checkpoint.

    At most one line, possibly incomplete, can be newer than the checkpoint.
    """
    lines = run.metrics_file.read_bytes().splitlines(keepends=True) if run.metrics_file.is_file() else []
    if not validations <= len(lines) <= validations + 1:
        known = f"knows of {validations}" if validations else "is missing or knows of no"
        raise TPNError(
            f"{run.folder} is damaged: metrics.jsonl has {len(lines)} lines, but the checkpoint beside it {known} "
            "validations."
        )
    read_metrics(b"".join(lines[:validations]), run.metrics_file)
    return lines


def truncate_metrics(run: Run, validations: int) -> None:
    """Drop the line of metrics.jsonl that is newer than the checkpoint, if there is one; it will be written again."""
    lines = check_metrics(run, validations)
    if len(lines) != validations:
        with replacing(run.metrics_file) as stream:
            stream.write(b"".join(lines[:validations]))


def validation_setting(config: RunConfig, split: Split) -> Setting:
    """Return the setting of validation episodes: that of training, with at most the classes of the split."""
    setting, room = config.episode, len(split.classes) - config.episode.distractors
    fixed = find_method(config.method).info.fixed_way or setting.query_counts is not None
    return setting if fixed or setting.way <= room or room < 2 else replace(setting, way=room)


def validation_due(state: State, config: Config) -> bool:
    """Return whether to validate now: before the first episode, after the last, every `validate_every` episodes."""
    if state.validated_at < 0 or state.episode >= config.episodes:
        return state.validated_at != state.episode
    return state.episode // config.validate_every > state.validated_at // config.validate_every


def on_plateau(state: State, config: Config) -> bool:
    """Return whether the last `patience` validations brought no better accuracy."""
    return config.patience > 0 and state.validations_since_best >= config.patience


def advice(settings: Config) -> str:
    """Return advice against divergence, for an error message."""
    return f"Try a smaller --lr{' or --inner-lr' if hasattr(settings, 'inner_lr') else ''}."


def ignore(count: int, **figures: float) -> None:
    """Show no progress."""
