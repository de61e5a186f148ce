"""The names of image sources. Nothing here needs torch, so that a wrong name is refused at once."""

import os
from pathlib import Path

from tpn.errors import TPNError
from tpn.files import resolved
from tpn.images.cache_folder import cache_folder

LARGEST_SIZE = 1024
"""No few-shot network takes larger images."""
KINDS = ("mini-imagenet", "tiered-imagenet", "folder")
"""Sources that are followed by a path."""
SOURCES = "quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH or folder:PATH"


def parse_source(source: object) -> tuple[str, str]:
    """Divide the name of a source into its kind and its path; the path of quickdraw is empty."""
    if not isinstance(source, str):
        hint = (
            f'Write the path as "folder:{source}".'
            if hasattr(source, "__fspath__")
            else "Use tpn.images_from for arrays, features and torch datasets."
        )
        raise TPNError(f"The name of a source is a string ({SOURCES}), not a {type(source).__name__}. {hint}")
    kind, _, path = source.partition(":")
    if source == "quickdraw":
        return kind, path
    if kind == "arrays":
        raise TPNError(
            f"{source} was made by tpn.images_from in Python and cannot be opened by its name: pass the data again."
        )
    if kind not in KINDS:
        raise TPNError(f"Unknown data {source!r}: choose {SOURCES}.")
    if not path:
        raise TPNError(f"{kind} needs the path of the images: {kind}:PATH.")
    if os.path.realpath(os.path.expanduser(path)) == os.path.realpath(os.sep):
        raise TPNError(f"{source} is the whole disk: name the folder or the archive of the images.")
    return kind, path


def check_source(source: object, cache: Path | None = None) -> None:
    """Refuse a wrong name, and a path that does not exist, unless images of its kind are prepared: perhaps of it."""
    kind, path = parse_source(source)
    if path and not (place := resolved(Path(path))).exists() and not any(cache_folder(cache).glob(f"{kind}-*")):
        raise TPNError(f"{place} does not exist.")


def check_size(size: int | None, largest: int = LARGEST_SIZE) -> None:
    """Refuse a size that images cannot be resized to."""
    if size is not None and not 1 <= size <= largest:
        raise TPNError(f"--image-size must be between 1 and {largest} pixels, not {size}.")


def check_class_seed(seed: int) -> None:
    """Refuse a seed that no random generator takes, also where a source does not use it."""
    if not 0 <= seed < 2**63:
        raise TPNError(f"--class-seed must be at least 0 and below 2^63, not {seed}.")
