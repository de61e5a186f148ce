"""Trainings without a command and without a folder, to look at single steps."""

from typing import Any

from tests.tiny import SETTING
from tpn.episodes.setting import Setting
from tpn.images.opening import open_images
from tpn.methods._registry import find_method
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run
from tpn.training.device import ON_CPU, Execution
from tpn.training.learner import Learner
from tpn.training.loop import step
from tpn.training.setup import Training


def training_of(
    method: str, execution: Execution = ON_CPU, setting: Setting | None = None, **settings: Any
) -> Training:
    """A new training on the drawings. Nothing is written as long as it is not run."""
    images = open_images("quickdraw")
    config = RunConfig.on(
        images,
        method=method,
        settings=find_method(method).Config(**{"validation_episodes": 1, **settings}),
        episode=setting or Setting(**SETTING),
        class_seed=0,
        seed=0,
    )
    return Training.build(Run("nowhere"), config, images, execution)


def make_steps(training: Training, count: int = 1) -> None:
    """Make optimiser steps."""
    learner = Learner(training.method, training.scaler, training.execution.processes)
    for _ in range(count):
        step(training, learner)
