"""Opening a source of images by its name."""

from pathlib import Path

from tpn.errors import TPNError
from tpn.files import resolved
from tpn.images.image_folder import ImageFolder
from tpn.images.mini_imagenet import MiniImageNet
from tpn.images.quickdraw import QuickDraw
from tpn.images.source import Source
from tpn.images.split import Images
from tpn.images.store_cache import cache_folder, open_store
from tpn.images.tiered_imagenet import TieredImageNet

LARGEST_SIZE = 1024
"""No few-shot network takes larger images."""
LARGEST_DRAWING = 256
"""Scaled drawings are held in memory."""
KINDS = {"mini-imagenet": MiniImageNet, "tiered-imagenet": TieredImageNet, "folder": ImageFolder}
SOURCES = "quickdraw, mini-imagenet:PATH, tiered-imagenet:PATH or folder:PATH"


def open_images(
    spec: str,
    image_size: int | None = None,
    *,
    cache: Path | None = None,
    strict: bool = False,
    class_seed: int = 0,
    verify: bool = False,
) -> Images:
    """Open a source of images by its name, as `--data` takes it, with its images scaled to `image_size`.

    Images of the user become a store in the `cache` folder the first time. What is wrong with them is told as
    warnings, or refused if `strict`. `class_seed` decides which classes of a folder without splits are for what, and
    `verify` compares a store that is already there with its checksums.
    """
    source = find_source(spec, class_seed)
    check_size(image_size, LARGEST_DRAWING if source is None else LARGEST_SIZE)
    if source is None:
        return QuickDraw(image_size)
    with source:
        return open_store(source, image_size or source.image_size, cache_folder(cache), strict, verify)


def check_size(size: int | None, largest: int = LARGEST_SIZE) -> None:
    """Refuse a size that images cannot be scaled to."""
    if size is not None and not 1 <= size <= largest:
        raise TPNError(f"--image-size must be between 1 and {largest} pixels, not {size}.")


def find_source(spec: str, class_seed: int = 0) -> Source | None:
    """The source of a user's images that `--data` names; none for the drawings that come with the package."""
    kind, _, path = spec.partition(":")
    if spec == "quickdraw":
        return None
    if kind not in KINDS:
        raise TPNError(f"Unknown data {spec!r}: write {SOURCES}.")
    if not path:
        raise TPNError(f"Say where the images lie: {kind}:PATH.")
    place = resolved(Path(path))
    return ImageFolder(place, class_seed) if kind == "folder" else KINDS[kind](place)
