"""Decoding image files into arrays of a fixed size."""

import io
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from tpn.images.decoding_budget import LARGE, pixel_budget, silent_errors

MOST_PIXELS = 225_000_000
"""Images with more pixels are not decoded: no camera takes them, and they need more than 1 GB."""
TILE = 2**21
"""Pixels of a large image that are converted at once."""
DETAIL = 4
"""A large image is reduced to at least this many times the size that it is resized to."""
PRINTING = {"TIFF"}
"""Formats whose decoder prints on standard error what is wrong with an image."""
USUAL = {"JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"}
"""Formats that are tried first: each begins with bytes of its own."""
NOT_DECODED = {"EPS", "WMF", "BUFR", "GRIB", "HDF5", "FITS", "MPEG"}
"""Formats that Pillow passes to other programs, or only recognises."""

logging.getLogger("PIL").addHandler(logging.NullHandler())  # otherwise what it logs of an image goes to standard error

_RAISING_LIMIT = threading.Lock()

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
    with opened(content, size, keep_aspect=True) as image:
        image.thumbnail((size, size))
        file = io.BytesIO()
        image.save(file, "JPEG", quality=80)
        return file.getvalue()


@contextmanager
def opened(content: bytes, size: int, keep_aspect: bool = False) -> Iterator[Image.Image]:
    """Open an image as it is displayed, with as much detail as resizing it to `size` needs.

    Pixels in decoding at the same time are bounded, however many threads decode.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of oddities that are harmless, or that fail below
            with _open(content) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise NotAnImage(
                        f"its header claims {image.width}x{image.height} pixels, more than the limit of {MOST_PIXELS:,}"
                    )
                image.draft(None, (2 * size, 2 * size))  # JPEG can skip detail that resizing would remove
                with pixel_budget.share(image.width * image.height), _quietly(image.format):
                    if image.width * image.height > LARGE:
                        yield _upright(_reduced(image, size, keep_aspect))
                    else:
                        image.load()
                        yield in_colour(_upright(image))
    except NotAnImage:
        raise
    except MemoryError as failure:
        raise NotAnImage("there is not enough memory to decode it") from failure
    except Exception as failure:  # Pillow's decoders raise errors of all kinds
        raise NotAnImage(f"it cannot be read as an image ({_reason(failure)})") from failure


def _upright(image: Image.Image) -> Image.Image:
    """Turn an image as its camera was held; without such a remark, return it as it is rather than a copy."""
    turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
    return ImageOps.exif_transpose(image) if turned else image


def _quietly(form: str | None) -> AbstractContextManager[None]:
    return silent_errors if form in PRINTING else nullcontext()


def _open(content: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(content), formats=formats())
    except Image.DecompressionBombError:  # Pillow's own limit, which real photographs exceed
        with _RAISING_LIMIT:
            before = Image.MAX_IMAGE_PIXELS
            Image.MAX_IMAGE_PIXELS = None
            try:
                return Image.open(io.BytesIO(content), formats=formats())
            finally:
                Image.MAX_IMAGE_PIXELS = before


def _reduced(image: Image.Image, size: int, keep_aspect: bool) -> Image.Image:
    """Return a large image reduced by whole factors, still several times as large as `size`, in RGB.

    It is converted in tiles: converting all of it would need several times the memory of its pixels.
    """
    image.load()
    factors = [max(1, length // (DETAIL * size)) for length in image.size]
    factors = [max(factors)] * 2 if keep_aspect else factors
    fx, fy = (min(factor, length) for factor, length in zip(factors, image.size, strict=True))
    columns, rows = -(-image.width // fx), -(-image.height // fy)
    across = max(1, min(columns, TILE // (fx * fy)))
    down = max(1, min(rows, TILE // (fx * fy * across)))
    whole = Image.new("RGB", (columns, rows))
    white = _white(image) if _is_deep(image) else None
    for top in range(0, rows, down):
        for left in range(0, columns, across):
            right, bottom = min(image.width, (left + across) * fx), min(image.height, (top + down) * fy)
            tile = in_colour(image.crop((left * fx, top * fy, right, bottom)), white)
            whole.paste(tile.reduce((fx, fy)), (left, top))
    if (orientation := image.getexif().get(ExifTags.Base.Orientation)) is not None:
        whole.getexif()[ExifTags.Base.Orientation] = orientation
    return whole


def scale(pixels: UInt8[np.ndarray, "height width 3"], size: int) -> Pixels:
    """Resize a whole image to size x size with antialiasing; an image of this size is returned as it is."""
    if pixels.shape[:2] == (size, size):
        return pixels
    resized = Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(resized)


def in_colour(image: Image.Image, white: float | None = None) -> Image.Image:
    """Convert an image of any mode to 8-bit RGB; one that is so already is returned itself.

    `white` is the value of white, if it is a tile of an image.
    """
    if _is_deep(image):
        return Image.fromarray(_to_8_bits(image, _white(image) if white is None else white)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        paper = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(paper, layer).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _is_deep(image: Image.Image) -> bool:
    """Whether it has grey values of 16 or 32 bits, or floats."""
    return image.mode in ("I", "F") or image.mode.startswith("I;")


def _white(image: Image.Image) -> float:
    """Return the value of white. Where the format does not define it, the smallest range that holds all values."""
    if image.mode not in ("I", "F"):
        return 65535.0
    extremes: Any = image.getextrema()
    most = max(0.0, float(np.float32(extremes[1])))
    return next((full for full in (1.0, 255.0, 65535.0) if most <= full and (full > 1 or image.mode == "F")), most)


def _to_8_bits(image: Image.Image, white: float) -> UInt8[np.ndarray, "height width"]:
    """Scale grey values of 16 or 32 bits, or floats, to 8 bits."""
    values: Any = np.asarray(image, np.float32)
    if not np.isfinite(values).all():
        raise NotAnImage("it has values that are not finite")
    eight: np.ndarray = np.clip(np.rint(values * (255 / white)), 0, 255).astype(np.uint8)
    return eight


@cache
def formats() -> tuple[str, ...]:
    """Return the formats that can be decoded, in the order in which they are tried."""
    Image.init()
    return tuple(sorted(set(Image.OPEN) - NOT_DECODED, key=lambda name: (name not in USUAL, name)))


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
