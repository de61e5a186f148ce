"""Images that come as arrays: the pixels of all in one, or the bytes of an image file for each."""

import io
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from tpn.errors import TPNError
from tpn.images.file_containers import DAMAGES, Container
from tpn.images.pickles.pickled_array import PickledArray
from tpn.images.pickles.plain_data import as_array, read_pickle

LONGEST = 2**15
"""Images are not higher or wider than this."""


class PixelArray:
    """The pixels of all images in one array, their keys being their places in it."""

    def __init__(self, pixels: np.ndarray, name: str) -> None:
        check_pixels(pixels.shape, pixels.dtype, name)
        self.pixels, self.name = pixels, name

    def __len__(self) -> int:
        return len(self.pixels)

    def describe(self, key: int) -> str:
        return f"image {key} of {self.name}"

    def read(self, keys: Collection[int]) -> Iterator[tuple[int, np.ndarray]]:
        for key in sorted(keys):
            yield key, np.ascontiguousarray(self.pixels[key])


class EncodedImages:
    """A list with the bytes of an image file for each image, their keys being their places in it."""

    def __init__(self, images: Any, name: str) -> None:
        if not isinstance(images, list):
            raise TPNError(f"{name} is damaged: it is no list of images.")
        self.images, self.name = images, name

    def __len__(self) -> int:
        return len(self.images)

    def describe(self, key: int) -> str:
        return f"image {key} of {self.name}"

    def read(self, keys: Collection[int]) -> Iterator[tuple[int, bytes | Exception]]:
        for key in sorted(keys):
            image = self.images[key]
            if isinstance(image, PickledArray):
                try:
                    values = as_array(image, self.describe(key))
                    yield key, values.tobytes() if values.dtype == np.uint8 else ValueError("it is no array of bytes")
                except TPNError as failure:
                    yield key, failure
            elif isinstance(image, (bytes, memoryview)):
                yield key, bytes(image)
            else:
                yield key, ValueError("it is no array of bytes")


class NpzPixels:
    """The array of pixels in an .npz file, read from its beginning to its end, an image at a time."""

    def __init__(self, container: Container, name: str, member: str) -> None:
        self.container, self.name, self.member = container, name, f"{member}.npy"
        try:
            with self._opened() as stream:
                self.shape = self._header(stream)
        except KeyError as failure:
            raise TPNError(f"{container.describe(name)} has no array called {member!r}.") from failure
        except TPNError:
            raise
        except Exception as failure:  # NumPy reads the header as Python's parser does, with all its errors
            raise TPNError(f"{container.describe(name)} is damaged: {failure}.") from failure

    @contextmanager
    def _opened(self) -> Iterator[io.BufferedIOBase]:
        with (
            self.container.open(self.name) as file,
            zipfile.ZipFile(file) as archive,
            archive.open(self.member) as stream,
        ):
            yield cast(io.BufferedIOBase, stream)

    def _header(self, stream: Any) -> tuple[int, ...]:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
        check_pixels(shape, dtype, self.container.describe(self.name))
        if fortran:
            raise TPNError(f"{self.container.describe(self.name)} has its images in Fortran's order; save it in C's.")
        return shape

    def __len__(self) -> int:
        return self.shape[0]

    def describe(self, key: int) -> str:
        return f"image {key} of {self.name}"

    def read(self, keys: Collection[int]) -> Iterator[tuple[int, np.ndarray]]:
        wanted, (_, *shape) = set(keys), self.shape
        size = int(np.prod(shape))
        try:
            with self._opened() as stream:
                self._header(stream)
                for key in range(len(self)):
                    content = stream.read(size)
                    if len(content) < size:
                        raise EOFError("it ends too early")
                    if key in wanted:
                        yield key, np.frombuffer(content, np.uint8).reshape(shape)
        except DAMAGES as failure:
            raise TPNError(f"{self.container.describe(self.name)} is damaged: {failure}.") from failure


def check_pixels(shape: tuple[int, ...], dtype: Any, name: str) -> None:
    """Refuse an array that is not one of images with three colours of 8 bits."""
    if (
        len(shape) != 4
        or shape[3] != 3
        or dtype != np.uint8
        or not 0 <= shape[0] < 2**40
        or not all(1 <= length <= LONGEST for length in shape[1:3])
    ):
        raise TPNError(
            f"{name} has an array of the shape {shape} and the type {dtype} where images were expected: "
            "a number of them x height x width x 3, of 8 bits."
        )


def unpickle(container: Container, name: str) -> Any:
    """What a pickle in a container says, plain data only."""
    return read_pickle(container.mapped(name), container.describe(name))
