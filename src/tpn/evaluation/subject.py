"""A method and the images to test it on: open a run, draw episodes, test. All workflows with tests use it."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tpn.backbones._registry import Network
from tpn.backbones.batch_norm import keeps_statistics
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import BatchNorm, Setting
from tpn.errors import TPNError, TPNWarning
from tpn.evaluation.protocol import (
    Evaluation,
    evaluate_each,
    images_to_embed,
    transduction,
)
from tpn.images.opening import open_images
from tpn.images.split import Images, Split
from tpn.methods._head import Head
from tpn.methods._method import Dimensions, Method, check_way_and_shot
from tpn.methods._registry import find_method
from tpn.progress import progress
from tpn.runs.base_mean import base_means, store_base_means
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run
from tpn.runs.loading import load_run

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Subject:
    """A method, and the split to test it on."""

    method: Method
    data: str
    split: Split
    config: RunConfig | None = None
    """The settings of the run, if the method comes from one."""

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.method.info.name

    def check(self, setting: Setting) -> None:
        """Refuse episodes that the method was not trained for."""
        check_way_and_shot(self.method.info, self.method.dimensions, setting.way, [setting.shot])

    def batch_norm(self, asked: BatchNorm) -> BatchNorm:
        """Return the statistics that batch normalisation uses: some methods have no running statistics."""
        return asked if keeps_statistics(self.method) else "batch"

    def transduction(self, asked: BatchNorm) -> str:
        """Return whether queries share information, as `tpn.evaluation.protocol.transduction` does."""
        return transduction(self.method, asked)

    def test(
        self,
        settings: list[Setting],
        episodes: int,
        seed: int,
        batch_norm: BatchNorm = "running",
        what: str = "testing",
    ) -> Iterator[Evaluation]:
        """Test in several settings; every image of any setting is embedded once."""
        drawn = [draw_episodes(self.split, setting, episodes, seed) for setting in settings]
        total = images_to_embed(self.method, [episode for test in drawn for episode in test], batch_norm)
        with progress(what, total, "images") as advance:
            yield from evaluate_each(self.method, self.split, drawn, batch_norm, advance)


def open_run(
    run: Run,
    data: str | Images | None = None,
    split: str = "test",
    *,
    cache: Path | None = None,
    as_method: str | None = None,
    backbone: str | Network | None = None,
    settings: dict[str, Any] | None = None,
    device: torch.device = CPU,
) -> Subject:
    """Load the method of a run, and open the images to test it on (by default those of the run).

    `settings` are those of the head that the run is tested as.
    """
    config = run.read_config()
    images = open_run_images(run, config, data, cache)
    tested = in_colour(images.split(split), config.channels)
    if tested is None:
        raise TPNError(
            f"{run.folder} was trained on images of {config.channels} channel(s); those of {images.spec} have "
            f"{images.channels}."
        )
    method = load_run(run, config, as_method, backbone, settings).to(device)
    if isinstance(method, Head) and method.needs_base_means:
        provide_base_means(method, run, config, images, cache)
    return Subject(method, images.spec, tested, config)


def in_colour(split: Split, channels: int) -> Split | None:
    """Return a split with this number of channels: grey images become colour images of three equal channels."""
    present = split.images.shape[-1]
    if present == channels:
        return split
    if (present, channels) != (1, 3):
        return None
    return replace(split, images=np.broadcast_to(split.images, (*split.images.shape[:-1], channels)))


def provide_base_means(head: Head, run: Run, config: RunConfig, images: Images, cache: Path | None) -> None:
    """Compute the mean features of the training classes of a run, which its folder does not have yet, and keep them."""
    try:
        if images.digest != config.data_digest:
            images = open_run_images(run, config, None, cache)
        split = images.split("train")
    except TPNError as failure:
        if head.config.transform == "cl2":
            raise TPNError(
                f"--transform cl2 subtracts the mean feature of the training classes of {run.folder}, whose images "
                f"cannot be opened: {failure.command_line_text}"
            ) from failure
        warnings.warn(
            f"The training images of {run.folder} cannot be opened, so their mean feature is not subtracted "
            "(transform l2 instead of cl2).",
            TPNWarning,
            stacklevel=3,
        )
        return
    means = base_means(head, split)
    store_base_means(run, config, means)
    head.set_base_means(means)


def open_run_images(run: Run, config: RunConfig, data: str | Images | None, cache: Path | None) -> Images:
    """Open the images to test a run on, in the size that it was trained on."""
    if isinstance(data, Images):
        if data.image_size != config.image_size:
            raise TPNError(
                f"{run.folder} was trained on images of {config.image_size}x{config.image_size} pixels; those of "
                f"{data.spec} have {data.image_size}x{data.image_size}. Open these with "
                f"image_size={config.image_size} (tpn.open_images, tpn.images_from)."
            )
        return data
    spec = config.data if data is None else data
    if spec.startswith("arrays:"):
        raise TPNError(f"{run.folder} was trained on data that was given from Python: pass it again as --data.")
    images = open_images(spec, config.image_size, cache=cache, class_seed=config.class_seed)
    if images.spec == config.data and images.digest != config.data_digest:
        warnings.warn(
            f"The images of {images.spec} have changed since {run.folder} was trained on them: "
            "some of its training classes may now be in the split that it is tested on.",
            TPNWarning,
            stacklevel=3,
        )
    return images


def head_on_features(name: str, settings: dict[str, object], images: Images, split: str, setting: Setting) -> Subject:
    """Build a method that needs no training, to test it on features."""
    kind = find_method(name)
    if not images.are_features:
        raise TPNError(
            f"{name} is a method, not a run folder: train it first, or give it features (tpn.images_from) instead of "
            "images."
        )
    if not kind.info.head:
        raise TPNError(
            f"{name} has weights of its own, so it cannot be tested on features without training: `tpn.train` it on "
            "them first."
        )
    dimensions = Dimensions(images.channels, images.image_size, setting.way, setting.shot, train_classes=2)
    method = kind(kind.Config(**{**settings, "backbone": "identity"}), dimensions).eval()  # type: ignore[arg-type]
    if isinstance(method, Head) and method.needs_base_means and "train" in images.info():
        method.set_base_means(base_means(method, images.split("train")))
    return Subject(method, images.spec, images.split(split))
