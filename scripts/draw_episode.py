"""The figures of the method: one real episode, step by step, and what length scales do."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from sklearn.decomposition import PCA

import tpn
from scripts.figure_style import Look, figure, legend, tidy
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode, Role, as_task, query_labels
from tpn.images.split import Split
from tpn.methods.tpn import TPN
from tpn.propagation.affinity import affinity
from tpn.propagation.graph import connect, normalise
from tpn.propagation.solvers import label_matrix, propagate

SETTING, SEED, CANDIDATES = Setting(way=5, shot=1, query=8), 0, 10
"""The episode that is shown is the one of these whose accuracy is nearest to their mean: a typical one."""
ALPHA, K = 0.99, 20
TEST_EPISODES = 200
FACTORS = np.geomspace(0.15, 6, 15)
"""Length scales that are tried, in units of the median of the learned ones."""
SHOWN_FACTORS = (0.3, 1.0, 4.0)
EDGES = 4
"""Of each image only the strongest edges are drawn."""


@dataclass(frozen=True)
class Shown:
    """An episode, and what the network computes of it."""

    images: np.ndarray
    names: list[str]
    labels: np.ndarray
    support: np.ndarray
    places: np.ndarray
    """The first two principal components of the features."""
    features: torch.Tensor
    """f, before it is divided by the length scales."""
    sigma: torch.Tensor
    Y: torch.Tensor

    def graph(self, sigma: Any) -> torch.Tensor:
        """Return the k-nearest-neighbour graph with these length scales."""
        return connect(affinity(self.features, sigma), K)


def open_episode(run: str) -> tuple[Shown, TPN, Split]:
    """Draw the episode, and embed it by a run of tpn."""
    method = tpn.load(run)
    if not isinstance(method, TPN):
        raise SystemExit(f"{run} is not a run of tpn")
    split = tpn.open_images("quickdraw").split("test")
    episode = typical_episode(method, split)
    order = np.lexsort((episode.labels, episode.role))
    rows, labels, role = episode.images[order], episode.labels[order], episode.role[order]
    features, sigma = embedded(method, split, rows)
    support = role == Role.SUPPORT
    Y = label_matrix(torch.from_numpy(np.where(support, labels, -1)), SETTING.way, like=features)
    places = PCA(2).fit_transform(features.numpy())
    images = np.stack([np.asarray(split.images[row]).squeeze() for row in rows])
    names = [split.classes[class_] for class_ in episode.classes]
    return Shown(images, names, labels, support, places, features, sigma, Y), method, split


def typical_episode(method: TPN, split: Split) -> Episode:
    """Return the candidate whose accuracy is nearest to the mean of all."""
    episodes = draw_episodes(split, SETTING, CANDIDATES, SEED)
    accuracies = []
    for episode in episodes:
        features, sigma = embedded(method, split, episode.images)
        with torch.no_grad():
            scores = method.score(as_task([episode], (features / sigma[:, None])[None]))
        accuracies.append(float((scores.argmax(-1) == query_labels([episode])).double().mean()))
    return episodes[int(np.argmin(np.abs(np.array(accuracies) - np.mean(accuracies))))]


def embedded(method: TPN, split: Split, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return f and σ of images."""
    method.eval()
    with torch.no_grad():
        maps = method.backbone(split.load(rows))
        return method.features(maps), method.length_scale(maps)


def draw_embedding(shown: Shown, look: Look) -> Figure:
    """Step 1: the images at their places."""
    drawn = figure(look, 4.4)
    axes = drawn.subplots()
    for node, (x, y) in enumerate(shown.places):
        colour = look.classes[shown.labels[node]] if shown.support[node] else look.line
        box = OffsetImage(picture(shown.images[node], look), zoom=0.95)
        frame = {"edgecolor": colour, "linewidth": 3.2 if shown.support[node] else 0.8, "facecolor": look.paper}
        axes.add_artist(AnnotationBbox(box, (x, y), pad=0.12, bboxprops=frame, zorder=5 if shown.support[node] else 3))
    for class_, name in enumerate(shown.names):
        axes.plot([], [], "s", color=look.classes[class_], label=name)
    frame_around(axes, shown.places, look)
    legend(axes, look, loc="center left", bbox_to_anchor=(1.0, 0.5), title="labelled", title_fontsize=9)
    return drawn


