"""Reading images from arrays in files: one array with all pixels, or an encoded image file for each."""

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
"""The largest height and width of an image."""


class PixelArray:
    """The pixels of all images in one array; the key of an image is its index."""

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
    """A list of encoded image files; the key of an image is its index."""

    def __init__(self, images: Any, name: str, size: int) -> None:
        """`size` is that of the file in bytes."""
        if not isinstance(images, list):
            raise TPNError(f"{name} is damaged: it is not a list of images.")
        if sum(map(_bytes_of, images)) > size:  # one image, named over and over, would take forever
            raise TPNError(f"{name} is damaged: its images are larger than the file.")
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
                    yield (
                        key,
                        values.tobytes() if values.dtype == np.uint8 else ValueError("it is not an array of bytes"),
                    )
                except TPNError as failure:
                    yield key, failure
            elif isinstance(image, (bytes, memoryview)):
                yield key, bytes(image)
            else:
                yield key, ValueError("it is not an array of bytes")


class NpzPixels:
    """The array of pixels in an .npz file, read sequentially, one image at a time."""

    def __init__(self, container: Container, name: str, member: str) -> None:
        self.container, self.name, self.member = container, name, f"{member}.npy"
        try:
            with self._opened() as stream:
                self.shape = self._header(stream)
        except KeyError as failure:
            raise TPNError(f"{container.describe(name)} has no array {member!r}.") from failure
        except TPNError:
            raise
        except Exception as failure:  # NumPy parses the header as Python source, with all the errors of that
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
            raise TPNError(f"{self.container.describe(self.name)} is in Fortran order; save it in C order.")
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
                        raise EOFError("it is truncated")
                    if key in wanted:
                        yield key, np.frombuffer(content, np.uint8).reshape(shape)
        except DAMAGES as failure:
            raise TPNError(f"{self.container.describe(self.name)} is damaged: {failure}.") from failure


def check_pixels(shape: tuple[int, ...], dtype: Any, name: str) -> None:
    """Refuse an array that does not hold 8-bit RGB images."""
    if (
        len(shape) != 4
        or shape[3] != 3
        or dtype != np.uint8
        or not 0 <= shape[0] < 2**40
        or not all(1 <= length <= LONGEST for length in shape[1:3])
    ):
        raise TPNError(
            f"{name} has an array of shape {shape} and type {dtype}; expected images of shape "
            "(images, height, width, 3) and type uint8."
        )


def places_of_labels(labels: np.ndarray) -> dict[int, list[int]]:
    """Return for each label where it occurs, in one pass, however many different labels there are."""
    order = np.argsort(labels, kind="stable")
    values, starts = np.unique(labels[order], return_index=True)
    groups = np.split(order, starts[1:]) if len(values) else []
    return {int(value): group.tolist() for value, group in zip(values, groups, strict=True)}


def _bytes_of(image: Any) -> int:
    content = image.data if isinstance(image, PickledArray) else image
    return len(content) if isinstance(content, (bytes, memoryview)) else 0


def unpickle(container: Container, name: str) -> Any:
    """Read the plain data of a pickle in a container."""
    return read_pickle(container.mapped(name), container.describe(name))
