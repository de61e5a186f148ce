"""All experiments by name."""

from difflib import get_close_matches

from tpn.errors import TPNError
from tpn.paper.figures import STUDIES
from tpn.paper.recipe import Experiment
from tpn.paper.tables import TABLES

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (*TABLES, *STUDIES)}


def find_experiment(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in EXPERIMENTS:
        near = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise TPNError(f"Unknown experiment {name!r}: choose one of {', '.join(EXPERIMENTS)}.{hint}")
    return EXPERIMENTS[name]


def select(experiment: Experiment, methods: tuple[str, ...]) -> Experiment:
    """The part of an experiment that is about some methods; all of it if none is named."""
    if unknown := [method for method in methods if method not in experiment.methods]:
        raise TPNError(f"{experiment.name} is not about {', '.join(unknown)}: it has {', '.join(experiment.methods)}.")
    return experiment.only(methods) if methods else experiment