def draw_graph(shown: Shown, look: Look) -> Figure:
    """Step 2: the graph, and S with the images sorted by class."""
    W = shown.graph(shown.sigma)
    drawn = figure(look, 3.9)
    left, right = drawn.subplots(1, 2, width_ratios=(1.25, 1))
    draw_nodes(left, shown, W, look, shown.labels, np.ones(len(shown.labels)))
    left.set_title("true classes, and the strongest edges", color=look.ink, fontsize=10)
    order = np.argsort(shown.labels, kind="stable")
    S = normalise(W).numpy()[np.ix_(order, order)] * (1 - np.eye(len(order)))
    right.imshow(np.sqrt(S), cmap="Greys" if look.name == "light" else "gray", interpolation="nearest")
    borders = np.flatnonzero(np.diff(shown.labels[order])) + 0.5
    for border in borders:
        right.axhline(border, color=look.accent, linewidth=0.8)
        right.axvline(border, color=look.accent, linewidth=0.8)
    right.set_title("S, images sorted by class", color=look.ink, fontsize=10)
    right.set_xticks([])
    right.set_yticks([])
    right.spines[:].set_color(look.line)
    return drawn


def draw_propagation(shown: Shown, look: Look) -> Figure:
    """Step 3: the labels before propagation, after some steps, and in the limit."""
    W = shown.graph(shown.sigma)
    S = normalise(W)
    drawn = figure(look, 2.3)
    panels = drawn.subplots(1, 5)
    F, done = shown.Y, 0
    for axes, steps in zip(panels, (0, 1, 3, 10, None), strict=True):
        if steps is None:
            F = propagate(S, shown.Y, ALPHA)
        else:
            for _ in range(steps - done):
                F = ALPHA * S @ F + (1 - ALPHA) * shown.Y
            done = steps
        total = F.sum(1).clamp_min(1e-12)
        share = np.where(F.sum(1).numpy() > 1e-9, (F.max(1).values / total).numpy(), 0.0)
        labels = np.where(share > 0, F.argmax(1).numpy(), -1)
        draw_nodes(axes, shown, W, look, labels, share, small=True)
        title = "Y" if steps == 0 else f"{steps} step{'s' if steps > 1 else ''}" if steps else "limit"
        axes.set_title(title, color=look.ink, fontsize=10)
        if steps is None:
            wrong = labels != shown.labels
            axes.scatter(*shown.places[wrong].T, marker="x", s=60, color=look.ink, linewidth=1.4, zorder=6)
            right = int((~wrong & ~shown.support).sum())
            axes.set_title(f"limit: {right} of {int((~shown.support).sum())}", color=look.ink, fontsize=10)
    return drawn


def draw_loss(shown: Shown, look: Look) -> Figure:
    """Step 4: the probabilities of the queries, and the cross-entropy of each."""
    F = propagate(normalise(shown.graph(shown.sigma)), shown.Y, ALPHA)
    order = np.flatnonzero(~shown.support)[np.argsort(shown.labels[~shown.support], kind="stable")]
    P, labels = F.softmax(1).numpy()[order], shown.labels[order]
    drawn = figure(look, 3.3)
    above, below = drawn.subplots(2, 1, sharex=True, height_ratios=(1.5, 1))
    bottom = np.zeros(len(order))
    for class_, name in enumerate(shown.names):
        above.bar(range(len(order)), P[:, class_], bottom=bottom, width=1, color=look.classes[class_], label=name)
        bottom += P[:, class_]
    losses = -np.log(P[np.arange(len(order)), labels])
    below.bar(range(len(order)), losses, width=0.8, color=[look.classes[label] for label in labels])
    for axes in (above, below):
        tidy(axes, look)
        axes.grid(False)
        axes.set_xlim(-0.6, len(order) - 0.4)
        for border in np.flatnonzero(np.diff(labels)) + 0.5:
            axes.axvline(border, color=look.ink, linewidth=0.8)
    above.set_ylim(0, 1)
    above.set_ylabel("P (5)")
    below.set_ylabel("−log P (6)")
    below.set_xlabel("queries, sorted by true class")
    below.set_xticks([])
    legend(above, look, loc="center left", bbox_to_anchor=(1.0, 0.3))
    return drawn


