"""The semi-supervised protocol: a training for each of several divisions into labelled and unlabelled images."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from tpn.episodes.setting import Setting
from tpn.evaluation.intervals import Mean, standard_error
from tpn.evaluation.protocol import draw_episodes, evaluate_each, ignore
from tpn.images.split import Images
from tpn.runs.folder import Run, RunConfig, load
from tpn.training.device import CPU

TEST_SEED = 0
"""Which episodes a test has: those of `tpn evaluate`, whatever the seed of the training."""


@dataclass(frozen=True)
class Summary:
    """What tests on several divisions showed: the uncertainty is that of the divisions."""

    tests: dict[int, Mean]
    """The division, by its seed -> the accuracy over the episodes of its test, with the 95 % interval."""

    @property
    def accuracy(self) -> float:
        """The mean over the divisions."""
        return float(np.mean([test.value for test in self.tests.values()]))

    @property
    def standard_error(self) -> float | None:
        """Of that mean."""
        return standard_error(np.array([test.value for test in self.tests.values()]))


def runs_of_splits(folder: Path, config: RunConfig, splits: int) -> dict[int, tuple[Run, RunConfig]]:
    """The runs of some divisions, from the one that `config` names on: seed -> its folder and settings."""
    first = config.episode.split_seed
    return {
        seed: (Run(folder / f"split-{seed}"), replace(config, episode=replace(config.episode, split_seed=seed)))
        for seed in range(first, first + splits)
    }


def summarise(
    runs: dict[int, Run],
    images: Images,
    settings: list[Setting],
    episodes: int,
    device: torch.device = CPU,
    advance: Callable[[int], None] = ignore,
) -> list[Summary]:
    """Test all these runs, trained on their divisions, in each of the settings, on the same episodes of new classes."""
    split = images.split("test")
    drawn = {setting: draw_episodes(split, setting, episodes, TEST_SEED) for setting in settings}
    tests: dict[Setting, dict[int, Mean]] = {setting: {} for setting in settings}
    for division, run in runs.items():
        method = load(run.folder).to(device)
        for setting, evaluation in zip(drawn, evaluate_each(method, split, list(drawn.values())), strict=True):
            tests[setting][division] = evaluation.mean
            advance(1)
    return [Summary(of_setting) for of_setting in tests.values()]
