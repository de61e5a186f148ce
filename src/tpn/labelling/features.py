"""Features that the user has already: an array, or a file of one."""

from pathlib import Path
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.images.dataset_index import Problems
from tpn.labelling.feature_shards import FeatureShards, is_shard_folder
from tpn.text import printable


def features_for(source: Any, names: list[str], problems: Problems) -> tuple[list[str], np.ndarray]:
    """Return the images that have features, and these: of an array, a .npy file, or shards that `tpn embed` wrote.

    An array has a row for each image, in the order of their paths. Shards know the names of their images; those that
    they lack are left out, and added to `problems`.
    """
    if is_shard_folder(source):
        source = FeatureShards(source)
    if not isinstance(source, FeatureShards):
        return names, read_features(source, len(names))
    rows = {name: row for row, name in enumerate(source.names)}
    used = [name for name in names if name in rows]
    for name in names:
        if name not in rows:
            problems.add(f"images have no features in {source.folder} and are left out", printable(name))
    if not used:
        raise TPNError(f"{source.folder} has features of the images in {source.root}, but of none of these images.")
    return used, read_features(source[[rows[name] for name in used]], len(used))


def read_features(source: Any, images: int) -> np.ndarray:
    """Read features from a .npy file or an array: one row for each image, in the order of their paths."""
    if isinstance(source, str | Path):
        features, title = load_array(Path(source)), str(source)
    else:
        features, title = np.asarray(source), "The array of --features"
    if features.ndim != 2 or features.shape[1] == 0 or features.dtype.kind not in "fiu":
        raise TPNError(f"{title} must be a matrix of numbers: a row for each image, a column for each feature.")
    if len(features) != images:
        raise TPNError(
            f"{title} has {len(features):,} rows, and the folder {images:,} images: there must be a row for each, "
            "in the order of their paths."
        )
    with np.errstate(over="ignore"):
        features = np.asarray(features, np.float32)
    finite = np.isfinite(features).all(1)
    if not finite.all():
        raise TPNError(f"{title} has NaN, infinity or too large a number in row {int(np.argmin(finite)) + 1}.")
    return features


def load_array(file: Path) -> np.ndarray:
    """Load a .npy file; nothing in it is executed."""
    try:
        with open(file, "rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
    except MemoryError as failure:
        raise TPNError(f"{file} claims to hold more numbers than fit into memory.") from failure
    except Exception as failure:  # NumPy parses the header as Python source, with all the errors of that
        reason = getattr(failure, "strerror", None) or failure
        raise TPNError(f"Cannot read {file} as an array of numbers (.npy): {reason}.") from failure
    return loaded if isinstance(loaded, np.ndarray) else np.empty(0)  # an archive of several arrays
