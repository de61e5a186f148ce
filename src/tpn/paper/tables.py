"""Recipes of Tables 1 and 2, ten systems on two benchmarks, and of Tables 3 and 4, the semi-supervised systems."""

from dataclasses import replace
from typing import Any

from tpn.episodes.setting import Setting
from tpn.paper.published import TABLE_1, TABLE_2, TABLE_3, TABLE_4, Published, Row
from tpn.paper.recipe import Benchmark, Cell, Experiment, Rule, System, Test, Training, training

WAYS_AND_SHOTS = ((5, 1), (5, 5), (10, 1), (10, 5))
HIGHER_WAY = {1: 30, 5: 20}
HIGHER_SHOT = {1: 5, 5: 10}
TRAIN_UNLABELLED, TEST_UNLABELLED, DISTRACTORS = 5, 20, 5

MOST_EPISODES = 210_000
"""The maximum in the authors' code."""
HALVE_EVERY = {"mini-imagenet": 10_000, "tiered-imagenet": 25_000}
VALIDATE_EVERY = 100
MAML_ITERATIONS = 60_000
META_BATCH = {1: 4}
"""Tasks in a step of MAML by shot; 2 for any other."""
RELATION_NET: dict[str, Any] = {"halve_every": 100_000}
"""On both benchmarks, as in the paper of Relation Net."""


def episodic(method: str, data: Benchmark = "mini-imagenet", **settings: Any) -> Rule:
    """Train as tested, until validation has not improved for the time of two halvings of the learning rate."""
    common = {"episodes": MOST_EPISODES, "halve_every": HALVE_EVERY[data], **settings}
    common["patience"] = 2 * common["halve_every"] // VALIDATE_EVERY
    return lambda way, shot, query=15: training(method, way, shot, query, **common)


def maml(method: str) -> Rule:
    """Train for a fixed number of steps, of more tasks each in 1-shot training."""

    def rule(way: int, shot: int) -> Training:
        batch = META_BATCH.get(shot, 2)
        return training(method, way, shot, episodes_per_step=batch, episodes=batch * MAML_ITERATIONS, patience=0)

    return rule


def reptile(way: int, shot: int) -> Training:
    """Train on 15 images per class, whatever the shot of the test."""
    return training("reptile", way, shot=5, query=10)


def systems(data: Benchmark) -> dict[str, System]:
    """Return the rows of Tables 1 and 2. Relation Net is tested with batch statistics: the tables mark it BN."""
    protonet, tpn = episodic("protonet", data), episodic("tpn", data)
    return {
        "MAML": System(maml("maml")),
        "MAML+Transduction": System(maml("maml-transduction")),
        "Reptile": System(reptile),
        "Reptile + BN": System(reptile, as_method="reptile-bn"),
        "PROTO NET": System(protonet),
        "PROTO NET (Higher Way)": System(lambda way, shot: protonet(HIGHER_WAY[shot], shot)),
        "RELATION NET": System(episodic("relation-net", data, **RELATION_NET), batch_norm="batch"),
        "Label Propagation": System(episodic("label-propagation", data)),
        "TPN": System(tpn),
        "TPN (Higher Shot)": System(lambda way, shot: tpn(way, HIGHER_SHOT[shot])),
    }


def few_shot(name: str, number: int, data: Benchmark, published: dict[str, Row]) -> Experiment:
    """Return Table 1 or 2."""
    cells = [
        Cell(
            row=row,
            column=f"{way}-way {shot}-shot",
            training=system.rule(way, shot),
            test=system.test(Setting(way, shot)),
            published=Published(*number_and_interval),
        )
        for row, system in systems(data).items()
        for (way, shot), number_and_interval in zip(WAYS_AND_SHOTS, published[row], strict=True)
    ]
    return Experiment(name, "Few-shot classification", f"Table {number}", data, tuple(cells))


SEMI_SUPERVISED = {
    "Soft k-Means": "soft-kmeans",
    "Soft k-Means+Cluster": "soft-kmeans-cluster",
    "Masked Soft k-Means": "masked-soft-kmeans",
    "TPN-semi": "tpn-semi",
}


def semi_supervised(name: str, number: int, data: Benchmark, published: dict[str, Row]) -> Experiment:
    """Return Table 3 or 4. Training has the shots and the distractors of the test."""
    cells = [
        Cell(
            row=row,
            column=f"{shot}-shot{' w/D' if distractors else ''}",
            training=replace(
                episodic(method, data)(5, shot),
                episode=Setting(5, shot, unlabelled=TRAIN_UNLABELLED, distractors=distractors),
            ),
            test=Test(Setting(5, shot, unlabelled=TEST_UNLABELLED, distractors=distractors)),
            published=Published(*published[row][place]),
            over_partitions=True,
        )
        for row, method in SEMI_SUPERVISED.items()
        for place, (distractors, shot) in enumerate(((0, 1), (0, 5), (DISTRACTORS, 1), (DISTRACTORS, 5)))
    ]
    return Experiment(name, "Semi-supervised few-shot classification", f"Table {number}", data, tuple(cells))


TABLES = (
    few_shot("table1", 1, "mini-imagenet", TABLE_1),
    few_shot("table2", 2, "tiered-imagenet", TABLE_2),
    semi_supervised("table3", 3, "mini-imagenet", TABLE_3),
    semi_supervised("table4", 4, "tiered-imagenet", TABLE_4),
)
