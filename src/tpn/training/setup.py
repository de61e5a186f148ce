"""Everything that a training needs, built once, restored from a checkpoint, and saved to one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.sampler import Learnable, Sampler, load_images
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode
from tpn.images.augmentation import augment, shrink
from tpn.images.split import Images, Split
from tpn.methods._method import Method
from tpn.methods._registry import build_method, find_method
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run
from tpn.training.averaging import AveragedWeights, averaged_weights
from tpn.training.checkpoint import State, restore_checkpoint, save_checkpoint
from tpn.training.device import ON_CPU, Execution
from tpn.training.image_sizes import image_size_at, statistics_refreshed
from tpn.training.optimiser import build_optimiser
from tpn.training.warm_start import copy_backbone, copy_head, warm_start_source

VALIDATION_SEED = 1_000_003


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
    averaged: AveragedWeights | None = None
    """The average of the weights, if the settings ask for it."""
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
            averaged_weights(method),
        )

    @property
    def image_size(self) -> int:
        """The height and width of the training images of the next step."""
        return image_size_at(self.config.settings, self.state.episode, self.config.image_size)

    @contextmanager
    def evaluated_weights(self) -> Iterator[None]:
        """Give the method the weights and statistics for a test inside this block."""
        with ExitStack() as stack:
            if self.averaged is not None:
                stack.enter_context(self.averaged.in_use())
            if self.config.settings.sizes and self.method.embeds:
                stack.enter_context(statistics_refreshed(self.method, self.sampler.split))
            yield

    def restore(self) -> None:
        """Restore the checkpoint of the run or, if it has none, initialise the method (with a warm start, if asked)."""
        method, config = self.method, self.config
        if self.run.checkpoint_file.is_file():
            self.state = restore_checkpoint(
                self.run.checkpoint_file,
                config.digest,
                method,
                self.optimiser,
                self.scaler,
                self.sampler,
                self.averaged,
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
        if self.averaged is not None:
            self.averaged.restart()

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
            self.averaged,
        )

    def draw(self, episodes: int, share: Callable[[list[Any]], list[Any]]) -> Learnable:
        """Draw the episodes of the next step, with augmented images of the size that is due."""
        settings = self.config.settings

        def prepare(images: Tensor) -> Tensor:
            images = augment(images, settings.augment, settings.crop_area)
            return shrink(images, self.image_size) if self.image_size < images.shape[-1] else images

        return draw_step(self.sampler, episodes, self.method.device, prepare, share)


def draw_step(
    sampler: Sampler,
    episodes: int,
    device: torch.device,
    prepare: Callable[[Tensor], Tensor] = lambda images: images,
    share: Callable[[list[Any]], list[Any]] = lambda drawn: drawn,
) -> Learnable:
    """Draw the episodes of one step, and load and prepare the images of this process's share of them."""
    drawn = share([sampler.draw() for _ in range(episodes)])
    images = load_images(sampler.split, drawn)
    prepared = prepare(images.flatten(0, 1))
    return sampler.collate(drawn, prepared.view(*images.shape[:2], *prepared.shape[1:]).to(device))


def validation_setting(config: RunConfig, split: Split) -> Setting:
    """Return the setting of validation episodes: that of training, with at most the classes of the split."""
    setting, room = config.episode, len(split.classes) - config.episode.distractors
    fixed = find_method(config.method).info.fixed_way or setting.query_counts is not None
    return setting if fixed or setting.way <= room or room < 2 else replace(setting, way=room)
