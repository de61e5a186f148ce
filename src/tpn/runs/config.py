"""The settings of a run, as config.json stores them."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.images.split import Images
from tpn.methods._config import Config
from tpn.methods._method import Dimensions

ENDS = {"episodes": 1, "patience": 0}
"""Settings that determine when training ends, which resuming may change, with fixed values for the digest."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines the outcome of a run: method, settings, data, seeds, initial weights."""

    method: str
    settings: Config
    episode: Setting
    data: str
    image_size: int
    channels: int
    train_classes: int
    mean: tuple[float, ...]
    """Mean of the training images in each channel, for values from 0 to 1."""
    std: tuple[float, ...]
    data_digest: str
    """A digest of the images, which identifies them."""
    class_seed: int
    seed: int
    init: str | None = None
    """The run whose weights initialised this one (warm start)."""
    init_weights: str = ""
    """A digest of those weights."""
    began_as: str = ""
    """The digest of the run when it began, if this version of tpn would compute another."""

    def __post_init__(self) -> None:
        for name, least in (("image_size", 1), ("channels", 1), ("train_classes", 1)):
            if getattr(self, name) < least:
                raise TPNError(f"{name} must be at least {least}, not {getattr(self, name)}.")
        if len(self.mean) not in (0, self.channels) or len(self.std) != len(self.mean):
            raise TPNError(f"mean and std must have one number for each of the {self.channels} channels.")

    @classmethod
    def on(cls, images: Images, **settings: Any) -> "RunConfig":
        """Return the settings of a run on these images: those given, and those that follow from the images."""
        return cls(
            data=images.spec,
            image_size=images.image_size,
            channels=images.channels,
            train_classes=len(images.split("train").classes),
            mean=images.mean,
            std=images.std,
            data_digest=images.digest,
            **settings,
        )

    @property
    def digest(self) -> str:
        """A digest of the settings, except for paths and the end of training; it ties weights to their run."""
        return self.began_as or content_digest(asdict(self))

    @property
    def dimensions(self) -> Dimensions:
        """The shape of the data for which the network is built."""
        way, shot = self.episode.way, self.episode.shot
        return Dimensions(self.channels, self.image_size, way, shot, self.train_classes, self.mean, self.std)

    def differences(self, other: "RunConfig") -> list[str]:
        """Describe the settings in which two runs differ."""
        mine, others = (_flatten(asdict(replace(config, began_as=""))) for config in (self, other))
        return [
            f"{name} is {others.get(name)}, not {mine.get(name)}"
            for name in {**mine, **others}
            if mine.get(name) != others.get(name)
        ]


def content_digest(content: dict[str, Any]) -> str:
    """Compute the digest of a run from the content of its config.json."""
    decisive = {name: value for name, value in content.items() if name != "began_as"}
    settings = content.get("settings")
    decisive |= {"data": "", "init": None, "settings": {**(settings if isinstance(settings, dict) else {}), **ENDS}}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


def _flatten(nested: dict[str, Any]) -> dict[str, Any]:
    """Return nested settings as one flat dict, with names as flags."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        flat.update(_flatten(value) if isinstance(value, dict) else {name.replace("_", "-"): value})
    return flat
