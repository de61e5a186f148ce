"""Training by episodes, from the first to the last, resumable at any moment."""

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from tpn.allocator import give_back_freed_memory
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.mini_batches import MiniBatches
from tpn.episodes.sampler import Draws
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode, TrainingTask, as_training_task
from tpn.errors import TPNError
from tpn.evaluation.protocol import draw_episodes, evaluate, load_images
from tpn.files import explaining_failure, replacing
from tpn.images.augmentation import Augmentation, augment
from tpn.images.split import Images, Split
from tpn.methods._config import Config
from tpn.methods._method import Method
from tpn.methods._registry import build_method, find_method
from tpn.methods.classifier_baseline import BaseClassConfig
from tpn.progress import progress
from tpn.runs.folder import Run, RunConfig, read_metrics, save_weights
from tpn.runs.tensors import not_finite
from tpn.training.checkpoint import State, restore_checkpoint, save_checkpoint
from tpn.training.device import CPU, ON_CPU, Machine
from tpn.training.distributed import ALONE, Part, Processes
from tpn.training.optimiser import build_optimiser, learning_rate
from tpn.training.stopping import Stopped, StopRequest, listening
from tpn.training.tensorboard import Board
from tpn.training.warm_start import starting_point, take_over_backbone, take_over_rest

VALIDATION_SEED = 1_000_003


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    state: State
    stopped_by: int | None
    """The signal that ended it early, if one did."""
    plateau: bool
    """Did it end because validation got no better?"""


def ignore(*_: Any, **figures: float) -> None:
    """Announce the start, or progress, to nobody."""


def validation_setting(config: RunConfig, split: Split) -> Setting:
    """What a validation episode is made of: as in training, but with no more classes than there are."""
    setting, room = config.episode, len(split.classes) - config.episode.distractors
    fixed = find_method(config.method).info.fixed_way or setting.query_counts is not None
    return setting if fixed or setting.way <= room or room < 2 else replace(setting, way=room)


def training_sampler(config: RunConfig, split: Split) -> Draws:
    """What draws the images of each step: episodes, or mini-batches of all classes."""
    if find_method(config.method).info.learns_from == "classes":
        assert isinstance(config.settings, BaseClassConfig)
        return MiniBatches(split, config.episode, config.settings.batch_size, config.seed)
    return EpisodeSampler(split, config.episode, config.seed)


def validation_due(state: State, config: Config) -> bool:
    """Validate before the first episode, after the last, and whenever `validate_every` episodes have gone by."""
    if state.validated_at < 0 or state.episode >= config.episodes:
        return state.validated_at != state.episode
    return state.episode // config.validate_every > state.validated_at // config.validate_every


def on_plateau(state: State, config: Config) -> bool:
    """Has validation not improved for `patience` validations?"""
    return config.patience > 0 and state.validations_since_best >= config.patience


def train(
    run: Run,
    config: RunConfig,
    images: Images,
    machine: Machine = ON_CPU,
    announce: Callable[[State], None] = ignore,
) -> Outcome:
    """Train until the last episode, a plateau, or a signal to stop. Continues from the run's checkpoint if it has one.

    Continuing is exact on a processor: with the same torch and number of threads, a training that was killed at any
    moment ends in the same weights and metrics as one that was not. `announce` is called when all is ready, with how
    far it has come. With several processes, the first of them announces, validates and writes; the others only learn.
    """
    settings, split, processes = config.settings, images.split("train"), machine.processes
    torch.manual_seed(config.seed)
    method = build_method(config.method, settings, config.dimensions).train()
    machine.prepare(method)
    optimiser = build_optimiser(method)
    sampler = training_sampler(config, split)
    validation = images.split("val")
    validation_episodes = draw_episodes(
        validation, validation_setting(config, validation), settings.validation_episodes, VALIDATION_SEED
    )

    state = restored_or_new(run, config, split, machine.device, method, optimiser, sampler)
    processes.check(settings, state.episode)
    if processes.by_first(lambda: (config.digest, state.episode)) != (config.digest, state.episode):
        raise TPNError("All processes must see the same run folder, the same settings and the same images.")

    def begin() -> None:
        keep_metrics(run, state.validations)
        announce(state)

    processes.wait()  # until all have read what the first now changes
    processes.by_first(begin)
    board = Board(run.folder, state.episode) if processes.first else None
    clock = time.perf_counter() - state.seconds
    stopped_by = None
    shown = progress("training", settings.episodes, method.info.counted_in[1], done=state.episode)

    with listening() as request, shown if processes.first else nullcontext(ignore) as advance:
        part = Part(method, processes, config.seed, request)

        def save() -> int | None:
            state.seconds = time.perf_counter() - clock
            save_checkpoint(run.checkpoint_file, config.digest, state, method, optimiser, sampler)
            return part.signal

        def validate_and_save() -> State:
            line = validate(method, validation, validation_episodes, state, settings, request)
            record(run, config, method, line)
            if board is not None:
                board.write(line, state.episode)
            save()
            return state

        try:
            while True:
                if validation_due(state, settings):
                    state = processes.by_first(validate_and_save)
                    give_back_freed_memory()
                if state.episode >= settings.episodes or on_plateau(state, settings):
                    break
                part.raise_if_asked()
                before = state.episode
                loss, accuracy = step(method, optimiser, sampler, state, settings, part)
                advance(state.episode - before, loss=loss, accuracy=accuracy, best=state.best_accuracy)
        except Stopped:
            stopped_by = processes.by_first(save)
        finally:
            if board is not None:
                board.close()
    return Outcome(state, stopped_by, on_plateau(state, settings))


