"""Opening a source of images by its name."""

import os
from pathlib import Path

from tpn.errors import TPNError
from tpn.files import resolved
from tpn.images.cache_folder import cache_folder
from tpn.images.image_folder import ImageFolder
from tpn.images.mini_imagenet import MiniImageNet
from tpn.images.quickdraw import QuickDraw
from tpn.images.source import Source
from tpn.images.source_names import LARGEST_SIZE, check_class_seed, check_size, parse_source
from tpn.images.split import Images
from tpn.images.store_cache import open_store
from tpn.images.tiered_imagenet import TieredImageNet

LARGEST_DRAWING = 256
"""Resized drawings are held in memory."""


def open_images(
    source: str | Images,
    image_size: int | None = None,
    *,
    cache: str | os.PathLike[str] | None = None,
    strict: bool = False,
    class_seed: int = 0,
    verify: bool = False,
) -> Images:
    """Open a source of images by its name.

    The first time, the images of a folder or archive are decoded and resized into a store in the cache folder, which is
    memory-mapped from then on.

    Parameters
    ----------
    source : str or Images
        `quickdraw`, `mini-imagenet:PATH`, `tiered-imagenet:PATH` or `folder:PATH`, as `--data` takes it. Images that
        are open already are returned as they are.
    image_size : int, optional
        Resize images to this height and width in pixels (default: 84; QuickDraw: 28).
    cache : path, optional
        The folder for prepared images (default: TPN_CACHE if it is set, otherwise ~/.cache/tpn).
    strict : bool, default=False
        Refuse a source with any problem, instead of leaving out what cannot be used with a warning.
    class_seed : int, default=0
        The seed that assigns the classes of a folder without splits to training, validation and testing.
    verify : bool, default=False
        Compare a store that exists with its checksums, and build it again if it is damaged.

    Returns
    -------
    Images

    See Also
    --------
    tpn.images_from : arrays, features and torch datasets.
    """
    if isinstance(source, Images):
        if image_size not in (None, source.image_size):
            raise TPNError(f"{source.spec} is open with images of {source.image_size} pixels, not {image_size}.")
        return source
    found = find_source(source, class_seed)
    check_size(image_size, LARGEST_DRAWING if found is None else LARGEST_SIZE)
    if found is None:
        return QuickDraw(image_size)
    with found:
        folder = cache_folder(None if cache is None else Path(cache))
        return open_store(found, image_size or found.image_size, folder, strict, verify)


def find_source(spec: object, class_seed: int = 0) -> Source | None:
    """Return the folder or archive that `--data` names; None for the drawings that come with the package."""
    kind, path = parse_source(spec)
    check_class_seed(class_seed)
    if kind == "quickdraw":
        return None
    place = resolved(Path(path))
    if kind == "folder":
        return ImageFolder(place, class_seed)
    return MiniImageNet(place) if kind == "mini-imagenet" else TieredImageNet(place)
