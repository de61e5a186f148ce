"""The options of commands that open images."""

from dataclasses import dataclass
from pathlib import Path

from tpn.cli.parsing import Flag
from tpn.images.opening import open_images
from tpn.images.split import Images


@dataclass(frozen=True, kw_only=True)
class CacheOption:
    """Where prepared images are kept."""

    cache: Path | None = None
    """Where prepared images are kept; if not given, where TPN_CACHE says, or ~/.cache/tpn."""


@dataclass(frozen=True, kw_only=True)
class ImageOptions(CacheOption):
    """How images are prepared, and where they are kept."""

    image_size: int | None = None
    """Scale the images to so many pixels in height and width; if not given, 84 (drawings: 28, as they are)."""
    class_seed: int = 0
    """Which classes of a folder without splits are for training, validation and testing."""
    strict: Flag = False
    """Refuse images with anything wrong, instead of leaving out what cannot be used."""

    def open(self, spec: str, verify: bool = False) -> Images:
        """The images that `spec` names."""
        return open_images(
            spec,
            self.image_size,
            cache=self.cache,
            strict=self.strict,
            class_seed=self.class_seed,
            verify=verify,
        )
