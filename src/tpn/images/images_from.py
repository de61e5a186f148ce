"""Images, or features, that the user has in memory or as a torch Dataset."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import TensorDataset

from tpn.errors import TPNError
from tpn.images.array_statistics import Content, examine
from tpn.images.class_labels import ClassGroups, ClassNames, group_by_class
from tpn.images.dataset_index import SPLITS, check_disjoint
from tpn.images.source_names import LARGEST_SIZE, check_size
from tpn.images.split import Images, Split, SplitInfo, check_split, describe, is_pixel_type, resize
from tpn.images.torch_datasets import class_names as names_in
from tpn.images.torch_datasets import read_dataset, to_channels_last, to_numpy
from tpn.progress import showing

NEEDED_FOR = {"train": "training", "val": "training, to choose the best weights,", "test": "testing"}


def images_from(
    train: Any = None,
    val: Any = None,
    test: Any = None,
    *,
    image_size: int | None = None,
    class_names: ClassNames | None = None,
    labels_restart: bool = False,
    name: str = "arrays",
    progress: bool = True,
) -> Images:
    """Use your own arrays, features or torch datasets wherever tpn takes images.

    Parameters
    ----------
    train, val, test : torch Dataset or pair of arrays, optional
        The images of each split. Training needs `train` and `val`, testing needs `test`. Each is one of

        - a torch `Dataset` of (image, class) as torchvision's are, where an image is a PIL image, a NumPy array or a
          tensor. It is read once, so a random transform is applied once: leave augmentation to `tpn.train`;
        - a pair (images, labels) of NumPy arrays or tensors: N x H x W x C, N x C x H x W or N x H x W (grey), of uint8
          or floating-point values;
        - a pair (features, labels) with N x D numbers, for methods that classify embeddings.

        Labels are integers or strings. Arrays are not copied: they must not change while they are in use.
    image_size : int, optional
        Resize images to this height and width. Images that are not square, or not of one size, need it.
    class_names : sequence or mapping of str, optional
        The names of the classes, by number or by label (default: the dataset's `classes`, or else the labels).
    labels_restart : bool, default=False
        The labels of each split are numbered on their own, so that class 0 of `train` and class 0 of `val` are two
        different classes. Otherwise a class that is in two splits is an error.
    name : str, default="arrays"
        A name for the data, to be shown in reports and stored in runs.
    progress : bool, default=True
        Show a progress bar while a dataset is read.

    Returns
    -------
    Images
        To be passed as `data` to `tpn.train`, `tpn.evaluate` and others.

    Notes
    -----
    uint8 values are scaled to 0 to 1, floating-point values are used as they are.

    The channels are the axis of at most 4 values that leaves square images. Where both the second and the last axis
    could be that, as in N x 3 x 3 x 3, channels come last in NumPy arrays and first in tensors.

    Examples
    --------
    >>> import numpy as np, tpn
    >>> features, labels = np.random.rand(100, 64), np.repeat(np.arange(5), 20)
    >>> data = tpn.images_from(test=(features, labels), name="my features")
    """
    check_size(image_size)
    given = {split: data for split, data in zip(SPLITS, (train, val, test), strict=True) if data is not None}
    if not given:
        raise TPNError("tpn.images_from needs at least one of train, val and test.")
    with showing(progress):
        read = {split: _read(data, split, image_size, class_names, labels_restart) for split, data in given.items()}
    return ArrayImages(read, name)


@dataclass(frozen=True)
class _Data:
    """The data of a split: N x H x W x C, features with H = W = 1."""

    values: np.ndarray
    groups: ClassGroups
    are_features: bool


class ArrayImages(Images):
    """Images in arrays of the user."""

    def __init__(self, data: dict[str, _Data], name: str) -> None:
        self.spec = f"arrays:{name}"
        check_disjoint(
            {split: one.groups.classes for split, one in data.items()},
            self.spec,
            "If the labels of each split are numbered on their own and mean different classes, give "
            "labels_restart=True. If these are training and test images of the same classes, divide them by class.",
        )
        _check_alike({split: one.values.shape[1:] for split, one in data.items()})
        first = next(iter(data.values()))
        self.are_features = first.are_features
        self.layout = "features in memory" if self.are_features else "images in memory"
        self.image_size, self.channels = first.values.shape[1], first.values.shape[3]
        self._splits = {
            split: Split(split, one.values, one.groups.classes, one.groups.starts, order=one.groups.order)
            for split, one in data.items()
        }
        contents = {split: examine(one) for split, one in self._splits.items()}
        if len({one.values.dtype == np.uint8 for one in data.values()}) == 2:
            _check_range(contents)
        statistics = next(iter(contents.values()))  # those of the training images, if there are any
        self.mean, self.std = ((), ()) if self.are_features else (statistics.mean, statistics.std)
        identity = json.dumps([[split, self._splits[split].classes, one.digest] for split, one in contents.items()])
        self.digest = hashlib.sha256(identity.encode()).hexdigest()[:16]

    def info(self) -> dict[str, SplitInfo]:
        return {name: SplitInfo(len(split.classes), len(split)) for name, split in self._splits.items()}

    def split(self, name: str) -> Split:
        check_split(name)
        if name not in self._splits:
            raise TPNError(
                f"{self.spec} has no {name} split, which {NEEDED_FOR[name]} needs: give {name}=... to tpn.images_from."
            )
        return self._splits[name]


def _read(data: Any, split: str, image_size: int | None, names: ClassNames | None, labels_restart: bool) -> _Data:
    """Recognise what the user gave for a split, and group it by class."""
    if isinstance(data, TensorDataset) and len(data.tensors) == 2:
        data = data.tensors
    if _is_pair(data):
        array, labels = data
        values = to_numpy(array)
        channels_first = isinstance(array, Tensor)
    elif _is_dataset(data):
        if len(data) == 0:
            raise TPNError(f"{split} is empty: it has no images.")
        values, labels = read_dataset(data, split, image_size)
        names = names or names_in(data, labels)
        channels_first = False
    else:
        raise TPNError(_not_data(data, split))
    if len(values) == 0:
        raise TPNError(f"{split} is empty: it has no images.")
    are_features = values.ndim == 2
    if are_features:
        if values.dtype.kind not in "iufb" or values.shape[1] == 0:
            raise TPNError(f"The features of {split} must be numbers (N x D), not {describe(values)}.")
        if image_size is not None:
            raise TPNError(f"{split} holds features (N x D), which --image-size cannot resize.")
        values = (values if is_pixel_type(values.dtype) else values.astype(np.float32))[:, None, None, :]
    else:
        values = _as_images(values, channels_first, split, image_size)
    prefix = f"{split} " if labels_restart else ""
    return _Data(values, group_by_class(labels, len(values), names, split, prefix), are_features)


def _as_images(values: np.ndarray, channels_first: bool, split: str, image_size: int | None) -> np.ndarray:
    """Images as N x H x W x C, of the size that is asked for."""
    if not is_pixel_type(values.dtype):
        raise TPNError(f"{split} must have values of uint8 or floating point, not {describe(values)}.")
    images = to_channels_last(values, channels_first, split)
    _, height, width, _ = images.shape
    if image_size is not None and (height, width) != (image_size, image_size):
        return resize(images, image_size)
    if height != width:
        raise TPNError(f"The images of {split} are {height} x {width}: give --image-size to resize them to a square.")
    if not 1 <= height <= LARGEST_SIZE:
        raise TPNError(f"The images of {split} are {height} x {width}: give an --image-size from 1 to {LARGEST_SIZE}.")
    return images


def _is_array(data: Any) -> bool:
    return isinstance(data, np.ndarray | Tensor) or (hasattr(data, "__array__") and hasattr(data, "ndim"))


def _is_pair(data: Any) -> bool:
    return isinstance(data, tuple | list) and len(data) == 2 and _is_array(data[0])


def _is_dataset(data: Any) -> bool:
    usable = hasattr(data, "__len__") and hasattr(data, "__getitem__")
    return usable and not _is_array(data) and not isinstance(data, str | bytes | dict)


def _not_data(data: Any, split: str) -> str:
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        return f'{split} is a path. Open folders and archives with tpn.open_images("folder:PATH").'
    if isinstance(data, Images | Split):
        return f"{split} is an object that tpn has opened already: pass it on as it is, without tpn.images_from."
    hint = " An array needs its labels: give a pair (images, labels)." if _is_array(data) else ""
    hint = hint or (" It needs a length and items by number." if hasattr(data, "__iter__") else "")
    return (
        f"{split} must be a torch Dataset of (image, class), or a pair of arrays (images, labels) or (features, "
        f"labels), not {describe(data)}.{hint}"
    )


def _check_alike(shapes: dict[str, tuple[int, ...]]) -> None:
    """Refuse splits of different sizes."""
    (first, shape), *others = shapes.items()
    for name, other in others:
        if other != shape:
            raise TPNError(
                f"The images of {first} and {name} differ in size or channels: {_shape_text(shape)} and "
                f"{_shape_text(other)}. Give --image-size to resize images to one size."
            )


def _check_range(contents: dict[str, Content]) -> None:
    """Refuse floats from 0 to 255, say, beside uint8 values, which are scaled to 0 to 1."""
    for name, content in contents.items():
        if not content.in_unit_range:
            raise TPNError(
                f"{name} has floating-point values outside 0 to 1, but another split has uint8 values, which are "
                "scaled to 0 to 1. Give all splits in the same type."
            )


def _shape_text(shape: tuple[int, ...]) -> str:
    height, width, channels = shape
    return f"{channels} features" if (height, width) == (1, 1) else f"{height} x {width} x {channels}"
