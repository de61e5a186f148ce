"""Reading a torch Dataset of (image, class) into one array."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor
from torch.utils.data import Subset

from tpn.errors import TPNError
from tpn.images.decoding import NotAnImage, in_colour, scale
from tpn.images.split import MOST_CHANNELS, describe, is_pixel_type, resize
from tpn.progress import progress


def read_dataset(dataset: Any, what: str, image_size: int | None) -> tuple[np.ndarray, list[Any]]:
    """Read every item once. Returns images (N x H x W x C) or features (N x D), and the labels.

    Images are uint8 where that loses nothing: PIL images are, and so are floats that are multiples of 1/255, as
    torchvision's `ToTensor` makes them.
    """
    count = len(dataset)
    array: np.ndarray | None = None
    labels = []
    with progress(f"reading {what}", count, "images") as advance:
        for row in range(count):
            image, label = _item(dataset, row, what)
            values = _values(image, f"item {row} of {what}", image_size)
            if array is None:
                array = np.empty((count, *values.shape), values.dtype)
            array, values = _alike(array, values, row, what)
            array[row] = values
            labels.append(label.item() if isinstance(label, Tensor | np.generic) else label)
            advance(1)
    assert array is not None, "an empty dataset is refused before it is read"
    return array, labels


def class_names(dataset: Any, labels: Sequence[Any]) -> list[str] | None:
    """Return the names that a dataset gives its classes, as torchvision's datasets do, if they fit its labels."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    names = getattr(dataset, "classes", None)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return None
    fit = all(isinstance(label, int) and 0 <= label < len(names) for label in labels)
    return list(names) if fit and len(set(names)) == len(names) else None


def to_numpy(array: Any) -> np.ndarray:
    """View a tensor, or anything that NumPy takes for an array, as an array; copied only if there is no other way."""
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        array = array.float() if str(array.dtype) == "torch.bfloat16" else array  # NumPy has no such type
        return array.numpy()  # type: ignore[no-any-return]
    values = np.asarray(array)
    if values.dtype.kind == "f" and (values.dtype.itemsize > 8 or not values.dtype.isnative):
        values = values.astype(np.float64)  # torch has neither long doubles nor foreign byte orders
    return values


def to_channels_last(images: np.ndarray, channels_first: bool, what: str) -> np.ndarray:
    """View images (N x H x W, N x H x W x C or N x C x H x W) as N x H x W x C.

    The axis of at most 4 values that leaves square images is the one of the channels. If both could be, it is the last
    one or, with `channels_first`, the first.
    """
    if images.ndim == 3:
        return images[..., None]
    if images.ndim != 4:
        raise TPNError(f"{what} must be images (N x H x W x C, N x C x H x W or N x H x W), not {describe(images)}.")
    small = [axis for axis in (1, 3) if images.shape[axis] <= MOST_CHANNELS]
    square = [axis for axis, (one, other) in {1: (2, 3), 3: (1, 2)}.items() if images.shape[one] == images.shape[other]]
    possible = [axis for axis in small if axis in square] or small or square
    if not possible:
        raise TPNError(f"{what} is {describe(images)}: neither its second nor its last axis can be the channel axis.")
    axis = possible[0] if len(possible) == 1 or channels_first else 3
    return images if axis == 3 else images.transpose(0, 2, 3, 1)


def _item(dataset: Any, row: int, what: str) -> tuple[Any, Any]:
    item = dataset[row]
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    targets = getattr(dataset, "targets", None)
    if not isinstance(item, tuple | list | dict) and targets is not None and len(targets) == len(dataset):
        return item, targets[row]
    raise TPNError(f"Item {row} of {what} must be a pair (image, class), not {describe(item)}.")


def _values(image: Any, what: str, image_size: int | None) -> np.ndarray:
    """An image as H x W x C of uint8 or float32, or features as D values."""
    if isinstance(image, Image.Image):
        try:
            pixels = np.asarray(image.convert("L") if image.mode in ("L", "1") else in_colour(image))
        except NotAnImage as failure:
            raise TPNError(f"{what} cannot be used: {failure}.") from failure
        pixels = pixels if image_size is None else scale(pixels, image_size)
        return pixels if pixels.ndim == 3 else pixels[..., None]
    if not isinstance(image, Tensor | np.ndarray):
        raise TPNError(f"{what} must have a PIL image, an array or a tensor, not {describe(image)}.")
    values = to_numpy(image)
    if values.ndim == 1 and values.dtype.kind in "iuf":
        return values.astype(np.float32)
    if values.ndim not in (2, 3) or not is_pixel_type(values.dtype):
        raise TPNError(f"{what} must be an image of uint8 or floating-point values, not {describe(image)}.")
    values = to_channels_last(values[None], isinstance(image, Tensor), what)
    if image_size is not None and values.shape[1:3] != (image_size, image_size):
        values = resize(values, image_size)
    return values[0] if values.dtype == np.uint8 else _as_bytes(values[0].astype(np.float32))


def _as_bytes(values: np.ndarray) -> np.ndarray:
    """Floats that are multiples of 1/255 as uint8, others as they are."""
    scaled = np.rint(values * 255)
    exact = (scaled >= 0).all() and (scaled <= 255).all() and (_as_floats(scaled) == values).all()
    return scaled.astype(np.uint8) if exact else values


def _as_floats(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32) / np.float32(255)


def _alike(array: np.ndarray, values: np.ndarray, row: int, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Bring the images read so far and the next one to the same number of channels and the same type."""
    if values.ndim == array.ndim - 1 == 3 and values.shape[:2] == array.shape[1:3]:  # grey among colour
        if values.shape[2] == 1 and array.shape[3] == 3:
            values = np.repeat(values, 3, 2)
        elif values.shape[2] == 3 and array.shape[3] == 1:
            array = np.repeat(array, 3, 3)
    if values.shape != array.shape[1:]:
        raise TPNError(
            f"Item {row} of {what} has the shape {values.shape}, and those before it {array.shape[1:]}. "
            "Give --image-size to resize images to one size."
        )
    if array.dtype == np.uint8 and values.dtype != np.uint8:
        array = _as_floats(array)
    elif array.dtype != np.uint8 and values.dtype == np.uint8 and values.ndim == 3:
        values = _as_floats(values)
    return array, values
