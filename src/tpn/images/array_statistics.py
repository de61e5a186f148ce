"""One pass over the values of a split: are they finite, what is their digest, their mean, their deviation?"""

import hashlib
from dataclasses import dataclass

import numpy as np

from tpn.errors import TPNError
from tpn.images.split import Split, blocks

BLOCK = 2**22
"""Values are read in blocks of this many, which fit into the processor's cache."""


@dataclass(frozen=True)
class Content:
    """What one pass over the values of a split finds."""

    digest: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    in_unit_range: bool
    """Whether `Split.load` gives values from 0 to 1 only."""


def examine(split: Split) -> Content:
    """Refuse NaN and infinite values; digest what `Split.load` will give, and take the statistics of each channel."""
    _, height, width, channels = split.images.shape
    is_bytes = split.images.dtype == np.uint8
    exact, square = (np.uint64, np.uint16) if is_bytes else (np.float64, np.float64)
    digest = hashlib.sha256(f"{split.images.shape[1:]} {is_bytes} {split.starts.tolist()}".encode())
    total, squares, in_unit_range = np.zeros(width * channels), np.zeros(width * channels), True
    for block in blocks(len(split), max(1, BLOCK // (height * width * channels))):
        values = split.images[block if split.order is None else split.order[block]]
        if not is_bytes:
            values = _finite(values, split, block)
            in_unit_range &= bool(values.min() >= 0 and values.max() <= 1)
        values = np.ascontiguousarray(values)
        digest.update(values.data)
        lines = values.reshape(-1, width * channels)  # NumPy adds long lines much faster than triples
        total += lines.sum(0, dtype=exact)
        squares += np.square(lines, dtype=square).sum(0, dtype=exact)
    count, unit = len(split) * height * width, 255 if is_bytes else 1
    mean = total.reshape(width, channels).sum(0) / count
    variance = np.maximum(squares.reshape(width, channels).sum(0) / count - mean**2, 0)
    digits = 6 if is_bytes else 12  # as many as a store keeps
    rounded = [np.round(values / unit, digits).tolist() for values in (mean, np.sqrt(variance))]
    return Content(digest.hexdigest(), tuple(rounded[0]), tuple(rounded[1]), in_unit_range)


def _finite(values: np.ndarray, split: Split, block: slice) -> np.ndarray:
    """Values as float32, all of them finite."""
    with np.errstate(over="ignore"):
        values = values.astype(np.float32, copy=False)
    finite = np.isfinite(values).all((1, 2, 3))
    if not finite.all():
        row = block.start + int(np.argmin(finite))
        row = row if split.order is None else int(split.order[row])
        raise TPNError(f"Row {row} of {split.name} has values that are NaN, infinite or too large for float32.")
    return values
