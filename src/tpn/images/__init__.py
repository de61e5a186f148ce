"""Where pictures come from: one module per source, and the one form that they all become (`store`)."""

from tpn.errors import TPNError
from tpn.images.quickdraw import QuickDraw
from tpn.images.store import SPLITS, Images, Split, SplitInfo

__all__ = ["SPLITS", "Images", "Split", "SplitInfo", "open_images"]

LARGEST_SIZE = 256
"""Beyond this, scaled pictures would not fit into memory."""


def open_images(spec: str, image_size: int | None = None) -> Images:
    """Open a source of pictures by its name, as `--data` takes it, with its pictures scaled to `image_size`."""
    if image_size is not None and not 1 <= image_size <= LARGEST_SIZE:
        raise TPNError(f"--image-size must be between 1 and {LARGEST_SIZE} pixels, not {image_size}.")
    if spec == "quickdraw":
        return QuickDraw(image_size)
    raise TPNError(f"Unknown data {spec!r}: the source that can be opened is quickdraw, which ships with the package.")
