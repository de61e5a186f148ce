"""Pickles as data: a reader that builds numbers, strings, lists, tuples, dicts and arrays, and nothing else, ever.

Python's own reader calls whatever functions a pickle names, so that a pickle is a program. This one interprets the same
instructions over a memory-mapped file without looking anything up: the few names that NumPy's arrays need are known to
it, every other name ends the reading. Large byte strings stay in the file until they are looked at, so that a pickle of
many gigabytes opens in the time that its instructions take.
"""

import struct
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.images.pickles.pickle_reader import PickleReader
from tpn.images.pickles.pickled_array import PickledArray, Raw, Refused, text_of

IMPOSSIBLE = (OverflowError, ValueError, TypeError, SystemError, UnicodeError, MemoryError)
"""What NumPy raises for values that cannot be."""


def read_pickle(content: Raw | Any, name: str) -> Any:
    """What the pickle in a buffer says: dicts, lists, tuples, strings, bytes, numbers and `PickledArray`s."""
    view = memoryview(content)
    if reason := not_what_it_seems(bytes(view[:512])):
        raise TPNError(f"{name} is not a pickle: {reason}")
    try:
        return PickleReader(view).read()
    except Refused as refusal:
        raise TPNError(f"{name} is refused: {refusal}. Only plain data is ever read from a pickle.") from None
    except (IndexError, struct.error, KeyError) as failure:
        raise TPNError(f"{name} is damaged: it ends too early, or is no pickle.") from failure
    except (ValueError, TypeError, AttributeError, OverflowError, UnicodeError, MemoryError) as failure:
        raise TPNError(f"{name} is damaged: it is no valid pickle ({failure}).") from failure


def not_what_it_seems(start: bytes) -> str | None:
    """What a file is that was saved under a wrong name, going by its first bytes."""
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
    """An array or a list of numbers from a pickle, as an array. `name` says where it was found."""
    try:
        if isinstance(value, PickledArray):
            return value.array()
        if isinstance(value, list) and all(type(item) in (int, float, bool) for item in value):
            return np.array(value)
    except (Refused, *IMPOSSIBLE) as failure:
        raise TPNError(f"{name} is damaged: {failure}.") from failure
    raise TPNError(f"{name} is damaged: it is no array of numbers.")


def as_strings(value: Any, name: str) -> list[str]:
    """A list, or an array, of strings from a pickle."""
    try:
        items = value.items() if isinstance(value, PickledArray) else value
        if isinstance(items, (list, tuple)):
            return [text_of(item) for item in items]
    except (Refused, *IMPOSSIBLE) as failure:
        raise TPNError(f"{name} is damaged: {failure}.") from failure
    raise TPNError(f"{name} is damaged: it is no list of names.")


def with_text_keys(value: Any, name: str) -> dict[str, Any]:
    """A dict from a pickle, its keys as text whether Python 2 or 3 has written them."""
    if not isinstance(value, dict):
        raise TPNError(f"{name} is damaged: it holds a {type(value).__name__} where a dict was expected.")
    texts = [key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key) for key in value]
    return dict(zip(texts, value.values(), strict=True))
