"""The images of an episode, side by side."""

from pathlib import Path

from matplotlib.figure import Figure

from tpn.episodes.task import Episode, Role
from tpn.evaluation.plots.figure import FAINT, INK, class_colour, finish, new_figure
from tpn.images.split import Split

COLUMNS = {Role.SUPPORT: 5, Role.QUERY: 15, Role.UNLABELLED: 10}
"""The most images of a class side by side; further ones come below."""
TITLES = {Role.SUPPORT: "support", Role.QUERY: "queries", Role.UNLABELLED: "unlabelled"}
TILE = 0.55
"""The width of an image in inches."""
GAP = 0.3
"""The space between support and queries, and between classes, in widths of an image."""


def draw_contact_sheet(split: Split, episode: Episode, title: str = "", path: Path | None = None) -> Figure:
    """Draw the images of an episode, a row per class: support, queries and unlabelled images.

    Writes the file if there is a path.
    """
    labels = [*range(len(episode.classes)), *([-1] if (episode.labels == -1).any() else [])]
    cells = {
        (label, role): episode.images[(episode.labels == label) & (episode.role == role)]
        for label in labels
        for role in Role
    }
    widths = {
        role: min(COLUMNS[role], max(len(cells[label, role]) for label in labels))
        for role in Role
        if any(len(cells[label, role]) for label in labels)
    }
    lefts, left = {}, 0.0
    for role, width in widths.items():
        lefts[role], left = left, left + width + GAP
    tops, top = [], 0.0
    for label in labels:
        tops.append(top)
        top += max(-(-len(cells[label, role]) // widths[role]) for role in widths) + GAP
    names = [split.classes[episode.classes[label]] if label >= 0 else "distractors" for label in labels]
    margin = 0.6 + 0.085 * max(map(len, names))

    figure = new_figure(margin + TILE * left, 1.0 + TILE * top)
    axes = figure.subplots()
    for label, name, row in zip(labels, names, tops, strict=True):
        colour = class_colour(label) if label >= 0 else INK
        axes.text(-GAP, row + 0.5, name, ha="right", va="center", color=colour, weight="bold", fontsize=10)
        for role, width in widths.items():
            for index, image in enumerate(cells[label, role]):
                x, y = lefts[role] + index % width, row + index // width
                axes.imshow(
                    split.pixels(int(image)),
                    extent=(x + 0.02, x + 0.98, y + 0.98, y + 0.02),
                    cmap="gray_r",
                    vmin=0,
                    vmax=255,
                )
    for role, x in lefts.items():
        axes.text(x, -0.15, TITLES[role], ha="left", va="bottom", color=FAINT, fontsize=9)
    axes.set_xlim(-GAP, left - GAP)
    axes.set_ylim(top - GAP, -0.1)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(title, color=INK, fontsize=11, pad=18)
    return finish(figure, path)
