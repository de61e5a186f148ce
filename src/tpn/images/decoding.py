"""Decoding image files into arrays of a fixed size."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

MOST_PIXELS = 89_478_485
"""Images with more pixels are treated as decompression bombs (Pillow's own limit)."""
NOT_DECODED = {"EPS", "WMF", "BUFR", "GRIB", "HDF5", "FITS", "MPEG"}
"""Formats that Pillow passes to other programs, or only recognises."""

Pixels = UInt8[np.ndarray, "size size 3"]


class NotAnImage(Exception):
    """The bytes cannot be decoded as an image; the message says why."""


def decode(content: bytes, size: int) -> Pixels:
    """Decode an image as it is displayed: upright, transparency over white, RGB, resized to size x size."""
    with opened(content, size) as image:
        if image.size != (size, size):
            image = image.resize((size, size), Image.Resampling.BILINEAR)
        return np.asarray(image)


def thumbnail(content: bytes, size: int) -> bytes:
    """Return a JPEG thumbnail of at most size x size that keeps the aspect ratio."""
    with opened(content, size) as image:
        image.thumbnail((size, size))
        file = io.BytesIO()
        image.save(file, "JPEG", quality=80)
        return file.getvalue()


@contextmanager
def opened(content: bytes, size: int) -> Iterator[Image.Image]:
    """Open an image as it is displayed, with as much detail as resizing it to `size` needs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of oddities that are harmless, or that fail below
            with Image.open(io.BytesIO(content), formats=formats()) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise NotAnImage(
                        f"its header claims {image.width}x{image.height} pixels, more than the limit of {MOST_PIXELS:,}"
                    )
                image.draft(None, (2 * size, 2 * size))  # JPEG can skip detail that resizing would remove
                yield in_colour(ImageOps.exif_transpose(image))
    except (NotAnImage, MemoryError):
        raise
    except Exception as failure:  # Pillow's decoders raise errors of all kinds
        raise NotAnImage(f"it cannot be read as an image ({_reason(failure)})") from failure


def scale(pixels: UInt8[np.ndarray, "height width 3"], size: int) -> Pixels:
    """Resize a whole image to size x size with antialiasing; an image of this size is returned as it is."""
    if pixels.shape[:2] == (size, size):
        return pixels
    resized = Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(resized)


def in_colour(image: Image.Image) -> Image.Image:
    """Convert an image of any mode to 8-bit RGB."""
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        return Image.fromarray(_to_8_bits(image)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        paper = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(paper, layer).convert("RGB")
    return image.convert("RGB")


def _to_8_bits(image: Image.Image) -> UInt8[np.ndarray, "height width"]:
    """Scale grey values of 16 or 32 bits, or floats, to 8 bits."""
    values: Any = np.asarray(image, np.float32)
    if not np.isfinite(values).all():
        raise NotAnImage("it has values that are not finite")
    if image.mode in ("I", "F"):  # the format does not define white: take the smallest range that holds all values
        most = float(values.max(initial=0))
        full = next((full for full in (1.0, 255.0, 65535.0) if most <= full and (full > 1 or image.mode == "F")), most)
    else:
        full = 65535.0
    eight: np.ndarray = np.clip(np.rint(values * (255 / full)), 0, 255).astype(np.uint8)
    return eight


@cache
def formats() -> tuple[str, ...]:
    """Return the formats that can be decoded."""
    Image.init()
    return tuple(sorted(set(Image.OPEN) - NOT_DECODED))


@cache
def image_suffixes() -> frozenset[str]:
    """Return the file name extensions of images."""
    readable = set(formats())
    return frozenset(suffix for suffix, name in Image.registered_extensions().items() if name in readable)


def _reason(failure: Exception) -> str:
    if isinstance(failure, UnidentifiedImageError):
        return "its format is unknown"
    text = " ".join(str(failure).split())
    return text[:120] or type(failure).__name__
