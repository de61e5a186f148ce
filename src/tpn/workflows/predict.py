"""Classify single images with a trained method, given a few labelled ones."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from tpn.errors import TPNError, TPNWarning
from tpn.images.cache_folder import cache_folder
from tpn.images.dataset_index import Problems
from tpn.images.decoding import NotAnImage, decode
from tpn.images.file_containers import LARGEST_FILE, too_large
from tpn.labelling.classifying import classify
from tpn.labelling.labelled_folder import find_images
from tpn.labelling.network_choice import name_network
from tpn.labelling.networks import find_network
from tpn.labelling.saved_labelling import load_labelling
from tpn.progress import say, showing
from tpn.results import Result
from tpn.runs.folder import find_run
from tpn.runs.loading import load_run
from tpn.runs.shipped import SHIPPED, run_folder
from tpn.text import printable
from tpn.training.device import computing
from tpn.workflows.keywords import build, refuse_unknown, takes
from tpn.workflows.predict_options import PredictOptions

PathLike: TypeAlias = str | os.PathLike[str]
BETTER = "For photographs, leave out the run: the best network at hand then embeds them, as in `tpn label`."


@dataclass(frozen=True)
class Predictions(Result):
    """The class of each image, with its probability."""

    method: str
    transduction: str
    classes: list[str]
    paths: list[str]
    labels: list[str]
    """The most probable class of each image."""
    confidence: np.ndarray
    """The probability of that class."""
    probabilities: np.ndarray = field(repr=False)
    """The probability of each class for each image, of shape (n_images, n_classes)."""

    def to_dict(self) -> dict[str, Any]:
        return {"method": self.method, "transduction": self.transduction, "predictions": self.rows(nested=True)}

    def rows(self, nested: bool = False) -> list[dict[str, Any]]:
        rows = []
        for path, label, confidence, row in zip(
            self.paths, self.labels, self.confidence, self.probabilities, strict=True
        ):
            probabilities = dict(zip(self.classes, map(float, row), strict=True))
            first = {"path": path, "label": label, "confidence": float(confidence)}
            rows.append({**first, "probabilities": probabilities} if nested else {**first, **probabilities})
        return rows

    def summary(self) -> str:
        shown = [printable(label) for label in self.labels]
        width = max(map(len, shown))
        return "\n".join(
            f"{label:<{width}}  {100 * float(confidence):>5.1f} %  {printable(path)}"
            for label, confidence, path in zip(shown, self.confidence, self.paths, strict=True)
        )


@takes(PredictOptions)
def predict(
    run: PathLike | None,
    files: Sequence[PathLike],
    support: PathLike | Mapping[str, Sequence[PathLike]] | None = None,
    *,
    labelling: PathLike | None = None,
    progress: bool = True,
    **options: Any,
) -> Predictions:
    """Classify images by a pre-trained network or a trained method, given a few labelled ones; or by a labelling.

    The classes need not be those of training. Without a run, the network that `tpn label` takes embeds all images, and
    labels propagate from the labelled ones to the others. That, and any transductive method, uses all images at once:
    more images make a better graph.

    Parameters
    ----------
    run : path or None
        A run folder; or mini-conv4, whose weights ship with tpn. None: a pre-trained network, as `backbone` says.
    files : sequence of paths
        The images to classify.
    support : path or mapping
        The labelled images: a folder with a sub-folder for each class, or class -> paths.
    labelling : path
        A labelling that `label_folder(save=...)` wrote, instead of `run` and `support`.
    progress : bool, default=True
        Show progress.
    {options}

    Returns
    -------
    Predictions
        Prints a line for each image; has `labels`, `confidence` and `probabilities`.
    """
    given = dict(options)
    settings = build(PredictOptions, given)
    refuse_unknown("predict", given, PredictOptions)
    if isinstance(files, str | os.PathLike):
        files = [files]
    if not files:
        raise TPNError("There is nothing to classify: name at least one image.")
    if (support is None) == (labelling is None) or (labelling is not None and run is not None):
        raise TPNError("Name either the labelled images (--support) or a saved labelling (--labelling), without a run.")
    if (run is not None or labelling is not None) and settings.backbone is not None:
        raise TPNError("--backbone is for --support without a run: a run or a labelling has a network of its own.")
    with showing(progress), computing(settings.threads, settings.device) as device:
        if labelling is not None:
            return _by_labelling(files, Path(labelling), settings, device)
        assert support is not None
        if run is None:
            return _by_network(files, support_classes(support), settings, device)
        found = find_run(run)
        config = found.read_config()
        if run_folder(run).parent == SHIPPED:
            say(f"{os.fspath(run)} is a small network for studies. {BETTER}")
        method = load_run(found, config).to(device)
        classes = support_classes(support)
        paths, images = readable_images(files, config.image_size)
        labelled = []
        for members in classes.values():
            for file in members:
                pixels = read_image(file, config.image_size)
                if isinstance(pixels, str):
                    raise TPNError(f"The labelled image {printable(str(file))} cannot be used: {pixels}.")
                labelled.append(pixels)
        labels = [name for name, members in classes.items() for _ in members]
        method.fit(as_tensor(labelled, config.channels), labels)
        probabilities = method.predict_proba(as_tensor(images, config.channels))
    best = probabilities.argmax(1)
    names = [str(name) for name in method.classes_]
    return Predictions(
        method=method.info.name,
        transduction=method.info.transduction,
        classes=names,
        paths=[str(path) for path in paths],
        labels=[names[index] for index in best],
        confidence=probabilities.max(1),
        probabilities=probabilities,
    )


def _by_network(
    files: Sequence[PathLike], classes: dict[str, list[Path]], settings: PredictOptions, device: torch.device
) -> Predictions:
    network, problems = find_network(settings, device, settings.cache), Problems()
    named = {Path(file): file for file in files}
    used, probabilities = classify(classes, list(named), network, cache_folder(settings.cache), device, problems)
    name_network(settings.backbone, network.name)
    for sentence in problems.sentences:
        warnings.warn(sentence, TPNWarning, stacklevel=4)
    names, best = list(classes), probabilities.argmax(1)
    return Predictions(
        method=f"LabelPropagator on {network.name}",
        transduction="yes",
        classes=names,
        paths=[str(named[file]) for file in used],
        labels=[names[index] for index in best],
        confidence=probabilities.max(1),
        probabilities=probabilities,
    )


def _by_labelling(
    files: Sequence[PathLike], saved: Path, settings: PredictOptions, device: torch.device
) -> Predictions:
    """Classify images as `label_folder` would, by a labelling that it has saved."""
    known = load_labelling(saved)
    found, probabilities, confidence = known.predict(
        [Path(file) for file in files], cache_folder(settings.cache), device
    )
    best = probabilities.argmax(1)
    return Predictions(
        method=f"LabelPropagator on {known.backbone}",
        transduction="yes",
        classes=known.classes,
        paths=[str(path) for path in found],
        labels=[known.classes[index] for index in best],
        confidence=confidence,
        probabilities=probabilities,
    )


def support_classes(support: PathLike | Mapping[str, Sequence[PathLike]]) -> dict[str, list[Path]]:
    """Return the labelled images of each class, sorted by class."""
    classes: dict[str, list[Path]] = {}
    if isinstance(support, Mapping):
        classes = {name: [Path(file) for file in files] for name, files in support.items()}
    else:
        found = find_images(Path(support))
        for name in found.names:
            class_, inside, _ = name.partition("/")
            if inside:
                classes.setdefault(class_, []).append(found.path / name)
    if len(classes) < 2:
        where = "The support" if isinstance(support, Mapping) else f"{os.fspath(support)}"
        raise TPNError(
            f"{where} must have a sub-folder with images for each of at least two classes; it has {len(classes)}."
        )
    return dict(sorted(classes.items()))


def readable_images(files: Sequence[PathLike], size: int) -> tuple[list[PathLike], list[np.ndarray]]:
    """Read images; skip those that cannot be read, with a warning."""
    read: dict[PathLike, np.ndarray] = {}
    for file in files:
        pixels = read_image(Path(file), size)
        if isinstance(pixels, str):
            warnings.warn(f"{printable(str(file))} is left out: {pixels}", TPNWarning, stacklevel=4)
        else:
            read[file] = pixels
    if not read:
        raise TPNError("None of the files can be read as an image.")
    return list(read), list(read.values())


def read_image(file: Path, size: int) -> np.ndarray | str:
    """Return the pixels of an image, or the reason why it cannot be read."""
    try:
        if file.exists() and not file.is_file():
            return "it is not a regular file"
        if file.exists() and file.stat().st_size > LARGEST_FILE:
            return str(too_large(file.stat().st_size))
        return decode(file.read_bytes(), size)
    except OSError as failure:
        return f"{failure.strerror or failure}"
    except NotAnImage as failure:
        return str(failure)


def as_tensor(pixels: list[np.ndarray], channels: int) -> torch.Tensor:
    """Convert decoded images to a tensor of floating-point images."""
    images = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float().div_(255)
    return images.mean(1, keepdim=True) if channels == 1 else images
