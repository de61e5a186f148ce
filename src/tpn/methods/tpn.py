"""Transductive Propagation Network."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.episodes.task import TrainingTask
from tpn.errors import TPNError
from tpn.methods._method import Dimensions, Info
from tpn.methods._propagating import Propagating, PropagationConfig
from tpn.methods._registry import register_method
from tpn.propagation.affinity import affinity, scale
from tpn.propagation.length_scale import LengthScale, typical_scale

SHARPEST = 100.0


@dataclass(frozen=True)
class TPNConfig(PropagationConfig):
    """Transductive Propagation Network: learn a graph that propagates the labels of the support to the queries."""

    initial_scale: Literal["from-data", "plain"] = "from-data"
    """Initialise the length scales so that neighbours in a first episode are connected (from-data), or keep PyTorch's
    default initialisation (plain)."""
    initial_sharpness: float = 1.0
    """With --initial-scale from-data, the edge to a typical neighbour begins with the weight exp(-initial_sharpness). A
    pre-trained backbone needs more than 1: its neighbours are near each other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.initial_sharpness <= SHARPEST:
            raise TPNError(f"--initial-sharpness must be above 0 and at most {SHARPEST}, not {self.initial_sharpness}.")


@register_method
class TPN(Propagating):
    """Liu et al., "Learning to Propagate Labels: Transductive Propagation Network for Few-shot Learning", ICLR 2019.

    A network f embeds all images of an episode. Another, g, predicts a length scale σ for each from its feature map.
    The images become nodes of a k-nearest-neighbour graph with weights exp(-d(f_i/σ_i, f_j/σ_j)/2), on which the labels
    of the support are propagated to the queries in closed form. f and g are trained end to end.

    https://arxiv.org/abs/1805.10002
    """

    info = Info(
        name="tpn",
        paper="Liu et al., Learning to Propagate Labels: Transductive Propagation Network, ICLR 2019",
        transduction="yes",
        unlabelled="uses",
    )
    Config = TPNConfig
    config: TPNConfig

    def __init__(self, config: TPNConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.length_scale = LengthScale(self.backbone.map_shape)

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        """Return f/σ, from which the graph is built."""
        maps = self.maps(images)
        return scale(self.features(maps), self.length_scale(maps))

    def weights(self, features: Float[Tensor, "*episode node feature"]) -> Float[Tensor, "*episode node node"]:
        """Return W, equation (2)."""
        return affinity(features)

    def initialise(self, task: TrainingTask) -> None:
        """Set the length scales so that neighbours among these images begin with the weight that was asked for."""
        if self.config.initial_scale == "from-data":
            with torch.no_grad():
                maps = self.backbone(task.inputs[0])
            typical = typical_scale(self.features(maps), self.config.k)
            self.length_scale.start_at(typical / self.config.initial_sharpness**0.5)
