"""Label propagation with a fixed length scale: the naive baseline of the paper."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._method import Info
from tpn.methods._propagating import Propagating, PropagationConfig
from tpn.methods._registry import register_method
from tpn.propagation.affinity import mean_squared_distances
from tpn.propagation.length_scale import median_scale

SMALLEST_SIGMA = 1e-4
"""As for learned length scales (tpn.propagation.affinity), which are not imported: these settings need no torch."""


@dataclass(frozen=True)
class LabelPropagationConfig(PropagationConfig):
    """Label propagation: spread the labels over a graph with one length scale for all images, not learned."""

    sigma: float | Literal["median"] = 0.3
    """The length scale of the whole graph: a number, or `median` for the median heuristic, which takes the median
    distance between two images of each episode. With a number, the network can learn the scale of the features; the
    heuristic makes the graph independent of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma != "median" and not SMALLEST_SIGMA <= self.sigma < float("inf"):
            raise TPNError(f"--sigma must be a number of at least {SMALLEST_SIGMA}, or median, not {self.sigma}.")


@register_method
class LabelPropagation(Propagating):
    """The rule of Zhu and Ghahramani, "Learning from Labeled and Unlabeled Data with Label Propagation", 2002, in the
    closed form of Zhou et al., "Learning with Local and Global Consistency", NIPS 2003; a baseline of the TPN paper.

    A network embeds all images of an episode, and is trained through the propagation as in TPN. But the weights of
    the graph are exp(-d(f_i, f_j)/(2σ²)) with a single σ, which is given, or the median distance in the episode: no
    network predicts length scales.
    """

    info = Info(
        name="label-propagation",
        paper="Zhu and Ghahramani, Learning from Labeled and Unlabeled Data with Label Propagation, 2002",
        transduction="yes",
        unlabelled="uses",
        head=True,
    )
    Config = LabelPropagationConfig
    config: LabelPropagationConfig

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        """Return f, the flattened feature maps."""
        return self.features(self.maps(images))

    def weights(self, features: Float[Tensor, "*episode node feature"]) -> Float[Tensor, "*episode node node"]:
        """Return W, equation (1)."""
        distances = mean_squared_distances(features)
        sigma = median_scale(distances) if self.config.sigma == "median" else self.config.sigma
        return torch.exp(-distances / (2 * sigma**2))
