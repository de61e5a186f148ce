"""How well few labels spread to photographs: accuracy, calibration and suggestions, on miniImageNet.

    TPN_MINI_IMAGENET=mini-imagenet.zip python -m scripts.compare_labelling

Features are those of efficientnet-lite0, or of --backbone. It has seen ImageNet, these classes included, so that they
stand in for photographs of one's own. Sets: the 20 test classes with 600 images each; all 100 classes with 100 each;
all 100 classes with 100 others each; and those that settings of LabelPropagator were chosen on, the 16 validation
classes with 600 images each and the 64 training classes with 100 of the others; and, for slow networks, the 20 test
classes with 100 images each. Balanced, and with classes from 1 to
1/10 of that size; 1, 5 and 10 labels of each class; 5 seeds. Compared are LabelPropagator, scikit-learn's
LabelSpreading (the best of alpha 0.2, 0.8 and 0.99 by test accuracy) and logistic regression on the labelled images
(normalised features, the best C of 1, 10, 100 and 1000 by test accuracy).
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.semi_supervised import LabelSpreading

from tpn import LabelPropagator
from tpn.images.opening import open_images
from tpn.images.split import Images
from tpn.labelling.networks import EFFICIENTNET, find_network
from tpn.labelling.suggestions import suggest
from tpn.progress import progress
from tpn.semi_supervised.feature_scaling import FeatureScaler

EVERY = ["test", "train", "val"]
SETS = {
    "test": ("20 test classes x 600", ["test"], range(600)),
    "all": ("100 classes x 100", EVERY, range(100)),
    "others": ("100 classes x 100 others", EVERY, range(100, 200)),
    "val": ("16 validation classes x 600", ["val"], range(600)),
    "train": ("64 training classes x 100 others", ["train"], range(100, 200)),
    "small": ("20 test classes x 100", ["test"], range(100)),
}
BINS = 15
SUGGESTED = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--features", type=Path, default=Path("runs/labelling-features"), help="where they are kept")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["test", "all", "others"])
    parser.add_argument("--labels", nargs="+", type=int, default=[1, 5, 10])
    parser.add_argument("--only-ours", action="store_true", help="leave out LabelSpreading and logistic regression")
    parser.add_argument("--backbone", default=EFFICIENTNET, help="the network, as `tpn label --backbone` takes it")
    options = parser.parse_args()
    images = open_images(f"mini-imagenet:{os.environ['TPN_MINI_IMAGENET']}")
    options.features.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name, splits, places in (SETS[chosen] for chosen in options.sets):
        features, truth = embedded(images, splits, places, options.features, options.backbone)
        for balanced in (True, False):
            for labels in options.labels:
                compare(name, features, truth, balanced, labels, options.seeds, not options.only_ours)


def embedded(
    images: Images, splits: list[str], places: range, folder: Path, backbone: str = EFFICIENTNET
) -> tuple[np.ndarray, np.ndarray]:
    """The features of the images at these places in each class, and their classes."""
    known = find_network(backbone, torch.device("cpu"))
    prefix = "" if backbone == EFFICIENTNET else f"{known.key}-"
    file = folder / f"{prefix}{'-'.join(splits)}-{places.start}-{places.stop}.npz"
    if not file.is_file():
        network = known.load()
        features, truth = [], []
        for split in map(images.split, splits):
            rows = np.concatenate([start + np.array(places) for start in split.starts[:-1]])
            truth += [f"{split.name}-{index}" for index in range(len(split.classes)) for _ in places]
            with progress(f"embedding {split.name}", len(rows), "images") as advance:
                for start in range(0, len(rows), 32):
                    batch = split.load(rows[start : start + 32])
                    with torch.inference_mode():
                        scaled = F.interpolate(batch, (network.image_size,) * 2, mode="bilinear")
                        features.append(network.embed(scaled).numpy())
                    advance(len(features[-1]))
        np.savez(file, features=np.concatenate(features), truth=np.unique(truth, return_inverse=True)[1])
    kept = np.load(file)
    return kept["features"], kept["truth"]


def compare(
    name: str, features: np.ndarray, truth: np.ndarray, balanced: bool, labels: int, seeds: int, others: bool
) -> None:
    """One line of the table, and what belongs to it."""
    ours, spreading, linear, errors, helped, chance, strange = [], [], [], [], [], [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        rows = np.arange(len(truth)) if balanced else unbalanced(truth, rng)
        y, points = truth[rows], FeatureScaler().fit_transform(features[rows])
        given = few(y, labels, rng)
        rest = given < 0
        model = LabelPropagator(n_jobs=-1).fit(points, given)
        ours.append(accuracy(model, y, rest))
        errors.append(calibration_error(confidence(model)[rest], (model.transduction_ == y)[rest]))
        if balanced:
            strange.append(strangers(points, y, given, rng))
        if others:
            spreading.append(max(accuracy(spread(alpha).fit(points, given), y, rest) for alpha in (0.2, 0.8, 0.99)))
            linear.append(max(regression(features[rows], given, y, C) for C in (1, 10, 100, 1000)))
        if labels == 1:
            first = suggest(points, model.label_distributions_, rest, SUGGESTED)
            random = rng.choice(np.flatnonzero(rest), SUGGESTED, replace=False)
            helped.append(with_more(points, given, y, first))
            chance.append(with_more(points, given, y, random))
    kind = "balanced" if balanced else "unbalanced 1:10"
    print(f"{name}, {kind}, {labels} label(s) of each class, {seeds} seeds: accuracy on the others, mean ± deviation")
    for what, values in (("LabelPropagator", ours), ("LabelSpreading", spreading), ("logistic regression", linear)):
        if values:
            print(f"  {what:<22} {100 * np.mean(values):6.2f} ± {100 * np.std(values):.2f} %")
    print(f"  calibration error      {np.mean(errors):.3f}  ({BINS} bins of equal mass; at most {max(errors):.3f})")
    if helped:
        more = f"  {SUGGESTED} more labels, suggested or random"
        print(f"{more}: {100 * np.mean(helped):.2f} % or {100 * np.mean(chance):.2f} %")
    if strange:
        apart, known, other = 100 * np.mean(strange, 0)
        print(
            f"  half of the classes without labels: mean confidence {known:.0f} % in those with labels, {other:.0f} %"
        )
        print(f"  in the others; of two images the more confident one is of a class with labels in {apart:.0f} %")
    print(flush=True)


def confidence(model: LabelPropagator) -> np.ndarray:
    """As `tpn label` writes it."""
    return np.asarray(model.label_distributions_.max(1) * model.familiarity_)


def strangers(points: np.ndarray, truth: np.ndarray, given: np.ndarray, rng: np.random.Generator) -> list[float]:
    """If half of the classes have no label: how far confidence tells images of these apart, and what it is."""
    with_labels = rng.permutation(np.unique(truth))[: len(np.unique(truth)) // 2]
    labels = np.where(np.isin(truth, with_labels), given, -1)
    sure = confidence(LabelPropagator(n_jobs=-1).fit(points, labels))[labels < 0]
    known = np.isin(truth, with_labels)[labels < 0]
    return [float(roc_auc_score(known, sure)), float(sure[known].mean()), float(sure[~known].mean())]


def unbalanced(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of which classes have from all to a tenth of their images, which one by chance."""
    counts = np.bincount(truth)
    shares = rng.permutation(10 ** -np.linspace(0, 1, len(counts)))
    kept = np.round(counts * shares).astype(int)
    return np.concatenate([rng.choice(np.flatnonzero(truth == c), n, replace=False) for c, n in enumerate(kept)])


