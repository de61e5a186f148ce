"""An episode drawn as the graph on which its labels propagate."""

from pathlib import Path
from textwrap import wrap
from typing import Any

import networkx as nx
import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from scipy.optimize import linear_sum_assignment

from tpn.episodes.task import Episode, Role, as_task
from tpn.evaluation.plots.figure import FAINT, INK, class_colour, finish, new_figure
from tpn.evaluation.protocol import embed_rows
from tpn.images.split import Split
from tpn.methods._method import Method

EDGES = 4
"""Of each image only the strongest edges count in the picture: all of them would be a hairball."""
FREE = 0.75
"""Grid cells that stay empty, per image: room between the clusters."""
CELL = np.array([0.74, 0.78])
"""Width and height of a grid cell in inches: an image, the caption below it, and space for the edges."""
SIDE = 0.5
"""The side of an image in inches."""
CAPTION = 13
"""The most characters of a class name below an image."""
TITLE_CHARACTERS = 11
"""Characters of the title per inch."""
MISTAKE = "#fbdcdc"


def draw_episode(method: Method, split: Split, episode: Episode, title: str = "", path: Path | None = None) -> Figure:
    """Draw one episode with the labels that a method predicts, as a graph if the method has one.

    Similar images lie close together, joined by their strongest edges. The colour of a frame is the predicted class,
    paler where the prediction is less certain. Support images have a thick frame and their class below it, mistakes a
    red background and the true class below it.

    Parameters
    ----------
    method : Method
        The trained method.
    split : Split
        The images that the episode was drawn from.
    episode : Episode
        The episode.
    title : str, default=''
        The name of the run and of the setting. The accuracy is added to it.
    path : Path, default=None
        The file to write; its ending is the format.

    Returns
    -------
    Figure
        The figure, which notebooks show.
    """
    method.eval()
    features = embed_rows(method, split, episode.images)[None]
    task = as_task([episode], features)
    with torch.no_grad():
        scores = method.score(task)[0]
        graph = method.graph(task)
    edges = None if graph is None else _strongest_edges(graph[0].double().numpy())
    labels, confidence = _predictions(episode, scores)
    cells = _grid(_layout(features[0].flatten(1).double().numpy(), edges))

    places = (cells + 0.5) * CELL
    width, height = (cells.max(0) + 1) * CELL
    figure = new_figure(max(6.5, 0.3 + width), 1.4 + height)
    axes = figure.subplots()
    if edges is not None:
        axes.add_collection(_lines(places, edges, labels))
    names = [split.classes[index] for index in episode.classes]
    for node, place in enumerate(places):
        role, label, true = episode.role[node], int(labels[node]), int(episode.labels[node])
        wrong = role == Role.QUERY and label != true
        colour = FAINT if role == Role.UNLABELLED else class_colour(label)
        if wrong:
            axes.add_patch(Rectangle(place - (0.31, 0.31), 0.62, 0.7, color=MISTAKE, zorder=2))
        _draw_image(axes, split.pixels(int(episode.images[node])), place, colour, float(confidence[node]), role)
        if wrong or role == Role.SUPPORT:
            _draw_caption(axes, names[true], place, class_colour(true))
    _explain(axes, names, edges is not None, bool((episode.role == Role.UNLABELLED).any()))
    queries = episode.role == Role.QUERY
    right, count = int((labels[queries] == episode.labels[queries]).sum()), int(queries.sum())
    result = f"{right} of {count} queries correct ({100 * right / count:.1f} %)"
    lines = wrap(title, int(TITLE_CHARACTERS * figure.get_figwidth()))
    axes.set_title("\n".join([*lines, result]), color=INK, fontsize=11)
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return finish(figure, path)


def _predictions(episode: Episode, scores: Float[torch.Tensor, "query way"]) -> tuple[Any, Any]:
    """Return the label of every node, -1 for unlabelled ones, and its confidence; support images have their own."""
    labels = np.where(episode.role == Role.SUPPORT, episode.labels, -1)
    confidence = np.ones(len(labels))
    queries = episode.role == Role.QUERY
    labels[queries] = scores.argmax(-1).numpy()
    confidence[queries] = scores.softmax(-1).max(-1).values.numpy()
    return labels, confidence


