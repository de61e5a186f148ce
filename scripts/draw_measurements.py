"""The figures of measurements: accuracy by the number of labels, confidence against accuracy, and speed."""

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading

import tpn
from benchmarks.labelling import vectors
from scripts.figure_style import Look, figure, legend, tidy

CLASSES, EACH, SEEDS = 20, 40, 5
LABELS = (1, 2, 3, 5, 10, 20)
AT_ONCE, BINS = 5, 10
"""Labels of each class in the figure of confidence, and its bins."""
BACKBONE = "efficientnet-lite0"
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
LARGEST_SPREADING, MANY, ROUNDS = 30_000, 10_000, 3
"""The largest fit of LabelSpreading; up to how many vectors a fit is repeated, and how often."""
OURS, THEIRS, LINEAR = "LabelPropagator", "scikit-learn's LabelSpreading", "logistic regression"


def measure_labelling() -> dict[str, Any]:
    """Label the drawings of 20 classes from a few labels of each, and compare with the truth."""
    warnings.simplefilter("ignore")
    features, truth = embedded_drawings()
    unit = normalize(features)
    accuracy: dict[str, dict[int, list[float]]] = {name: {n: [] for n in LABELS} for name in (OURS, LINEAR)}
    confidence: list[np.ndarray] = []
    right: list[np.ndarray] = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        order = np.concatenate([rng.permutation(np.flatnonzero(truth == class_))[None] for class_ in range(CLASSES)])
        for n in LABELS:
            y = np.full(len(truth), -1)
            y[order[:, :n].ravel()] = truth[order[:, :n].ravel()]
            rest = y < 0
            model = tpn.LabelPropagator().fit(tpn.FeatureScaler().fit_transform(features), y)
            linear = LogisticRegression(C=10, max_iter=500).fit(unit[~rest], y[~rest])
            accuracy[OURS][n].append(float((model.transduction_[rest] == truth[rest]).mean()))
            accuracy[LINEAR][n].append(float((linear.predict(unit[rest]) == truth[rest]).mean()))
            if n == AT_ONCE:
                confidence.append((model.label_distributions_.max(1) * model.familiarity_)[rest])
                right.append(model.transduction_[rest] == truth[rest])
    return {"accuracy": accuracy, "reliability": binned(np.concatenate(confidence), np.concatenate(right))}


def embedded_drawings() -> tuple[np.ndarray, np.ndarray]:
    """Return the features and the classes of drawings, embedded as `tpn embed` does."""
    split = tpn.open_images("quickdraw").split("test")
    truth = np.repeat(np.arange(CLASSES), EACH)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "drawings"
        folder.mkdir()
        for number, class_ in enumerate(truth):
            pixels = 255 - np.asarray(split.images[int(split.starts[class_]) + number % EACH]).squeeze()
            canvas = Image.new("L", (36, 36), 255)
            canvas.paste(Image.fromarray(pixels), (4, 4))
            canvas.resize((216, 216), Image.Resampling.BICUBIC).save(folder / f"{number:04}.png")
        tpn.embed_images(folder, Path(place) / "features", backbone=BACKBONE, cache=Path(place) / "cache", threads=1)
        return np.array(tpn.open_features(Path(place) / "features")), truth


def binned(confidence: np.ndarray, right: np.ndarray) -> list[tuple[float, float]]:
    """Return mean confidence and accuracy in bins of equal size."""
    parts = np.array_split(np.argsort(confidence), BINS)
    return [(float(confidence[part].mean()), float(right[part].mean())) for part in parts]


def measure_speed() -> dict[str, Any]:
    """Measure the CPU time of one fit, in turns."""
    warnings.simplefilter("ignore")
    models: dict[str, Callable[[], Any]] = {
        OURS: lambda: tpn.LabelPropagator(n_jobs=1),
        THEIRS: lambda: LabelSpreading(kernel="knn", n_neighbors=20, alpha=0.99, max_iter=30, n_jobs=1),
    }
    seconds: dict[str, dict[int, float]] = {name: {} for name in models}
    for size in SIZES:
        points, _, labels = vectors(size)
        taken: dict[str, list[float]] = {name: [] for name in models}
        for name, build in [*models.items()] * (ROUNDS if size <= MANY else 1):
            if name == OURS or size <= LARGEST_SPREADING:
                start = time.process_time()
                build().fit(points, labels)
                taken[name].append(time.process_time() - start)
        for name, times in taken.items():
            if times:
                seconds[name][size] = float(np.median(times))
    return {"seconds": seconds}


def draw_accuracy(measured: dict[str, Any], look: Look) -> Figure:
    """Accuracy by the number of labels of each class."""
    drawn = figure(look, 3.6)
    axes = drawn.subplots()
    for (name, by_labels), colour in zip(measured["accuracy"].items(), look.classes, strict=False):
        labels = [int(n) for n in by_labels]
        means = np.array([100 * np.mean(values) for values in by_labels.values()])
        spread = np.array([100 * np.std(values, ddof=1) for values in by_labels.values()])
        axes.fill_between(labels, means - spread, means + spread, color=colour, alpha=0.2, linewidth=0)
        axes.plot(labels, means, "o-", color=colour, label=name)
    tidy(axes, look)
    axes.set_xscale("log")
    axes.set_xticks(LABELS, map(str, LABELS))
    axes.set_xticks([], minor=True)
    axes.set_xlabel("labels of each class")
    axes.set_ylabel("found labels that are right, in %")
    legend(axes, look, loc="lower right")
    return drawn


def draw_confidence(measured: dict[str, Any], look: Look) -> Figure:
    """How often labels of a confidence are right."""
    drawn = figure(look, 3.8)
    axes = drawn.subplots()
    confidence, accuracy = 100 * np.array(measured["reliability"]).T
    axes.plot([0, 100], [0, 100], "--", color=look.faint, linewidth=1)
    axes.plot(confidence, accuracy, "o-", color=look.classes[0])
    tidy(axes, look)
    axes.set_aspect("equal")
    axes.set_xlim(0, 102)
    axes.set_ylim(0, 102)
    axes.set_xlabel("mean confidence in %")
    axes.set_ylabel("right, in %")
    return drawn


def draw_speed(measured: dict[str, Any], look: Look) -> Figure:
    """CPU time by the number of vectors."""
    drawn = figure(look, 3.6)
    axes = drawn.subplots()
    for (name, seconds), colour in zip(measured["seconds"].items(), look.classes, strict=False):
        shown = name if name == OURS else f"{name} (knn, 30 iterations)"
        axes.loglog([int(size) for size in seconds], list(seconds.values()), "o-", color=colour, label=shown)
    tidy(axes, look)
    axes.set_xlabel("vectors")
    axes.set_ylabel("CPU time in seconds")
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.set_xticks([], minor=True)
    legend(axes, look, loc="upper left")
    return drawn