def few(truth: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Labels of some images of each class; -1 for the others."""
    given = np.full(len(truth), -1)
    for class_ in np.unique(truth):
        given[rng.choice(np.flatnonzero(truth == class_), number, replace=False)] = class_
    return given


def accuracy(model: LabelPropagator | LabelSpreading, truth: np.ndarray, rest: np.ndarray) -> float:
    return float((model.transduction_[rest] == truth[rest]).mean())


def spread(alpha: float) -> LabelSpreading:
    return LabelSpreading(kernel="knn", n_neighbors=10, alpha=alpha, max_iter=100, n_jobs=-1)


def regression(features: np.ndarray, given: np.ndarray, truth: np.ndarray, C: float) -> float:
    """Logistic regression on the labelled ones."""
    centred = features - features.mean(0)
    points = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    rest = given < 0
    model = LogisticRegression(C=C, max_iter=300).fit(points[~rest], given[~rest])
    return float((model.predict(points[rest]) == truth[rest]).mean())


def with_more(points: np.ndarray, given: np.ndarray, truth: np.ndarray, more: np.ndarray) -> float:
    """Accuracy, on what has no label then, with the true labels of some more images."""
    labels = given.copy()
    labels[more] = truth[more]
    return accuracy(LabelPropagator(n_jobs=-1).fit(points, labels), truth, labels < 0)


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error, in bins of equally many images."""
    bins = np.array_split(np.argsort(sure), BINS)
    return float(sum(len(part) * abs(sure[part].mean() - right[part].mean()) for part in bins) / len(sure))


if __name__ == "__main__":
    main()