def _strongest_edges(weights: Float64[np.ndarray, "node node"]) -> nx.Graph:
    """Return the graph of the strongest edges of each node, with the weights scaled to at most 1."""
    weights = np.maximum(weights, weights.T) * (1 - np.eye(len(weights)))
    weakest = np.sort(weights, axis=1)[:, -EDGES:].min(1, keepdims=True)
    kept = np.where((weights >= weakest) | (weights >= weakest.T), weights, 0)
    return nx.from_numpy_array(kept / max(kept.max(), 1e-12))


def _layout(features: Float64[np.ndarray, "node feature"], edges: nx.Graph | None) -> Float64[np.ndarray, "node 2"]:
    """Return places in the unit square: the first two principal components, then springs along the edges.

    Half of a coordinate is its rank, so that a few outliers do not crowd all others together.
    """
    left, values, _ = np.linalg.svd(features - features.mean(0), full_matrices=False)
    places = left[:, :2] * values[:2]
    if edges is not None:
        start = dict(enumerate(places / max(np.abs(places).max(), 1e-12)))
        moved = nx.spring_layout(edges, pos=start, iterations=200, seed=0)
        places = np.array([moved[node] for node in range(len(places))])
    unit = (places - places.min(0)) / np.maximum(np.ptp(places, axis=0), 1e-12)
    ranks = places.argsort(0).argsort(0) / max(len(places) - 1, 1)
    return np.asarray((unit + ranks) / 2)


def _grid(places: Float64[np.ndarray, "node 2"]) -> Int64[np.ndarray, "node 2"]:
    """Move each place to a grid cell of its own, as near as possible, so that no image or caption covers another."""
    wanted = len(places) * (1 + FREE)
    columns = int(np.ceil(np.sqrt(1.25 * wanted)))
    rows = int(np.ceil(wanted / columns))
    grid = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1).reshape(-1, 2)
    distance = ((places[:, None] * (columns - 1, rows - 1) - grid) ** 2).sum(-1)
    cells = grid[linear_sum_assignment(distance)[1]].astype(np.int64)
    return np.asarray(cells - cells.min(0))


def _lines(places: Float64[np.ndarray, "node 2"], edges: nx.Graph, labels: Any) -> LineCollection:
    """Return the edges as lines, wider and darker by weight, in the colour of the label if both ends share it."""
    pairs = list(edges.edges(data="weight"))
    strength = np.array([weight for _, _, weight in pairs])
    return LineCollection(
        [places[[first, second]] for first, second, _ in pairs],
        colors=[class_colour(int(labels[a])) if labels[a] == labels[b] >= 0 else FAINT for a, b, _ in pairs],
        linewidths=0.6 + 2.4 * strength,
        alpha=0.25 + 0.6 * strength,
        zorder=1,
    )


def _draw_image(axes: Any, pixels: Any, place: Any, colour: str, confidence: float, role: Any) -> None:
    left, top = place - SIDE / 2
    axes.imshow(pixels, extent=(left, left + SIDE, top + SIDE, top), cmap="gray_r", vmin=0, vmax=255, zorder=3)
    width = {Role.SUPPORT: 4.0, Role.QUERY: 1.8, Role.UNLABELLED: 0.8}[role]
    axes.add_patch(
        Rectangle((left, top), SIDE, SIDE, fill=False, ec=colour, lw=width, alpha=0.3 + 0.7 * confidence, zorder=4)
    )


def _draw_caption(axes: Any, name: str, place: Any, colour: str) -> None:
    short = name if len(name) <= CAPTION else f"{name[: CAPTION - 1]}…"
    x, y = place[0], place[1] + SIDE / 2 + 0.085
    style: dict[str, Any] = {"ha": "center", "va": "center", "weight": "bold", "fontsize": 6.5, "zorder": 5}
    axes.text(x, y, short, color=colour, bbox={"fc": "white", "ec": "none", "pad": 0.5, "alpha": 0.6}, **style)


def _explain(axes: Any, names: list[str], lines: bool, unlabelled: bool) -> None:
    """Add the legend."""
    frames = ["Thick frame: support.", "Frame colour: predicted class, paler if less certain."]
    others = ["Red background: mistake, with the true class below."]
    frames += ["Grey frame: unlabelled."] if unlabelled else []
    others += [f"Lines: the {EDGES} strongest edges of each image."] if lines else []
    axes.legend(
        handles=[Patch(facecolor=class_colour(label), label=name) for label, name in enumerate(names)],
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=min(5, len(names)),
        frameon=False,
        title="  ".join(frames) + "\n" + "  ".join(others),
        title_fontproperties={"size": 9},
    )
