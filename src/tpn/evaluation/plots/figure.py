"""Making and writing figures."""

import warnings
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tpn.errors import TPNError
from tpn.files import check_target, replacing

INK, FAINT = "#22262b", "#9aa3ad"
CLASS_COLOURS = (
    "#2f6fde",
    "#e07b00",
    "#15936a",
    "#c03f8f",
    "#7a5bd6",
    "#a98600",
    "#00929e",
    "#b3503c",
    "#5d8a1f",
    "#5c6570",
)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches; it needs no display."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def tidy(axes: Any) -> None:
    """Remove what does not help to read the axes."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(axis="both", color="#e8ebee", linewidth=0.8)
    axes.set_axisbelow(True)


def class_colour(label: int) -> str:
    """Return the colour of a class in an episode."""
    return CLASS_COLOURS[label % len(CLASS_COLOURS)]


def check_figure(path: Path) -> str:
    """Refuse a file that no figure can be written to. Returns the format that its ending names."""
    kind = path.suffix.lstrip(".").lower() or "png"
    known = FigureCanvasAgg.filetypes
    if kind not in known:
        raise TPNError(f"Cannot draw to {path}: the ending must be one of {', '.join(sorted(known))}.")
    check_target(path)
    return kind


def finish(figure: Figure, path: Path | None) -> Figure:
    """Write a figure in the format that the file's ending names, if there is a file; return it for notebooks."""
    if path is None:
        return figure
    kind = check_figure(path)
    with replacing(path) as stream, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # class names in any script
        figure.savefig(stream, format=kind, dpi=120)
    return figure
