"""protoLP: label propagation between prototypes and points."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_fraction, check_positive, together
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means, squared_distances
from tpn.methods._registry import register_method
from tpn.methods._span import span_coordinates
from tpn.methods._transforms import Transform
from tpn.methods._transport import balanced_assignment, log_probabilities
from tpn.methods.pt_map import centred_separately
from tpn.methods.tafssl import main_directions
from tpn.propagation.batched_solve import solve


@dataclass(frozen=True)
class ProtoLPConfig(HeadConfig):
    """protoLP: a graph that connects points through prototypes, refined with them."""

    transform: Transform = "power"
    dimensions: int = 40
    """Main directions of the episode that are kept."""
    temperature: float = 10.0
    """The factor of the squared distances to the prototypes."""
    smoothness: float = 1.0
    """The weight of smooth labels on the graph against the labels of the support."""
    rounds: int = 100
    """Updates of the prototypes."""
    inertia: float = 0.2
    """The fraction of the way to the mean of its members that a prototype moves in a round."""
    balanced: bool = True
    """Assign the same number of queries to each class; otherwise assign each query by itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "dimensions", 1)
        check_rounds(self, "rounds", 0)
        check_positive(self, "temperature", "smoothness")
        check_fraction(self, "inertia")


@register_method
class ProtoLP(Head):
    """Zhu and Koniusz, "Transductive Few-shot Learning with Prototype-based Label Propagation by Iterative Graph
    Refinement", CVPR 2023.

    Z, the balanced assignment of points to prototypes, makes a graph of points W = ZΛ⁻¹Zᵀ. Labels A of the prototypes
    are fitted to the support and to be smooth on W, which is a linear system of the size of the classes; the points
    have the labels ZA. Each prototype moves towards the mean of its points, and the graph changes with it.

    https://arxiv.org/abs/2304.11598
    """

    info = Info(
        name="proto-lp",
        paper="Zhu and Koniusz, Prototype-based Label Propagation by Iterative Graph Refinement, CVPR 2023",
        transduction="yes",
        learns_from="mini-batches",
        class_balance="equal",
        head=True,
    )
    Config = ProtoLPConfig
    config: ProtoLPConfig

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        points = span_coordinates(centred_separately(support, query))
        points = main_directions(points, self.config.dimensions, whiten=False)
        prototypes = class_means(points[:, : support.shape[1]], Y)
        for _ in range(self.config.rounds):
            members = class_means(points, together(Y, self.labels(points, Y, prototypes)))
            prototypes = torch.lerp(prototypes, members, self.config.inertia)
        return log_probabilities(self.labels(points, Y, prototypes))

    def labels(
        self,
        points: Float[Tensor, "episode node d"],
        Y: Float[Tensor, "episode support way"],
        prototypes: Float[Tensor, "episode way d"],
    ) -> Float[Tensor, "episode query way"]:
        """Return the labels of the queries, propagated through the prototypes."""
        n_support = Y.shape[1]
        logits = -self.config.temperature * squared_distances(points[:, n_support:], prototypes)
        Z = together(Y, balanced_assignment(logits) if self.config.balanced else logits.softmax(-1))
        products, known = Z.mT @ Z, Z[:, :n_support]
        laplacian = products - products @ (products / Z.sum(1).unsqueeze(-1))
        A = solve(known.mT @ known + self.config.smoothness * laplacian, known.mT @ Y)
        spread = (Z[:, n_support:] @ A).clamp_min(torch.finfo(Z.dtype).tiny)
        return balanced_assignment(spread.log()) if self.config.balanced else spread / spread.sum(-1, keepdim=True)
