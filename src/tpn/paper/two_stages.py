"""Recipes in two stages: a backbone learns all training classes, then a method learns by episodes. Without torch."""

from typing import Any

from tpn.paper.recipe import Training, training

CONV4 = "conv4-linear"
"""The Conv-4 of first stages: features that may be negative suit a cosine classifier."""
SMALL_RESNET = "resnet12-16"
"""The ResNet-12 that two cores can train."""
PHOTOGRAPHS: dict[str, Any] = {
    "classifier": "cosine",
    "augment": ("resized-crop", "flip"),
    "ema": 0.998,
    "warm_up": 100,
    "episodes": 14_000,
    "validate_every": 2_000,
    "validation_episodes": 200,
    "sizes": (42, 63, 84),
    "size_shares": (0.45, 0.25, 0.3),
}
"""The first stage of the shipped weights, for images of 84x84 pixels."""
SMALL: dict[str, Any] = {"episodes": 2_000, "validate_every": 500, "classifier": "cosine"}
"""The first stage for smaller images, such as drawings."""
GRAPH_OF_ANGLES: dict[str, Any] = {"unit_features": True, "initial_sharpness": 6.0}
SEVERAL_TASKS: dict[str, Any] = {"tasks_per_episode": 8}
KEEP_BACKBONE: dict[str, Any] = {"backbone_lr": 0.1, "ema": 0.97}
"""Settings of every method after a warm start: at the full learning rate, the backbone first loses what it has
learned (docs/how-to/two-stages.md has the trials)."""
UNIT_LENGTH: dict[str, Any] = {"feature_length": 3.0}
ZERO_HEAD: dict[str, Any] = {"zero_head": True}
"""A random linear layer hides what the backbone has learned."""
SMALL_TERM: dict[str, Any] = {"transduction_weight": 0.1}
"""With a larger weight the term makes all predictions alike (the same page)."""
WARM_START: dict[str, dict[str, Any]] = {
    "tpn": {**GRAPH_OF_ANGLES, **SEVERAL_TASKS},
    "tpn-semi": {**GRAPH_OF_ANGLES, **SEVERAL_TASKS},
    "label-propagation": {"unit_features": True, **SEVERAL_TASKS},
    "protonet": UNIT_LENGTH,
    "tadam": UNIT_LENGTH,
    "soft-kmeans": UNIT_LENGTH,
    "soft-kmeans-cluster": UNIT_LENGTH,
    "masked-soft-kmeans": UNIT_LENGTH,
    "maml": ZERO_HEAD,
    "maml-transduction": ZERO_HEAD | SMALL_TERM,
    "reptile": ZERO_HEAD,
}
"""Settings that a method needs to start with a backbone that a cosine classifier has trained, whose features have any
length, or whose own weights would begin at random: with its own ones, the graph of TPN would begin with all nodes
equally near, at chance."""
SECOND_STAGE: dict[str, Any] = {
    **GRAPH_OF_ANGLES,
    **SEVERAL_TASKS,
    "test_k": 15,
    "test_alpha": 0.998,
    "episodes": 4_000,
    "schedule": "cosine",
    "backbone_lr": 0.3,
    "ema": 0.99,
    "validate_every": 500,
    "validation_episodes": 200,
    "patience": 0,
}
"""The second stage of the shipped weights, by episodes of TPN."""
MIRRORED: dict[str, Any] = {"augment": ("flip",)}
"""For Conv-4, which with mirror images learns longer (docs/how-to/two-stages.md)."""
SHORTER: dict[str, Any] = {"episodes": 1_000, "validate_every": 250}
"""For a network whose episodes cost more: Conv-4 was best after as many (docs/how-to/two-stages.md)."""


def first_stage(backbone: str, image_size: int) -> Training:
    """Return the training of a backbone on all training classes."""
    settings = PHOTOGRAPHS if image_size == PHOTOGRAPHS["sizes"][-1] else SMALL
    return training("classifier-baseline", 5, 5, **settings, backbone=backbone)


def second_stage(**settings: Any) -> Training:
    """Return the training of TPN by episodes, from a first stage."""
    return training("tpn", 5, 5, **SECOND_STAGE | settings)
