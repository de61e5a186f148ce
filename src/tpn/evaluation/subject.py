"""A method and the images to test it on: open a run, draw episodes, test. All workflows with tests use it."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
from tpn.methods._method import Dimensions, Method, check_way_and_shot
from tpn.methods._registry import find_method
from tpn.progress import progress
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
    device: torch.device = CPU,
) -> Subject:
    """Load the method of a run, and open the images to test it on (by default those of the run)."""
    config = run.read_config()
    images = open_run_images(run, config, data, cache)
    if images.channels != config.channels:
        raise TPNError(
            f"{run.folder} was trained on images of {config.channels} channel(s); those of {images.spec} have "
            f"{images.channels}."
        )
    method = load_run(run, config, as_method, backbone).to(device)
    return Subject(method, images.spec, images.split(split), config)


def open_run_images(run: Run, config: RunConfig, data: str | Images | None, cache: Path | None) -> Images:
    """Open the images to test a run on, in the size that it was trained on."""
    if isinstance(data, Images):
        if data.image_size != config.image_size:
            raise TPNError(
                f"{run.folder} was trained on images of {config.image_size}x{config.image_size} pixels; those of "
                f"{data.spec} have {data.image_size}x{data.image_size}. Give images_from the right image_size."
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
    return Subject(method, images.spec, images.split(split))
