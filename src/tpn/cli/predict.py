"""tpn predict: classify single images with a trained method."""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from tyro.conf import Positional, arg

from tpn.cli.device_options import MachineOptions
from tpn.cli.parsing import Flag, parse
from tpn.episodes.setting import Setting
from tpn.episodes.task import Task
from tpn.errors import TPNError, TPNWarning
from tpn.evaluation.protocol import IMAGES_AT_ONCE, check_setting
from tpn.images.decoding import NotAnImage, decode
from tpn.labelling.labelled_folder import find_images
from tpn.methods._method import Method
from tpn.runs.folder import find_run, load
from tpn.text import printable


@dataclass(frozen=True, kw_only=True)
class Predict(MachineOptions):
    """Classify images with a trained method, given a few labelled ones of each class.

    The classes need not be any that the method was trained on. A transductive method (tpn methods) sees all images at
    once: the more of them, the better its graph.
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """The run folder that tpn train wrote; or mini-conv4, whose weights come with tpn."""
    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE...")]
    """The images to classify."""
    support: Path
    """The folder with the labelled images: a sub-folder for each class."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    options: Predict = parse(Predict, "tpn predict", arguments)
    machine = options.prepare()
    if not options.files:
        raise TPNError("There is nothing to classify: name one image at least.")
    config = find_run(options.run).read_config()
    method = load(options.run).to(machine.device)
    classes = support_of(options.support)
    check(method, classes)
    images, names = [], []
    for file in options.files:
        pixels = read(file, config.image_size)
        if isinstance(pixels, str):
            warnings.warn(f"{printable(str(file))} is left out: {pixels}", TPNWarning, stacklevel=1)
            continue
        images.append(pixels)
        names.append(file)
    if not images:
        raise TPNError("None of the files can be read as an image.")
    support = []
    for files in classes.values():
        for file in files:
            pixels = read(file, config.image_size)
            if isinstance(pixels, str):
                raise TPNError(f"The labelled image {printable(str(file))} cannot be used: {pixels}.")
            support.append(pixels)
    labels = [index for index, files in enumerate(classes.values()) for _ in files]
    probabilities = classify(method, np.stack([*support, *images]), labels, len(classes), config.channels)
    tell(options, method, list(classes), names, probabilities)
    return 0


def support_of(folder: Path) -> dict[str, list[Path]]:
    """Class -> its images, from the sub-folders of a folder."""
    found = find_images(folder)
    classes: dict[str, list[Path]] = {}
    for name in found.names:
        class_, inside, _ = name.partition("/")
        if inside:
            classes.setdefault(class_, []).append(found.path / name)
    if len(classes) < 2:
        raise TPNError(
            f"{folder} must have a sub-folder with images for each of two classes at least; it has {len(classes)}."
        )
    return dict(sorted(classes.items()))


def check(method: Method, classes: dict[str, list[Path]]) -> None:
    """Refuse a support that the method is not made for."""
    shots = {len(files) for files in classes.values()}
    if method.info.fixed_shot and len(shots) > 1:
        raise TPNError(
            f"{method.info.name} takes {method.dimensions.shot} labelled images of each class; there are from "
            f"{min(shots)} to {max(shots)}."
        )
    check_setting(method, Setting(way=len(classes), shot=max(shots), query=1))


def read(file: Path, size: int) -> np.ndarray | str:
    """The pixels of an image, or why there are none."""
    try:
        if file.exists() and not file.is_file():
            return "it is no ordinary file"
        return decode(file.read_bytes(), size)
    except OSError as failure:
        return f"{failure.strerror or failure}"
    except NotAnImage as failure:
        return str(failure)


def classify(method: Method, pixels: np.ndarray, labels: list[int], way: int, channels: int) -> Tensor:
    """The probability of each class for each image behind the labelled ones."""
    images = torch.from_numpy(pixels).to(method.device).permute(0, 3, 1, 2).float().div_(255)
    if channels == 1:
        images = images.mean(1, keepdim=True)
    with torch.no_grad():
        inputs = torch.cat([method.embed(part) for part in torch.split(images, IMAGES_AT_ONCE)])[None]
    task = Task(inputs, torch.tensor([labels], device=method.device), way, len(pixels) - len(labels))
    for parameter in method.parameters():
        parameter.requires_grad = False
    scores = method.score(task)[0].detach().cpu()
    if not torch.isfinite(scores).all():
        raise TPNError(f"{method.info.name} gives scores that are not numbers: its training went wrong.")
    return torch.softmax(scores, -1)


def tell(options: Predict, method: Method, classes: list[str], files: list[Path], probabilities: Tensor) -> None:
    best = probabilities.max(-1)
    if options.json:
        predictions = [
            {
                "path": str(file),
                "label": classes[int(index)],
                "confidence": float(value),
                "probabilities": dict(zip(classes, map(float, row), strict=True)),
            }
            for file, index, value, row in zip(files, best.indices, best.values, probabilities, strict=True)
        ]
        result = {"method": method.info.name, "transduction": method.info.transduction, "predictions": predictions}
        print(json.dumps(result))
        return
    shown = [printable(class_) for class_ in classes]
    width = max(len(shown[int(index)]) for index in best.indices)
    for file, index, value in zip(files, best.indices, best.values, strict=True):
        print(f"{shown[int(index)]:<{width}}  {100 * float(value):>5.1f} %  {printable(str(file))}")
