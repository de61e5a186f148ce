"""Classifying single images by a pre-trained network and label propagation, given a few labelled ones."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from tpn.errors import TPNError
from tpn.images.dataset_index import Problems
from tpn.labelling.embedding import embed_in_chunks
from tpn.labelling.networks import LazyNetwork
from tpn.semi_supervised.feature_scaling import FeatureScaler
from tpn.semi_supervised.label_propagator import LabelPropagator
from tpn.text import printable


def classify(
    labelled: Mapping[str, Sequence[Path]],
    files: Sequence[Path],
    network: LazyNetwork,
    cache: Path,
    device: torch.device,
    problems: Problems,
) -> tuple[list[Path], np.ndarray]:
    """Return the files that can be read, and the probability of each class (in the order of `labelled`) for each.

    All images, labelled or not, are nodes of one graph, as in `tpn label`.
    """
    support = {_key(file): number for number, members in enumerate(labelled.values()) for file in members}
    wanted = list(dict.fromkeys([*support, *map(_key, files)]))
    features: dict[str, np.ndarray] = {}
    for chunk in embed_in_chunks(Path(), wanted, network, cache, device, problems):
        features.update(zip(chunk.names, chunk.features, strict=True))
    for file in support:
        if file not in features:
            why = next((text for text in problems.sentences if "cannot be read" in text), "it cannot be read")
            raise TPNError(f"The labelled image {printable(file)} cannot be used: {why}.")
    used = [file for file in files if _key(file) in features]
    if not used:
        raise TPNError("None of the files can be read as an image.")
    queries = list(dict.fromkeys(_key(file) for file in used))
    points = FeatureScaler().fit_transform(np.stack([features[name] for name in [*support, *queries]]))
    y = np.array([*support.values(), *[-1] * len(queries)])
    found = LabelPropagator(class_prior=None).fit(points, y).label_distributions_[len(support) :]
    rows = dict(zip(queries, found, strict=True))
    return used, np.stack([rows[_key(file)] for file in used])


def _key(file: Path) -> str:
    return os.path.abspath(file)
