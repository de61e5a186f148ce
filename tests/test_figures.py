"""The figures of the documentation: drawn from the code and from measured numbers, in both looks."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from scripts import draw_diagrams, draw_measurements
from scripts.figure_style import DARK, FOLDER, LIGHT, LOOKS
from tpn.cli import COMMANDS

SOURCE = Path(__file__).parents[1] / "src" / "tpn"
DRAWN = {
    "accuracy-by-labels": ("labelling", draw_measurements.draw_accuracy),
    "confidence": ("labelling", draw_measurements.draw_confidence),
    "speed": ("speed", draw_measurements.draw_speed),
}


def test_the_map_shows_every_journey_and_every_step():
    assert set(draw_diagrams.JOURNEYS) == {*COMMANDS} - {"methods"}
    steps = {file.parent.name for file in SOURCE.glob("*/__init__.py")} - {"workflows", "cli"}
    assert set(draw_diagrams.FOLDERS) == steps
    direct, reached = draw_diagrams.folders_of("train")
    assert {"images", "episodes", "methods", "runs", "training"} <= direct
    assert "propagation" in reached
    assert not {"labelling", "studio_server", "paper"} & reached


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
@pytest.mark.parametrize("draw", [draw_diagrams.pipeline, draw_diagrams.journeys])
def test_diagrams_are_svg_in_the_colours_of_the_look(draw, look):
    text = draw(look)
    assert ET.fromstring(text).tag.endswith("svg")
    other = DARK if look is LIGHT else LIGHT
    assert look.paper in text
    assert other.paper not in text


@pytest.mark.parametrize("name", DRAWN)
def test_figures_are_drawn_from_the_numbers_beside_them(name, tmp_path):
    numbers, draw = DRAWN[name]
    measured = json.loads((FOLDER / f"{numbers}.json").read_text())
    draw(measured, DARK).savefig(tmp_path / "figure.svg")
    assert ET.parse(tmp_path / "figure.svg").getroot().tag.endswith("svg")


def test_every_figure_has_both_looks_and_is_shown():
    names = {file.name for file in FOLDER.glob("*.svg")}
    assert names
    assert {name.replace("-light.", "-dark.") for name in names if "-light." in name} == {
        n for n in names if "-dark." in n
    }
    pages = [*SOURCE.parents[1].glob("docs/**/*.md"), SOURCE.parents[1] / "CONTRIBUTING.md"]
    shown = set(re.findall(r"figures/([\w-]+-light\.svg)", "".join(page.read_text() for page in pages)))
    assert shown == {name for name in names if "-light." in name}
