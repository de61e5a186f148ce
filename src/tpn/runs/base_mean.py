"""The mean feature of a run's training classes, which the feature transforms of heads subtract.

It is computed from the training images when it is first needed, and kept in the run folder as base_mean.safetensors,
apart from the weights: so runs of every format and method have it, and a run that ships can carry it without its
training images.
"""

import os

import numpy as np
import torch
from torch import Tensor

from tpn.errors import TPNError
from tpn.images.split import Split
from tpn.methods._head import Head
from tpn.methods._inference import embed_in_batches, testing
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run
from tpn.runs.tensors import file_digest, not_finite, read_tensors, write_tensors

FILE = "base_mean.safetensors"
MOST_IMAGES = 100
"""Images of each training class that the mean is taken over, evenly spaced: the mean of 6,400 images is precise."""
ROWS = 1024


def read_base_means(run: Run, config: RunConfig) -> dict[str, Tensor] | None:
    """Read the mean features that belong to the weights of a run, if they are there."""
    if not (run.folder / FILE).is_file():
        return None
    tensors, facts = read_tensors(run.folder / FILE)
    if facts.get("run") != config.digest or facts.get("weights") != file_digest(run.model_file):
        return None  # the run was trained further
    if broken := not_finite(tensors):
        raise TPNError(f"{run.folder / FILE} is damaged: {broken} is not finite. Remove it: it is computed again.")
    return tensors


def store_base_means(run: Run, config: RunConfig, means: dict[str, Tensor]) -> None:
    """Keep the mean features in the run folder, if it can be written to."""
    if os.access(run.folder, os.W_OK):
        write_tensors(run.folder / FILE, means, {"run": config.digest, "weights": file_digest(run.model_file)})


def base_means(head: Head, split: Split) -> dict[str, Tensor]:
    """Compute the mean features of the training classes; every class counts equally."""
    rows = np.concatenate(
        [
            start + np.linspace(0, count - 1, min(count, MOST_IMAGES)).astype(np.int64)
            for start, count in zip(split.starts, split.counts, strict=False)
        ]
    )
    weights = np.repeat(1 / np.minimum(split.counts, MOST_IMAGES), np.minimum(split.counts, MOST_IMAGES))
    sums: dict[str, Tensor] = {}
    with testing(head):
        for first in range(0, len(rows), ROWS):
            part = rows[first : first + ROWS]
            features = embed_in_batches(head, len(part), lambda a, b, part=part: split.load(part[a:b]))  # type: ignore[misc]
            shares = torch.from_numpy(weights[first : first + ROWS]) / len(split.classes)
            for name, mean in head.weighted_base_means(features.flatten(1), shares.to(features)).items():
                sums[name] = sums[name] + mean if name in sums else mean
    return {name: mean.to(torch.float32).cpu() for name, mean in sums.items()}
