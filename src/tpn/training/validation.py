"""Validation during training: when it is due, its outcome, and what it writes to the run folder."""

import os
from typing import Any

from tpn.errors import TPNError
from tpn.evaluation.protocol import evaluate
from tpn.files import explaining_failure, replacing
from tpn.methods._config import Config
from tpn.runs.folder import Run
from tpn.runs.loading import save_weights
from tpn.runs.metrics import metrics_line, read_metrics
from tpn.runs.tensors import not_finite
from tpn.training.checkpoint import State
from tpn.training.optimiser import learning_rate
from tpn.training.setup import Training
from tpn.training.stopping import StopRequest


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
    with explaining_failure(run.metrics_file), open(run.metrics_file, "ab+") as stream:
        stream.seek(0)
        stream.write(metrics_line(metrics, stream.read()))
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
        known = f"records {validations}" if validations else "is missing or records no"
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
