"""A labelling that was saved, and applied to new images: its features and labels, and how they were made."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tpn.errors import TPNError, TPNWarning
from tpn.images.dataset_index import Problems
from tpn.labelling.embedding import embed
from tpn.labelling.networks import find_network
from tpn.labelling.session_engine import QuietPropagator
from tpn.runs.tensors import read_tensors, write_tensors
from tpn.semi_supervised.feature_scaling import FeatureScaler

FORMAT = 1


@dataclass(frozen=True)
class Labelling:
    """Images as features, and the labels of some: what is needed to classify new images as `tpn label` would."""

    features: np.ndarray
    codes: np.ndarray
    """The class of each image, as an index of `classes`; -1 without a label."""
    classes: list[str]
    backbone: str
    key: str
    """Identifies the network and its weights."""
    parameters: dict[str, Any]
    """Parameters of LabelPropagator."""

    def save(self, file: Path) -> None:
        """Write it to a file (safetensors): nothing in it is executed when it is read."""
        tensors = {"features": torch.from_numpy(self.features), "codes": torch.from_numpy(self.codes.astype(np.int64))}
        facts = {"labelling": FORMAT, "classes": self.classes, "backbone": self.backbone, "key": self.key}
        write_tensors(file, tensors, {**facts, "parameters": self.parameters})

    def predict(
        self, files: list[Path], cache: Path, device: torch.device
    ) -> tuple[list[Path], np.ndarray, np.ndarray]:
        """Classify new images: they become nodes of the graph, and labels propagate to all.

        Returns the files that can be read, the probabilities of the classes, and the confidence, which is lower for
        images that seem to be of none of the classes.
        """
        network = find_network(self.backbone, device, cache)
        if network.key != self.key:
            raise TPNError(
                f"The labelling was made with other weights of {self.backbone} ({self.key}, here {network.key}): "
                "label the folder again."
            )
        problems = Problems()
        places = {str(file.absolute()): file for file in files}
        names, new = embed(Path(), list(places), network, cache, device, problems)
        for sentence in problems.sentences:
            warnings.warn(sentence, TPNWarning, stacklevel=4)
        points = FeatureScaler().fit_transform(np.concatenate([self.features, new]))
        y = np.concatenate([self.codes, np.full(len(new), -1)])
        model = QuietPropagator(**self.parameters, n_jobs=-1).fit(points, y)
        rows = slice(len(self.features), None)
        probabilities = np.asarray(model.label_distributions_[rows], np.float64)
        return [places[name] for name in names], probabilities, probabilities.max(1) * model.familiarity_[rows]


def load_labelling(file: Path) -> Labelling:
    """Read a labelling that `tpn label --save` wrote."""
    tensors, facts = read_tensors(file)
    try:
        if facts["labelling"] != FORMAT:
            raise TPNError(f"{file} was written by a newer version of tpn.")
        features, codes = tensors["features"].numpy(), tensors["codes"].numpy()
        classes = [str(name) for name in facts["classes"]]
        fits = features.ndim == 2 and codes.shape == (len(features),) and features.dtype == np.float32
        if not fits or codes.max() >= len(classes) or len(set(codes[codes >= 0].tolist())) != len(classes):
            raise TPNError(f"{file} is damaged: its labels do not match its features.")
        if not np.isfinite(features).all():
            raise TPNError(f"{file} is damaged: it has features that are not finite.")
        return Labelling(features, codes, classes, str(facts["backbone"]), str(facts["key"]), dict(facts["parameters"]))
    except (KeyError, TypeError, ValueError) as failure:
        raise TPNError(f"{file} is not a labelling that `tpn label --save` wrote ({failure!r}).") from failure
