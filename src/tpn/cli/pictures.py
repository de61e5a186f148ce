"""The options of commands that open pictures."""

from dataclasses import dataclass
from pathlib import Path

from tpn.cli.parsing import Flag
from tpn.images import Images, open_images


@dataclass(frozen=True, kw_only=True)
class CacheOption:
    """Where prepared pictures are kept."""

    cache: Path | None = None
    """Where prepared pictures are kept; if not given, where TPN_CACHE says, or ~/.cache/tpn."""


@dataclass(frozen=True, kw_only=True)
class PictureOptions(CacheOption):
    """How pictures are prepared, and where they are kept."""

    image_size: int | None = None
    """Scale the pictures to so many pixels in height and width; if not given, 84 (drawings: 28, as they are)."""
    class_seed: int = 0
    """Which classes of a folder without splits are for training, validation and testing."""
    strict: Flag = False
    """Refuse pictures with anything wrong, instead of leaving out what cannot be used."""

    def open(self, spec: str, verify: bool = False) -> Images:
        """The pictures that `spec` names."""
        return open_images(
            spec,
            self.image_size,
            cache=self.cache,
            strict=self.strict,
            class_seed=self.class_seed,
            verify=verify,
        )
