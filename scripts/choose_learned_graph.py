"""The trials behind LabelPropagator's learned graph: accuracy with 5 and 10 labels of each class, by its settings.

    TPN_MINI_IMAGENET=mini-imagenet.zip python -m scripts.choose_learned_graph

Features of efficientnet-lite0; the 16 validation classes of miniImageNet with 600 images each, and the 64 training
classes with the images 100 to 199. Nothing is tested on other classes: `scripts.compare_labelling` does that once.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from scripts.compare_labelling import SETS, accuracy, embedded, few, unbalanced
from tpn import FeatureScaler, LabelPropagator
from tpn.images.opening import open_images
from tpn.semi_supervised import learned_graph, point_graph

TRIALS: dict[str, dict[str, Any]] = {
    "fixed graph": {"learn_graph": False},
    "learned, 2 rounds, alpha by labels": {"rounds": 2, "alpha": None},
    "learned, 3 rounds, alpha by labels": {"rounds": 3, "alpha": None},
    "learned (default)": {},
    "class means no farther": {"emphasis": 0.0},
    "class means three times as far": {"emphasis": 2.0},
    "10 candidates": {"candidates": 1},
    "20 candidates": {"candidates": 2},
    "60 candidates": {"candidates": 6},
    "linear prior model": {"estimator": "linear"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--labels", nargs="+", type=int, default=[5, 10])
    parser.add_argument("--unbalanced", action="store_true", help="classes from 1 to 1/10 of their size")
    parser.add_argument("--features", type=Path, default=Path("runs/labelling-features"), help="where they are kept")
    options = parser.parse_args()
    images = open_images(f"mini-imagenet:{os.environ['TPN_MINI_IMAGENET']}")
    options.features.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name, splits, places in (SETS["val"], SETS["train"]):
        features, truth = embedded(images, splits, places, options.features)
        print(f"{name}, {options.labels} labels of each class, {options.seeds} seeds: accuracy on the others in %")
        for trial, settings in TRIALS.items():
            found = [
                np.mean([run(features, truth, labels, seed, options.unbalanced, **settings) for seed in seeds])
                for labels in options.labels
                for seeds in (range(options.seeds),)
            ]
            print(f"  {trial:<36} {' / '.join(f'{100 * value:.2f}' for value in found)}", flush=True)


def run(
    features: np.ndarray,
    truth: np.ndarray,
    labels: int,
    seed: int,
    of_many_sizes: bool,
    emphasis: float = learned_graph.EMPHASIS,
    candidates: int = point_graph.CANDIDATES,
    **settings: Any,
) -> float:
    """Return the accuracy of one trial on the images without labels."""
    learned_graph.EMPHASIS, point_graph.CANDIDATES = emphasis, candidates
    if settings.get("alpha", 0) is None:
        settings["alpha"] = 0.8 + 0.1 / labels
    rng = np.random.default_rng(seed)
    rows = unbalanced(truth, rng) if of_many_sizes else np.arange(len(truth))
    given = few(truth[rows], labels, rng)
    model = LabelPropagator(n_jobs=-1, **settings).fit(FeatureScaler().fit_transform(features[rows]), given)
    return accuracy(model, truth[rows], given < 0)


if __name__ == "__main__":
    main()
