"""All experiments by name."""

from difflib import get_close_matches

from tpn.errors import TPNError
from tpn.paper.figures import FIGURES
from tpn.paper.recipe import Experiment
from tpn.paper.tables import TABLES

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (*TABLES, *FIGURES)}


def find_experiment(name: str, methods: tuple[str, ...] = ()) -> Experiment:
    """Return the experiment of this name; if methods are named, only their cells."""
    if name not in EXPERIMENTS:
        near = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise TPNError(f"Unknown experiment {name!r}: choose one of {', '.join(EXPERIMENTS)}.{hint}")
    experiment = EXPERIMENTS[name]
    if unknown := [method for method in methods if method not in experiment.methods]:
        raise TPNError(f"{name} does not include {', '.join(unknown)}: choose from {', '.join(experiment.methods)}.")
    return experiment.only(methods) if methods else experiment
