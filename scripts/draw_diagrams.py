"""The diagrams of the documentation: the pipeline, and the map of the journeys. Plain SVG, without measurements."""

import ast
from functools import cache
from html import escape
from pathlib import Path

from scripts.figure_style import Look

SOURCE = Path(__file__).parents[1] / "src" / "tpn"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
STEPS = (
    ("images", "files, arrays, archives", "images/"),
    ("episodes", "support and queries", "episodes/"),
    ("backbone", "features f, scales σ", "backbones/"),
    ("graph", "W (1, 2), S", "propagation/graph.py"),
    ("propagation", "F* (3, 4)", "propagation/solvers.py"),
    ("scores", "one per query and class", "methods/"),
    ("loss, accuracy", "(5, 6); intervals", "training/ evaluation/"),
    ("report", "tables, plots, pages", "workflows/ cli/"),
)
JOURNEYS = (
    "train", "pretrain", "splits", "evaluate", "compare", "benchmark", "paper", "plot", "predict", "label", "embed",
    "studio", "data", "backbones",
)  # fmt: skip
FOLDERS = (
    "images", "episodes", "backbones", "propagation", "methods", "runs", "evaluation", "training", "semi_supervised",
    "labelling", "paper", "studio_server",
)  # fmt: skip


def pipeline(look: Look) -> str:
    """Draw the way from images to a report: four steps above, four below."""
    wide, high, gap_x, gap_y, left = 196, 78, 34, 46, 6
    parts = []
    for number, (title, what, where) in enumerate(STEPS):
        row, column = divmod(number, 4)
        x, y = left + column * (wide + gap_x), 6 + row * (high + gap_y)
        parts.append(
            f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="9" fill="{look.box}" stroke="{look.accent}"/>'
        )
        for offset, size, colour, text, style in (
            (25, 17, look.ink, title, "font-weight:600"),
            (46, 13.5, look.ink, what, ""),
            (66, 12.5, look.faint, where, "font-family:ui-monospace,monospace"),
        ):
            parts.append(_text(x + wide / 2, y + offset, text, colour, size, "middle", style))
        if column < 3:
            parts.append(_arrow(x + wide + 3, y + high / 2, x + wide + gap_x - 3, y + high / 2, look))
    turn, below = left + 3 * (wide + gap_x) + wide / 2, 6 + high
    start = left + wide / 2
    middle = below + gap_y / 2
    path = f"M{turn} {below + 3}V{middle}H{start}V{below + gap_y - 5}"
    parts.append(f'<path d="{path}" fill="none" stroke="{look.faint}" stroke-width="1.6" marker-end="url(#head)"/>')
    return _svg(2 * left + 4 * wide + 3 * gap_x, 12 + 2 * high + gap_y, parts, look)


def journeys(look: Look) -> str:
    """Draw the folders that the file of each journey calls, and those that it reaches through them."""
    left, top, cell, high = 108, 122, 62, 27
    parts = []
    for column, folder in enumerate(FOLDERS):
        x = left + column * cell + cell / 2
        parts.append(
            f'<text transform="translate({x - 4} {top - 12}) rotate(-38)" fill="{look.ink}" font-size="13" '
            f'style="font-family:ui-monospace,monospace">{folder}/</text>'
        )
        bottom = top + high * len(JOURNEYS)
        parts.append(f'<path d="M{x} {top}V{bottom}" stroke="{look.line}" stroke-width=".7"/>')
    for row, journey in enumerate(JOURNEYS):
        y = top + row * high + high / 2
        direct, reached = folders_of(journey)
        parts.append(_text(left - 8, y + 4.5, journey, look.ink, 14, "end"))
        columns = [column for column, folder in enumerate(FOLDERS) if folder in direct]
        first, last = (left + column * cell + cell / 2 for column in (min(columns), max(columns)))
        parts.append(f'<path d="M{first} {y}H{last}" stroke="{look.accent}" stroke-width="2.6" opacity=".55"/>')
        for column, folder in enumerate(FOLDERS):
            x = left + column * cell + cell / 2
            if folder in direct:
                parts.append(f'<circle cx="{x}" cy="{y}" r="7" fill="{look.accent}"/>')
            elif folder in reached:
                circle = f'<circle cx="{x}" cy="{y}" r="4" fill="{look.paper}" stroke="{look.accent}"'
                parts.append(f'{circle} stroke-width="1.4"/>')
    end = top + high * len(JOURNEYS)
    parts += [
        f'<circle cx="{left + 20}" cy="{end + 22}" r="7" fill="{look.accent}"/>',
        _text(left + 34, end + 27, "called by workflows/JOURNEY.py", look.ink, 13),
        f'<circle cx="{left + 290}" cy="{end + 22}" r="4" fill="{look.paper}" stroke="{look.accent}" '
        'stroke-width="1.4"/>',
        _text(left + 302, end + 27, "reached through those", look.ink, 13),
    ]
    return _svg(left + cell * len(FOLDERS) + 60, end + 42, parts, look)


def folders_of(journey: str) -> tuple[set[str], set[str]]:
    """Return the folders that the file of a journey imports from, and all that these import from in turn."""
    files = [SOURCE / "workflows" / f"{journey}.py"]
    direct: set[str] = set()
    seen: set[Path] = set()
    while files:
        file = files.pop()
        if file in seen:
            continue
        seen.add(file)
        if file.name == "_registry.py":  # loads the methods, or backbones, by their names
            files += file.parent.glob("*.py")
        for module in imported(file):
            folder = module.split(".")[1]
            if file.parent.name == "workflows" and not file.stem.endswith("options") and folder in FOLDERS:
                direct.add(folder)
            target = SOURCE.joinpath(*module.split(".")[1:])
            files += [one for one in (target.with_suffix(".py"), target / "__init__.py") if one.is_file()]
    return direct, {file.relative_to(SOURCE).parts[0] for file in seen}


@cache
def imported(file: Path) -> set[str]:
    """Return the modules of tpn that a file imports when it runs."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.startswith("tpn.")
        and id(node) not in typing
    }


def _svg(width: float, height: float, parts: list[str], look: Look) -> str:
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{look.faint}"/></marker></defs>'
    )
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    paper = f'<rect width="100%" height="100%" fill="{look.paper}"/>'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}">', head, paper, *parts, "</svg>"]
    return "\n".join(lines) + "\n"


def _text(x: float, y: float, text: str, colour: str, size: float, anchor: str = "start", style: str = "") -> str:
    shown = f' style="{style}"' if style else ""
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" font-size="{size:g}"{shown}>{escape(text)}</text>'


def _arrow(x: float, y: float, to_x: float, to_y: float, look: Look) -> str:
    way = f"M{x:g} {y:g}L{to_x:g} {to_y:g}"
    return f'<path d="{way}" stroke="{look.faint}" stroke-width="1.6" marker-end="url(#head)"/>'
