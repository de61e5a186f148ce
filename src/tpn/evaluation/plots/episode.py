"""An episode drawn as the graph on which its labels spread."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from matplotlib.collections import LineCollection
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from matplotlib.patches import Patch

from tpn.episodes.task import Episode, Role, as_task
from tpn.evaluation.plots.figure import INK, class_colour, new_figure, write_figure
from tpn.evaluation.protocol import embed_rows
from tpn.images.split import Split
from tpn.methods._method import Method

MISTAKE = "#d21f2b"
_NAME: dict[str, Any] = {
    "textcoords": "offset points",
    "ha": "center",
    "weight": "bold",
    "bbox": {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
}
THUMBNAIL = 0.062
"""The width of an image, as a share of the figure's."""


def draw_episode(method: Method, split: Split, episode: Episode, path: Path) -> None:
    """Draw one episode: images placed by their features, edges by weight, propagated labels as colours.

    Images of the support have a thick frame, and the first of each class its name; mistakes are crossed out in red.
    """
    method.eval()
    features = embed_rows(method, split, episode.images)[None]
    task = as_task([episode], features)
    with torch.no_grad():
        scores = method.score(task)[0]
        graph = method.graph(task)
    weights = None if graph is None else graph[0].double().numpy()
    labels, sure = _predictions(episode, scores)

    figure = new_figure(10, 10)
    axes = figure.subplots()
    places = _places(features[0].flatten(1).double().numpy(), weights)
    if weights is not None:
        axes.add_collection(_edges(places, weights))
    for node in np.flatnonzero(episode.role != Role.UNLABELLED):
        pixels = split.pixels(episode.images[node])
        image = OffsetImage(pixels, zoom=30 / len(pixels), cmap="gray_r")
        support = episode.role[node] == Role.SUPPORT
        frame = _frame(int(labels[node]), float(sure[node]), support)
        axes.add_artist(AnnotationBbox(image, places[node], bboxprops=frame, pad=0.1, zorder=5 if support else 4))
        if labels[node] != episode.labels[node]:
            axes.plot(*places[node], "x", color=MISTAKE, ms=20, mew=2.5, zorder=6)
    for label, class_ in enumerate(episode.classes):
        node = np.flatnonzero((episode.role == Role.SUPPORT) & (episode.labels == label))[0]
        axes.annotate(
            split.classes[class_], places[node], xytext=(0, -31), zorder=7, **_NAME, color=class_colour(label)
        )
    _title(axes, split, episode, labels, weights is not None)
    axes.set_xlim(places[:, 0].min() - 0.06, places[:, 0].max() + 0.06)
    axes.set_ylim(places[:, 1].min() - 0.06, places[:, 1].max() + 0.06)
    axes.set_axis_off()
    write_figure(figure, path)


def _predictions(episode: Episode, scores: Float[torch.Tensor, "query way"]) -> tuple[Any, Any]:
    """For every node the label it is given and how sure that is; the support is sure of its own."""
    labels, sure = episode.labels.copy(), np.ones(len(episode.labels))
    queries = episode.role == Role.QUERY
    probabilities = scores.softmax(-1)
    labels[queries] = scores.argmax(-1).numpy()
    sure[queries] = probabilities.max(-1).values.numpy()
    return labels, sure


def _places(
    features: Float64[np.ndarray, "node feature"], weights: Float64[np.ndarray, "node node"] | None
) -> Float64[np.ndarray, "node 2"]:
    """Places in the unit square: the two main directions of the features, then edges pull and images push."""
    left, values, _ = np.linalg.svd(features - features.mean(0), full_matrices=False)
    places = _to_unit_square(left[:, :2] * values[:2])
    pull = np.zeros((len(places), len(places))) if weights is None else weights / weights.sum(1, keepdims=True)
    pull = 4 * np.sqrt(len(places)) * (pull + pull.T) / 2
    ideal = 0.75 / np.sqrt(len(places))
    for heat in np.linspace(0.05, 0.001, 400):
        apart, distance = _apart(places)
        move = _sum_of_forces(apart, distance, ideal**2 / distance - pull * distance) - 0.3 * (places - 0.5)
        length = np.sqrt((move**2).sum(-1, keepdims=True)) + 1e-12
        places = places + move / length * np.minimum(length, heat)
    places = _to_unit_square(places)
    for _ in range(200):  # now no image may hide another
        apart, distance = _apart(places)
        places = places + _sum_of_forces(apart, distance, 0.3 * np.maximum(THUMBNAIL - distance, 0))
    return _to_unit_square(places)


def _apart(places: Float64[np.ndarray, "node 2"]) -> tuple[Any, Any]:
    apart = places[:, None] - places[None]
    return apart, np.sqrt((apart**2).sum(-1)) + 1e-6


def _sum_of_forces(apart: Any, distance: Any, force: Any) -> Any:
    np.fill_diagonal(force, 0)
    return (apart / distance[..., None] * force[..., None]).sum(1)


def _to_unit_square(places: Float64[np.ndarray, "node 2"]) -> Float64[np.ndarray, "node 2"]:
    unit: np.ndarray = (places - places.min(0)) / np.maximum(np.ptp(places, axis=0), 1e-12)
    return unit


def _edges(places: Float64[np.ndarray, "node 2"], weights: Float64[np.ndarray, "node node"]) -> Any:
    first, second = np.nonzero(np.triu(weights, 1))
    strength = weights[first, second]
    shade = 0.05 + 0.7 * strength / max(strength.max(initial=0), 1e-12)
    colours = [(0.25, 0.3, 0.36, float(alpha)) for alpha in shade]
    lines = list(np.stack([places[first], places[second]], 1))
    return LineCollection(lines, colors=colours, linewidths=1.0, zorder=1)


def _frame(label: int, sure: float, support: np.bool_) -> dict[str, Any]:
    """A frame in the colour of the label that an image is given, the paler the less sure; thick if it is known."""
    return {
        "edgecolor": class_colour(label),
        "facecolor": "white",
        "linewidth": 4.5 if support else 1.8,
        "boxstyle": "round,pad=0.15" if support else "square,pad=0.1",
        "alpha": 0.35 + 0.65 * sure,
    }


def _title(axes: Any, split: Split, episode: Episode, labels: Any, graph: bool) -> None:
    meaning = "label that has spread to" if graph else "label given to"
    queries = episode.role == Role.QUERY
    right = int((labels[queries] == episode.labels[queries]).sum())
    names = [split.classes[index] for index in episode.classes]
    handles = [Patch(facecolor=class_colour(label), label=name) for label, name in enumerate(names)]
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=min(5, len(names)), frameon=False
    )
    axes.set_title(
        f"{right} of {int(queries.sum())} queries right.  Thick frames: labelled.  "
        f"Colour: the {meaning} an image.  Red cross: mistake.",
        color=INK,
        fontsize=11,
    )