def restored_or_new(
    run: Run,
    config: RunConfig,
    split: Split,
    device: torch.device,
    method: Method,
    optimiser: torch.optim.Optimizer,
    sampler: Draws,
) -> State:
    """Put everything back as the run's checkpoint has it or, if it has none, get the method ready to begin."""
    if run.checkpoint_file.is_file():
        state = restore_checkpoint(run.checkpoint_file, config.digest, method, optimiser, sampler)
        if state.validations:
            run.read_weights(config)  # refuses if the best weights so far are lost or damaged
        return state
    source = starting_point(config)
    if source is not None:
        take_over_backbone(method, source)
    method.start(draw_task(training_sampler(config, split), config.settings.episodes_per_step, device=device))
    if source is not None:
        take_over_rest(method, source)
    return State()


def draw_task(
    sampler: Draws,
    episodes: int,
    augmentations: tuple[Augmentation, ...] = (),
    device: torch.device = CPU,
    processes: Processes = ALONE,
) -> TrainingTask:
    """Draw the episodes of one step, with the images of those that are this process's share."""
    drawn = processes.share([sampler.draw() for _ in range(episodes)])
    images = load_images(sampler.split, drawn)
    changed = augment(images.flatten(0, 1), augmentations).view(images.shape)
    return as_training_task(drawn, changed.to(device))


def step(
    method: Method,
    optimiser: torch.optim.Optimizer,
    sampler: Draws,
    state: State,
    settings: Config,
    part: Part | None = None,
) -> tuple[float, float]:
    """Learn from the next episodes; returns the mean loss and accuracy since the last validation."""
    part = part or Part(method)
    for group in optimiser.param_groups:
        group["lr"] = learning_rate(settings, state.episode)
    optimiser.zero_grad()
    episodes = min(settings.episodes_per_step, settings.episodes - state.episode)
    part.seed(state.episode)
    learned = part.learn(draw_task(sampler, episodes, settings.augment, method.device, part.processes))
    if not math.isfinite(learned.loss):
        raise TPNError(f"Training diverged: the loss at episode {state.episode} is {learned.loss}. {advice(settings)}")
    method.scaler.unscale_(optimiser)
    if settings.clip:
        torch.nn.utils.clip_grad_norm_(method.parameters(), settings.clip)
    method.scaler.step(optimiser)
    method.scaler.update()
    state.episode += episodes
    state.loss_sum += learned.loss
    state.accuracy_sum += learned.accuracy
    state.steps += 1
    return state.loss_sum / state.steps, state.accuracy_sum / state.steps


def advice(settings: Config) -> str:
    """What may help against diverging."""
    return f"Try a smaller --lr{' or --inner-lr' if hasattr(settings, 'inner_lr') else ''}."


def validate(
    method: Method, split: Split, episodes: list[Episode], state: State, settings: Config, request: StopRequest
) -> dict[str, Any]:
    """Test on the validation classes, and note in `state` what came out. Returns the line for metrics.jsonl."""

    def check(_: int) -> None:
        request.raise_if_asked()

    if broken := not_finite(method.state_dict()):
        raise TPNError(f"Training diverged: {broken} is not finite at episode {state.episode}. {advice(settings)}")
    result = evaluate(method, split, episodes, advance=check).mean
    best = result.value > state.best_accuracy
    line = {
        "episode": state.episode,
        "train_loss": state.loss_sum / state.steps if state.steps else None,
        "train_accuracy": state.accuracy_sum / state.steps if state.steps else None,
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
    return line


def record(run: Run, config: RunConfig, method: Method, line: dict[str, Any]) -> None:
    """Write a validation's line and, if it was the best so far, the weights; the checkpoint comes after both."""
    with explaining_failure(run.metrics_file), open(run.metrics_file, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    if line["best"]:
        facts = {"run": config.digest, "episode": line["episode"], "val_accuracy": line["val_accuracy"]}
        save_weights(method, run.model_file, facts)


def keep_metrics(run: Run, lines: int) -> None:
    """Drop the lines of metrics.jsonl that are younger than the checkpoint; they will be written again.

    Without a checkpoint there can be one such line, or half of one, and no more.
    """
    there = run.metrics_file.read_bytes().splitlines(keepends=True) if run.metrics_file.is_file() else []
    if not lines <= len(there) <= lines + 1:
        raise TPNError(
            f"{run.folder} is damaged: metrics.jsonl has {len(there)} lines, but the checkpoint beside it "
            f"{'knows of ' + str(lines) if lines else 'is missing or knows of no'} validations."
        )
    kept = b"".join(there[:lines])
    read_metrics(kept, run.metrics_file)  # refuses what is damaged
    if len(there) != lines:
        with replacing(run.metrics_file) as stream:
            stream.write(kept)