def measure_scales(method: TPN, split: Split) -> dict[str, Any]:
    """Measure accuracy with one length scale for all images, and with the learned ones."""
    episodes = draw_episodes(split, Setting(way=5, shot=1, query=15), TEST_EPISODES, seed=0)
    rows = np.unique(np.concatenate([episode.images for episode in episodes]))
    parts = [embedded(method, split, part) for part in np.array_split(rows, max(1, len(rows) // 256))]
    f, sigma = (torch.cat(column) for column in zip(*parts, strict=True))
    place = torch.from_numpy(np.stack([np.searchsorted(rows, episode.images) for episode in episodes]))
    truth, median = query_labels(episodes), float(sigma.abs().median())

    def accuracy(scales: torch.Tensor) -> float:
        task = as_task(episodes, (f / scales[:, None])[place])
        return float((method.score(task).argmax(-1) == truth).double().mean())

    with torch.no_grad():
        single = [accuracy(torch.full_like(sigma, median * factor)) for factor in FACTORS]
        return {"factors": FACTORS.tolist(), "single": single, "learned": accuracy(sigma), "median": median}


def draw_scales(shown: Shown, measured: dict[str, Any], look: Look) -> Figure:
    """What length scales do: accuracy for each, and the graph of the episode at three of them."""
    drawn = figure(look, 4.6)
    places = drawn.subplot_mosaic([["curve"] * 3, ["0", "1", "2"]], height_ratios=(1.15, 1))
    axes = places["curve"]
    axes.semilogx(
        measured["factors"], np.multiply(measured["single"], 100), "o-", color=look.accent, label="one σ for all"
    )
    axes.axhline(100 * measured["learned"], color=look.ink, linestyle="--", label="learned σ for each image")
    axes.axhline(20, color=look.faint, linestyle=":", label="chance")
    tidy(axes, look)
    axes.set_xlabel("σ, relative to the median of the learned length scales")
    axes.set_ylabel("accuracy in %")
    axes.set_xticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    axes.set_xticks([], minor=True)
    legend(axes, look, loc="center right")
    for number, factor in enumerate(SHOWN_FACTORS):
        W = shown.graph(float(measured["median"]) * factor)
        F = propagate(normalise(W), shown.Y, ALPHA)
        total = F.sum(1).clamp_min(1e-12)
        share = (F.max(1).values / total).numpy()
        labels = np.where(F.sum(1).numpy() > 1e-9, F.argmax(1).numpy(), -1)
        draw_nodes(places[str(number)], shown, W, look, labels, share, small=True)
        places[str(number)].set_title(f"σ × {factor:g}", color=look.ink, fontsize=10)
    return drawn


def draw_nodes(
    axes: Any, shown: Shown, W: torch.Tensor, look: Look, labels: np.ndarray, share: np.ndarray, small: bool = False
) -> None:
    """Draw the images as dots at their places, in the colours of their classes, with their strongest edges."""
    weights = W.numpy() * (1 - np.eye(len(W)))
    weakest = np.maximum(np.sort(weights, axis=1)[:, -EDGES], 1e-6)
    pairs = np.argwhere(np.triu((weights >= weakest[:, None]) | (weights >= weakest)))
    strength = weights[tuple(pairs.T)] / max(float(weights.max()), 1e-12)
    lines = LineCollection(shown.places[pairs].tolist(), colors=look.faint, linewidths=0.3 + 1.2 * strength, zorder=1)
    lines.set_alpha(0.6)
    axes.add_collection(lines)
    for support in (False, True):
        chosen = shown.support == support
        colours = [
            look.line if label < 0 else look.shade(look.classes[label], 0.25 + 0.75 * float(one))
            for label, one in zip(labels[chosen], share[chosen], strict=True)
        ]
        size = (120 if support else 34) * (0.6 if small else 1)
        edge = look.ink if support else look.faint
        x, y = shown.places[chosen].T
        axes.scatter(x, y, s=size, c=colours, edgecolors=edge, linewidths=1.4 if support else 0.5, zorder=4 + support)
    frame_around(axes, shown.places, look)


def frame_around(axes: Any, places: np.ndarray, look: Look) -> None:
    """Show all places, without ticks."""
    low, high = places.min(0), places.max(0)
    margin = 0.08 * (high - low)
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])
    axes.set_facecolor(look.paper)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(look.line)


def picture(image: np.ndarray, look: Look) -> np.ndarray:
    """Return a drawing in the colours of the look: ink on paper."""
    ink, paper = (np.array(look.shade(colour, 1.0)) for colour in (look.ink, look.paper))
    strength = image[..., None] / 255
    mixed: np.ndarray = strength * ink + (1 - strength) * paper
    return mixed
