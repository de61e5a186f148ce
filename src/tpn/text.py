"""Names and numbers as text that any terminal and any file can take."""

import os
import sys
from contextlib import suppress

LONGEST_WORD, LONGEST_TEXT = 1000, 4000
"""Characters of a word (most often a path) and of a message."""
SINGULAR = {
    "images": "image", "classes": "class", "files": "file", "folders": "folder", "rows": "row",
    "entries": "entry", "numbers": "number", "cells": "cell", "trainings": "training",
    "are": "is", "have": "has", "repeat": "repeats", "replace": "replaces",
}  # fmt: skip


def as_text(name: str) -> str:
    """Return a file name as valid Unicode: bytes that are not text are written as backslash escapes.

    File names are UTF-8 on disk, whatever the encoding of the locale in which Python has decoded them.
    """
    if sys.getfilesystemencoding() != "utf-8":
        with suppress(UnicodeError):
            return os.fsencode(name).decode()
    return name.encode("utf-8", "backslashreplace").decode()


def printable(name: str) -> str:
    """Return a name as a terminal can show it, with line ends and other control characters escaped."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in as_text(name))


def shortened(text: str) -> str:
    """Return a message in which no word, and not the whole, is longer than anybody reads."""
    if len(text) > LONGEST_WORD:
        words = (word if len(word) <= LONGEST_WORD else f"{word[:100]}…{word[-100:]}" for word in text.split(" "))
        text = " ".join(words)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 200]} … {text[-200:]}"


def counted(count: int, what: str) -> str:
    """Return a count and what it counts, such as "3 images are missing" or "1 image is missing"."""
    return f"{count:,} {what}" if count != 1 else f"1 {' '.join(SINGULAR.get(word, word) for word in what.split())}"


def size_text(size: float) -> str:
    """Return a number of bytes in megabytes or gigabytes."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
