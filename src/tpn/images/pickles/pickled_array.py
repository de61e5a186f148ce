"""Arrays that a pickle describes, their values still in the file."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Raw = bytes | memoryview
SAFE_TYPES = "biufSU"
"""Kinds of array elements that are plain values: booleans, numbers, bytes and text."""
MOST_DIMENSIONS = 32


class Refused(Exception):
    """This is not a pickle of plain data; the message says why."""


@dataclass
class ElementType:
    """The type of an array's elements."""

    code: str
    order: str = "|"
    size: int | None = None

    def dtype(self) -> np.dtype[Any]:
        """Return the NumPy type, if it is one of plain values."""
        code = self.code if self.size is None or self.code[-1] not in "SU" else f"{self.code[0]}{self.size}"
        try:
            dtype = np.dtype(code)
        except (TypeError, ValueError, SyntaxError) as failure:
            raise Refused(f"it has an array of the unknown type {code[:40]!r}") from failure
        if dtype.kind not in SAFE_TYPES or dtype.names or dtype.subdtype:
            raise Refused(f"it has an array of the type {code[:40]!r}, which is not one of plain values")
        return dtype.newbyteorder(">" if self.order == ">" else "<")


class PickledArray:
    """An array whose contents are still in the file."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()
        self.type = ElementType("u1")
        self.fortran = False
        self.data: Raw | list[Any] = b""

    def set(self, shape: Any, type_: Any, fortran: Any, data: Any) -> None:
        """Set what a pickle says about an array."""
        if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
            raise Refused("it has an array with an impossible shape")
        if not isinstance(type_, ElementType) or not isinstance(data, (bytes, memoryview, list)):
            raise Refused("it has an array of something other than plain values")
        self.shape, self.type, self.fortran, self.data = shape, type_, bool(fortran), data

    def array(self) -> np.ndarray:
        """Return the values without a copy: pages of the file are read when they are used."""
        if isinstance(self.data, list):  # an array of objects
            raise Refused("it has an array of objects where one of numbers was expected")
        dtype = self.type.dtype()
        if len(self.shape) > MOST_DIMENSIONS:
            raise Refused(f"it has an array of {len(self.shape)} dimensions")
        if math.prod(self.shape) * dtype.itemsize != len(self.data):
            raise Refused(f"it has an array of the shape {self.shape}, but not as many values")
        values: np.ndarray = np.frombuffer(self.data, dtype)
        return values.reshape(self.shape, order="F" if self.fortran else "C")

    def items(self) -> list[Any]:
        """Return the values as a list."""
        return list(self.data) if isinstance(self.data, list) else self.array().tolist()


def text_of(value: Any) -> str:
    """Return a short string, whether Python 2 or 3 wrote it."""
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, str):
        return value
    raise Refused("it has something else where a name was expected")
