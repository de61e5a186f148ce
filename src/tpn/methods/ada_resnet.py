"""Conditionally shifted neurons: adaResNet and adaCNN."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tpn.episodes.task import Task
from tpn.methods._config import Config, check_rounds
from tpn.methods._method import Dimensions, Info, Method
from tpn.methods._prototypes import memberships
from tpn.methods._registry import register_method

SHARPNESS = 10.0
"""The initial factor of the attention's cosines; it is learned."""


@dataclass(frozen=True)
class AdaResNetConfig(Config):
    """Conditionally shifted neurons: shift activations by values from a memory of the support's errors. With
    --backbone resnet12 it is the paper's adaResNet, with conv4 its adaCNN."""

    shifted_blocks: int = 2
    """Number of last blocks of the backbone to shift (the output always is)."""
    key_size: int = 64
    """Size of the memory's keys."""
    hidden: int = 64
    """Hidden units of the networks that compute the memory's values."""
    shift: bool = True
    """Shift activations; without it, the network does not adapt to its task at all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shifted_blocks", "key_size", "hidden"):
            check_rounds(self, name, 1)


@register_method
class AdaResNet(Method):
    """Munkhdalai et al., "Rapid Adaptation with Conditionally Shifted Neurons", ICML 2018.

    A network with a linear classifier first processes the support. For each of its images, a memory stores a key
    computed from its features and, for each shifted layer, a value that a small network computes from the error at the
    output ("direct feedback") and the layer's activations. A query attends to the keys; the weighted mean of the values
    shifts its activations, and the scores.

    https://arxiv.org/abs/1712.09926
    """

    info = Info(
        name="ada-resnet",
        paper="Munkhdalai et al., Rapid Adaptation with Conditionally Shifted Neurons, ICML 2018",
        transduction="no",
        fixed_way=True,
        equivariant=False,
    )
    Config = AdaResNetConfig
    config: AdaResNetConfig

    def __init__(self, config: AdaResNetConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        way = dimensions.way
        self.backbone = dimensions.build_backbone(config)
        features = math.prod(self.backbone.map_shape)
        self.head = nn.Linear(features, way)
        if config.shift:
            self.first_shifted = max(0, len(self.backbone.blocks) - config.shifted_blocks)
            widths = self.backbone.widths[self.first_shifted :]
            self.key = nn.Linear(features, config.key_size)
            self.sharpness = nn.Parameter(torch.tensor(SHARPNESS))
            self.values = nn.ModuleList(_value(way + width, config.hidden, width) for width in widths)
            self.output_value = _value(way, config.hidden, way)

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        known = task.n_support + task.n_query
        each = zip(task.inputs[:, :known], task.support_labels, strict=True)
        return torch.stack([self.classify(images, labels) for images, labels in each])

    def classify(
        self, images: Float[Tensor, "image channel height width"], labels: Int64[Tensor, "support"]
    ) -> Float[Tensor, "query way"]:
        """Return the scores of the queries of one task, given the labels of its first images."""
        prepared, shots = self.backbone.prepare(images), len(labels)
        if not self.config.shift:
            scores: Tensor = self.head(self.backbone.maps(prepared).flatten(1))
            return scores[shots:]
        trunk = self.backbone.maps(prepared, slice(self.first_shifted)) if self.first_shifted else prepared
        activations, maps = [], trunk
        for index in range(self.first_shifted, len(self.backbone.blocks)):
            maps = self.backbone.maps(maps, slice(index, index + 1))
            activations.append(maps[:shots].mean((2, 3)))
        features = maps.flatten(1)
        error = self.head(features[:shots]).softmax(-1) - memberships(labels, self.dimensions.way, like=features)
        keys = F.normalize(self.key(features), dim=-1)
        attention = (self.sharpness * keys[shots:] @ keys[:shots].mT).softmax(-1)

        maps = trunk[shots:]
        for index, (value, seen) in enumerate(zip(self.values, activations, strict=True), self.first_shifted):
            shift = attention @ value(torch.cat([error, seen], dim=-1))
            maps = self.backbone.maps(maps, slice(index, index + 1)) + shift[:, :, None, None]
        shifted: Tensor = self.head(maps.flatten(1)) + attention @ self.output_value(error)
        return shifted


def _value(inputs: int, hidden: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
