"""Small runs, folders of images and caches that campaigns start from."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
from PIL import Image

from tpn.files import make_folder
from tpn.methods._registry import find_method, list_methods

TINY: dict[str, Any] = {
    "way": 3, "shot": 1, "query": 2, "episodes": 8, "validate_every": 2, "validation_episodes": 2,
    "image_size": 16, "backbone": "conv4-32", "threads": 1,
}  # fmt: skip
TRAINED_HEADS = ("label-propagation", "protonet", "soft-kmeans")
CLASSES = {"train": ("ant", "bee", "cat"), "val": ("cow", "dog", "elk"), "test": ("fox", "hen", "pig")}


def flags(**settings: Any) -> list[str]:
    """Return settings as arguments of a command."""
    arguments: list[str] = []
    for name, value in settings.items():
        arguments += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return arguments


def write_images(folder: Path, seed: int = 0, per_class: int = 4) -> Path:
    """Write a folder of splits and classes with images that all differ."""
    chance = np.random.default_rng(seed)
    for split, classes in CLASSES.items():
        for class_ in classes:
            make_folder(folder / split / class_)
            for number in range(per_class):
                pixels = chance.integers(0, 256, (20, 20, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / class_ / f"{number}.png")
    return folder


def write_photos(folder: Path, seed: int = 0) -> Path:
    """Write images of three colours to be labelled: two of each in a folder of its class, the others beside them."""
    chance = np.random.default_rng(seed)
    make_folder(folder / "unlabelled")
    for number, class_ in enumerate(("red", "green", "blue") * 6):
        pixels = chance.integers(0, 60, (20, 20, 3))
        pixels[..., number % 3] += 150
        place = folder / (class_ if number < 6 else "unlabelled")
        make_folder(place)
        Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number:02}.png")
    return folder


def trained_methods() -> list[str]:
    """Return the methods that are trained: all but most heads, which use the weights of other runs."""
    return [name for name in list_methods() if name in TRAINED_HEADS or not find_method(name).info.head]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, except locks, logs and what TensorBoard writes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock") and not {"tensorboard", "logs"} & set(path.parts)
    }


def unfinished(folder: Path) -> list[str]:
    """Return what unfinished files and folders there are."""
    return sorted(path.name for path in folder.rglob("*.part"))


def load_everything() -> None:
    """Import what commands would import, slowly, in each forked process; torch must not be used before forking."""
    import torch._dynamo  # the optimisers would load it in each fork, for longer than a small training takes
    import torch.utils.tensorboard  # noqa: F401
    import tyro  # noqa: F401
    import uvicorn  # noqa: F401

    import tpn.labelling.embedding
    import tpn.paper.workers
    import tpn.semi_supervised.label_propagator
    import tpn.studio_server.guessing  # noqa: F401

    for package in ("tpn.workflows", "tpn.cli"):
        for module in iter_modules(import_module(package).__path__):
            import_module(f"{package}.{module.name}")
