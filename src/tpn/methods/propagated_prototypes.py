"""Propagated prototypes: prototypes and propagation teach each other, and the class balance is estimated."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._config import check_at_least, check_rounds
from tpn.methods._head import Head, HeadConfig, check_fraction, check_positive, together
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means, squared_distances
from tpn.methods._registry import register_method
from tpn.methods._span import span_coordinates
from tpn.methods._transforms import Transform
from tpn.methods._transport import log_probabilities
from tpn.propagation.affinity import mean_squared_distances
from tpn.propagation.batched_solve import inverse
from tpn.propagation.graph import connect, normalise

EQUAL_QUERIES = 5.0
"""Queries of each class that are added before class proportions are estimated: a prior for classes of equal size."""


@dataclass(frozen=True)
class PropagatedPrototypesConfig(HeadConfig):
    """Propagated prototypes: soft labels by prototypes spread over a graph, and make better prototypes."""

    transform: Transform = "episode"
    temperature: float = 15.0
    """The factor of the squared distances to the prototypes."""
    neighbours: int = 10
    """Nearest neighbours of each image in the graph."""
    alpha: float = 0.6
    """How far labels propagate."""
    balance_weight: float = 0.3
    """The weight of the estimated class proportions; 0 leaves labels as they propagate."""
    support_weight: float = 1.5
    """The weight of a labelled image in its prototype, against 1 for a query that surely belongs to the class."""
    rounds: int = 15
    """Updates of the prototypes."""
    inertia: float = 0.3
    """The fraction of the way to the mean of its members that a prototype moves in a round."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "temperature", "support_weight")
        check_at_least(self, "neighbours", 1)
        check_rounds(self, "rounds", 0)
        check_fraction(self, "inertia")
        if not 0 < self.alpha < 1:
            raise TPNError(f"--alpha must be above 0 and below 1, not {self.alpha}.")
        if not 0 <= self.balance_weight < float("inf"):
            raise TPNError(f"--balance-weight must be at least 0, not {self.balance_weight}.")


@register_method
class PropagatedPrototypes(Head):
    """A head of ours, from what `tpn.LabelPropagator` does on large collections.

    The prior of every query is a softmax over its distances to the prototypes. Labels and priors propagate over a graph
    of nearest neighbours with local length scales: F = (I - αS)⁻¹ [Y; P]. Class proportions are estimated from F, with
    a prior for equal classes, and weigh it a little. The prototypes move to the means of support and queries, weighted
    by F; and again. It is never told whether the classes of the queries are of equal size.
    """

    info = Info(
        name="propagated-prototypes",
        paper="of this project",
        transduction="yes",
        learns_from="mini-batches",
        class_balance="estimated",
        head=True,
    )
    Config = PropagatedPrototypesConfig
    config: PropagatedPrototypesConfig
    most_nodes = 15_000

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        points, n_support = span_coordinates(together(support, query)), Y.shape[1]
        propagator = self.propagator(points)
        prototypes = class_means(points[:, :n_support], Y)
        for _ in range(self.config.rounds):
            labels = self.labels(points, Y, prototypes, propagator)
            members = class_means(points, together(self.config.support_weight * Y, labels))
            prototypes = torch.lerp(prototypes, members, self.config.inertia)
        return log_probabilities(self.labels(points, Y, prototypes, propagator))

    def propagator(self, points: Float[Tensor, "episode node d"]) -> Float[Tensor, "episode node node"]:
        """Return (I - αS)⁻¹ of the graph, whose length scale at a node is the distance to its last neighbour."""
        distances = mean_squared_distances(points)
        k = min(self.config.neighbours, points.shape[1] - 1)
        local = distances.topk(k + 1, dim=-1, largest=False).values[..., -1:].sqrt()
        loops = torch.eye(points.shape[1], dtype=torch.bool, device=points.device)
        W = torch.exp(-distances / (local * local.mT).clamp_min(torch.finfo(points.dtype).tiny)).masked_fill(loops, 0)
        return inverse(loops.to(points) - self.config.alpha * normalise(connect(W, k)))

    def labels(
        self,
        points: Float[Tensor, "episode node d"],
        Y: Float[Tensor, "episode support way"],
        prototypes: Float[Tensor, "episode way d"],
        propagator: Float[Tensor, "episode node node"],
    ) -> Float[Tensor, "episode query way"]:
        """Return the labels of the queries: by prototypes, propagated, weighed by the estimated class proportions."""
        n_support, way = Y.shape[1], Y.shape[2]
        prior = (-self.config.temperature * squared_distances(points[:, n_support:], prototypes)).softmax(-1)
        spread = (propagator @ together(Y, prior))[:, n_support:]
        spread = spread / spread.sum(-1, keepdim=True).clamp_min(torch.finfo(spread.dtype).tiny)
        proportions = (spread.sum(1, keepdim=True) + EQUAL_QUERIES) / (spread.shape[1] + EQUAL_QUERIES * way)
        return (log_probabilities(spread) + self.config.balance_weight * proportions.log()).softmax(-1)
