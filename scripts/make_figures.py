"""Make the figures of the documentation, light and dark: docs/images/figures.

    python -m scripts.make_figures diagrams
    python -m scripts.make_figures episode --run runs/quickdraw      # after `make run`
    python -m scripts.make_figures labelling speed --measure

Measured numbers are kept beside the figures as JSON; without --measure, figures are drawn from them again. `labelling`
embeds 800 drawings, which takes a minute of CPU time; `speed` fits up to 100,000 vectors.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from scripts import draw_diagrams
from scripts.figure_style import FOLDER, write_drawing, write_figure
from tpn.files import write_text

DEFAULT_RUN = Path("runs/quickdraw")


def measured(name: str, again: bool, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return numbers that were measured before, or measure them."""
    file = FOLDER / f"{name}.json"
    if again or not file.is_file():
        FOLDER.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(measure(), indent=1) + "\n")
    numbers: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return numbers


def diagrams(options: argparse.Namespace) -> None:
    """The pipeline, and the map of the journeys."""
    write_drawing("pipeline", draw_diagrams.pipeline)
    write_drawing("journeys", draw_diagrams.journeys)


def episode(options: argparse.Namespace) -> None:
    """The steps of the method on one episode, and what length scales do."""
    from scripts import draw_episode as draw

    shown, method, split = draw.open_episode(str(options.run))
    scales = measured("length-scales", options.measure, lambda: draw.measure_scales(method, split))
    print(f"learned length scales: {100 * scales['learned']:.2f} %; best single: {100 * max(scales['single']):.2f} %")
    write_figure("step-1-embed", partial(draw.draw_embedding, shown))
    write_figure("step-2-graph", partial(draw.draw_graph, shown))
    write_figure("length-scales", partial(draw.draw_scales, shown, scales))
    write_figure("step-3-propagate", partial(draw.draw_propagation, shown))
    write_figure("step-4-loss", partial(draw.draw_loss, shown))


def labelling(options: argparse.Namespace) -> None:
    """Accuracy by the number of labels, and confidence against accuracy."""
    from scripts import draw_measurements as draw

    numbers = measured("labelling", options.measure, draw.measure_labelling)
    write_figure("accuracy-by-labels", partial(draw.draw_accuracy, numbers))
    write_figure("confidence", partial(draw.draw_confidence, numbers))


def speed(options: argparse.Namespace) -> None:
    """CPU time by the number of vectors."""
    from scripts import draw_measurements as draw

    write_figure("speed", partial(draw.draw_speed, measured("speed", options.measure, draw.measure_speed)))


FIGURES = {"diagrams": diagrams, "episode": episode, "labelling": labelling, "speed": speed}


def main() -> None:
    """Make the figures that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--run", type=Path, default=DEFAULT_RUN, help="a run of tpn on the drawings: that of make run")
    parser.add_argument("--measure", action="store_true", help="measure again instead of drawing what was measured")
    options = parser.parse_args()
    for name in options.figures:
        FIGURES[name](options)


if __name__ == "__main__":
    main()
