"""Reading pickles as plain data: numbers, strings, lists, tuples, dicts and arrays, and nothing else.

Python's own reader calls any function that a pickle names, so that a pickle is a program. This one interprets the same
opcodes over a memory-mapped file without importing anything: it knows the few names that NumPy arrays need, and refuses
every other. Large byte strings stay in the file until they are used, so that even a pickle of many gigabytes opens
quickly.
"""

import math
import struct
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.images.pickles.pickle_reader import PickleReader
from tpn.images.pickles.pickled_array import PickledArray, Raw, Refused, text_of

IMPOSSIBLE = (OverflowError, ValueError, TypeError, SystemError, UnicodeError, MemoryError)
"""The errors that NumPy raises for impossible values."""


def read_pickle(content: Raw | Any, name: str) -> Any:
    """Read the pickle in a buffer: dicts, lists, tuples, strings, bytes, numbers and `PickledArray`s."""
    view = memoryview(content)
    if reason := not_what_it_seems(bytes(view[:512])):
        raise TPNError(f"{name} is not a pickle: {reason}")
    try:
        return PickleReader(view).read()
    except Refused as refusal:
        raise TPNError(f"{name} is refused: {refusal}. Only plain data is ever read from a pickle.") from None
    except (IndexError, struct.error, KeyError) as failure:
        raise TPNError(f"{name} is damaged: it is truncated, or not a pickle.") from failure
    except (ValueError, TypeError, AttributeError, OverflowError, UnicodeError, MemoryError) as failure:
        raise TPNError(f"{name} is damaged: it is not a valid pickle ({failure}).") from failure


def not_what_it_seems(start: bytes) -> str | None:
    """Recognise, by its first bytes, a file that was saved under a wrong name."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml", b"<!--", b"<script")):
        return (
            "it is a web page that was saved under this name. The server answered with a page (a warning, a login, "
            "an expired link) instead of the file; download it again in a browser, and look at its size."
        )
    if text.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer. Fetch the file itself with: git lfs pull."
    if not start:
        return "it is empty."
    return None


def as_array(value: Any, name: str) -> np.ndarray:
    """Convert an array or a list of numbers from a pickle to an array. `name` is where it was found."""
    try:
        if isinstance(value, PickledArray):
            return value.array()
        if isinstance(value, list) and all(type(item) in (int, float, bool) for item in value):
            return np.array(value)
    except (Refused, *IMPOSSIBLE) as failure:
        raise TPNError(f"{name} is damaged: {failure}.") from failure
    raise TPNError(f"{name} is damaged: it is not an array of numbers.")


def length_of(value: Any) -> int:
    """Return how many items a list or an array from a pickle has, without touching them; 0 for anything else."""
    if isinstance(value, PickledArray):
        return math.prod(value.shape)
    return len(value) if isinstance(value, list) else 0


def as_strings(value: Any, name: str) -> list[str]:
    """Convert a list or an array of strings from a pickle."""
    try:
        items = value.items() if isinstance(value, PickledArray) else value
        if isinstance(items, (list, tuple)):
            return [text_of(item) for item in items]
    except (Refused, *IMPOSSIBLE) as failure:
        raise TPNError(f"{name} is damaged: {failure}.") from failure
    raise TPNError(f"{name} is damaged: it is not a list of names.")


def with_text_keys(value: Any, name: str) -> dict[str, Any]:
    """Return a dict from a pickle with its keys as text, whether Python 2 or 3 wrote them."""
    if not isinstance(value, dict):
        raise TPNError(f"{name} is damaged: it holds a {type(value).__name__} where a dict was expected.")
    texts = [key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key) for key in value]
    return dict(zip(texts, value.values(), strict=True))
