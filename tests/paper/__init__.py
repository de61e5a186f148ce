"""Experiments like the paper's, but small enough to run within a second or two."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tpn.episodes.setting import Setting
from tpn.images.split import Images
from tpn.paper.budget import BUDGETS, Budget
from tpn.paper.job import Computing, Job
from tpn.paper.plan import Plan, plan
from tpn.paper.published import Published
from tpn.paper.recipe import Cell, Experiment, Test, Training, training
from tpn.paper.worker import perform

BUDGET = Budget(
    episodes=2, schedule="linear", validations=1, validation_episodes=2, patience=0, test_episodes=5, splits=3
)


QUICK = {"episodes": 4, "test_episodes": 4, "validations": 1, "validation_episodes": 2}
"""For the real experiments: much less than the quick budget."""
FLAGS = [word for name, value in QUICK.items() for word in (f"--{name.replace('_', '-')}", str(value))]
TINY = ["--budget", "quick", *FLAGS, "--threads", "1"]


def quick(**changes: Any) -> Budget:
    """Return the budget of TINY, with changes."""
    return replace(BUDGETS["quick"], **QUICK, **changes)


def tiny(method: str, shot: int = 1) -> Training:
    return training(method, way=2, shot=shot, query=2)


def one_cell(method: str = "protonet", **test: Any) -> Experiment:
    """Return an experiment of one number."""
    return Experiment(
        "one", "One", "Table 0", "mini-imagenet", (Cell(method, "2-way", tiny(method), Test(Setting(2, 1, 3), **test)),)
    )


def table() -> Experiment:
    """Three systems: numbers published with an interval, without one, or not at all, and a missing cell."""
    published = {"TPN": (Published(61.5, 0.8), Published(70.25)), "PROTO NET": (Published(55.0, 0.6), None)}
    cells = [
        Cell(row, f"{way}-way", tiny(method), Test(Setting(way, 1, 3)), published[row][place])
        for row, method in (("TPN", "tpn"), ("PROTO NET", "protonet"))
        for place, way in enumerate((2, 3))
    ]
    with_bn = Test(Setting(2, 1, 3), as_method="soft-kmeans", batch_norm="batch")
    cells.append(Cell("<Soft & k-Means|", "2-way", tiny("protonet"), with_bn))
    return Experiment("tiny", "A <tiny> & quick | table", "Table 0", "mini-imagenet", tuple(cells))


def semi_supervised() -> Experiment:
    """Two systems over several partitions into labelled and unlabelled images."""
    episode = Setting(2, 1, 2, unlabelled=2)
    cells = [
        Cell(row, "1-shot", Training(method, episode), Test(episode), Published(50.0, 0.5), over_partitions=True)
        for row, method in (("Soft k-Means", "soft-kmeans"), ("TPN-semi", "tpn-semi"))
    ]
    return Experiment("tiny-semi", "Some unlabelled", "Table 00", "mini-imagenet", tuple(cells))


def planned(experiment: Experiment, images: Images, out: Path, budget: Budget = BUDGET, seed: int = 0) -> Plan:
    """Return the plan of an experiment, however long its trainings, without compiling them."""
    return plan(experiment, budget, images, out, seed, computing=Computing(threads=1, device="cpu", no_compile=True))


def do(jobs: dict[str, Job]) -> None:
    """Do jobs in this process, one after the other."""
    for job in jobs.values():
        assert perform(job) is None
