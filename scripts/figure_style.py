"""The two looks of the documentation's figures, light and dark, and how they are written."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from tpn.files import write_text

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "figures"
WIDTH = 8.0
"""The width of a figure in inches: that of the text of a page."""


@dataclass(frozen=True)
class Look:
    """The colours of a figure."""

    name: str
    paper: str
    ink: str
    faint: str
    line: str
    box: str
    accent: str
    classes: tuple[str, ...]

    def shade(self, colour: str, share: float) -> tuple[float, float, float]:
        """Mix a colour with the background: all of the colour for a share of 1, none for 0."""
        pairs = zip(matplotlib.colors.to_rgb(colour), matplotlib.colors.to_rgb(self.paper), strict=True)
        red, green, blue = (share * one + (1 - share) * other for one, other in pairs)
        return red, green, blue


LIGHT = Look(
    name="light",
    paper="#ffffff",
    ink="#22262b",
    faint="#6b7480",
    line="#c9d0d8",
    box="#eef1f8",
    accent="#3f51b5",
    classes=("#2f6fde", "#e07b00", "#15936a", "#c03f8f", "#7a5bd6"),
)
DARK = Look(
    name="dark",
    paper="#1e2129",
    ink="#e3e6ea",
    faint="#98a2ad",
    line="#4a505b",
    box="#2b303b",
    accent="#8c9eff",
    classes=("#6ea0ff", "#ffa53d", "#3ecb9c", "#f07cc2", "#b197ff"),
)
LOOKS = (LIGHT, DARK)


def figure(look: Look, height: float) -> Figure:
    """Return an empty figure in this look; it needs no display."""
    return Figure(figsize=(WIDTH, height), layout="constrained", facecolor=look.paper)


def tidy(axes: Any, look: Look) -> None:
    """Give axes the colours of the look, and remove what does not help to read them."""
    axes.set_facecolor(look.paper)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(look.line)
    axes.tick_params(colors=look.ink, labelsize=9)
    axes.grid(axis="both", color=look.line, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(look.ink)


def legend(axes: Any, look: Look, **options: Any) -> None:
    """Add a legend in the colours of the look."""
    drawn = axes.legend(labelcolor=look.ink, facecolor=look.paper, edgecolor=look.line, fontsize=9, **options)
    drawn.get_title().set_color(look.ink)


def write_figure(name: str, draw: Callable[[Look], Figure]) -> None:
    """Draw a figure in both looks, as SVG files that are the same each time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for look in LOOKS:
        with matplotlib.rc_context({"svg.hashsalt": name, "font.size": 10}):
            file = FOLDER / f"{name}-{look.name}.svg"
            draw(look).savefig(file, format="svg", facecolor=look.paper, metadata={"Date": None, "Creator": None})
        print(f"{file.name}: {file.stat().st_size / 1e3:.0f} KB")


def write_drawing(name: str, draw: Callable[[Look], str]) -> None:
    """Write a drawing that is SVG text in both looks."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for look in LOOKS:
        write_text(FOLDER / f"{name}-{look.name}.svg", draw(look))
