"""iLPC: iterative label propagation and cleaning."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._config import check_at_least, check_rounds
from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods._span import span_coordinates
from tpn.methods._transport import balanced_assignment, log_probabilities
from tpn.propagation.batched_solve import inverse
from tpn.propagation.graph import connect, normalise

CLASSIFIER_STEPS = 50
CLASSIFIER_LR = 2.0
"""Gradient steps of the linear classifier that finds clean pseudo-labels, on features of unit length."""


@dataclass(frozen=True)
class ILPCConfig(HeadConfig):
    """iLPC: propagate labels, keep the cleanest pseudo-labels, propagate again."""

    neighbours: int = 15
    """Nearest neighbours of each image in the graph."""
    power: float = 3.0
    """The exponent of cosines in the graph, and of propagated labels before they are balanced."""
    alpha: float = 0.8
    """How far labels propagate."""
    rounds: int = 5
    """Rounds in which a share of the queries of each class joins the support."""
    balanced: bool = True
    """Balance the pseudo-labels, so that each class gets the same number of queries."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, "neighbours", 1)
        check_rounds(self, "rounds", 1)
        check_positive(self, "power")
        if not 0 < self.alpha < 1:
            raise TPNError(f"--alpha must be above 0 and below 1, not {self.alpha}.")


@register_method
class ILPC(Head):
    """Lazarou et al., "Iterative Label Cleaning for Transductive and Semi-Supervised Few-Shot Learning", ICCV 2021.

    Labels propagate over a graph of nearest neighbours with weights cos³, and are balanced by Sinkhorn. A linear
    classifier learns from the support and these pseudo-labels; the queries of each class whose mean loss in its
    training is lowest (3 of 15) join the support. Repeated until every query has joined.

    https://arxiv.org/abs/2012.07962
    """

    info = Info(
        name="ilpc",
        paper="Lazarou et al., Iterative Label Cleaning for Few-Shot Learning, ICCV 2021",
        transduction="yes",
        learns_from="mini-batches",
        class_balance="equal",
        head=True,
    )
    Config = ILPCConfig
    config: ILPCConfig
    most_nodes = 15_000

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        points = F.normalize(span_coordinates(together(support, query)), dim=-1)
        propagator, n_support = self.propagator(points), Y.shape[1]
        queries, way = query.shape[1], Y.shape[-1]
        joining = -(-queries // (way * self.config.rounds))
        labels = F.pad(Y, (0, 0, 0, queries))
        waiting = torch.ones_like(labels[:, n_support:, 0], dtype=torch.bool)
        scores = torch.zeros_like(labels[:, n_support:])
        for round_ in range(self.config.rounds + 1):
            P = self.pseudo_labels((propagator @ labels)[:, n_support:], labels[:, n_support:], waiting)
            scores = torch.where(waiting.unsqueeze(-1), log_probabilities(P), scores)
            if round_ == self.config.rounds or not waiting.any():
                break
            pseudo = F.one_hot(P.argmax(-1), way).to(P)
            targets = torch.where(waiting.unsqueeze(-1), pseudo, labels[:, n_support:])
            losses = mean_losses(points, together(Y, targets))[:, n_support:]
            chosen = lowest_of_each_class(losses, P.argmax(-1), waiting, joining, way)
            labels = together(Y, torch.where(chosen.unsqueeze(-1), pseudo, labels[:, n_support:]))
            waiting = waiting & ~chosen
        return scores

    def propagator(self, points: Float[Tensor, "episode node d"]) -> Float[Tensor, "episode node node"]:
        """Return (I - αS)⁻¹ of the graph of nearest neighbours."""
        loops = torch.eye(points.shape[1], dtype=torch.bool, device=points.device)
        cosines = (points @ points.mT).masked_fill(loops, 0).clamp_min(0)
        W = connect(cosines.pow(self.config.power), self.config.neighbours)
        identity = loops.to(points)
        return inverse(identity - self.config.alpha * normalise(W))

    def pseudo_labels(
        self,
        spread: Float[Tensor, "episode query way"],
        joined: Float[Tensor, "episode query way"],
        waiting: Bool[Tensor, "episode query"],
    ) -> Float[Tensor, "episode query way"]:
        """Return the labels of the queries that have not joined: sharpened, and balanced over what is left."""
        logits = self.config.power * log_probabilities(spread)
        if not self.config.balanced:
            return logits.softmax(-1)
        rows = waiting.to(spread)
        left = (spread.shape[1] / spread.shape[2] - joined.sum(1)).clamp_min(0)
        total = left.sum(-1, keepdim=True).clamp_min(torch.finfo(spread.dtype).eps)
        return balanced_assignment(logits, left * rows.sum(-1, keepdim=True) / total, rows)


def mean_losses(
    points: Float[Tensor, "episode node d"], targets: Float[Tensor, "episode node way"]
) -> Float[Tensor, "episode node"]:
    """Return the mean cross-entropy of each node while a linear classifier learns the targets."""
    w, total = torch.zeros_like(targets.mT @ points), torch.zeros_like(points[..., 0])
    for _ in range(CLASSIFIER_STEPS):
        logits = points @ w.mT
        total = total - (targets * F.log_softmax(logits, dim=-1)).sum(-1)
        w = w - CLASSIFIER_LR * (logits.softmax(-1) - targets).mT @ points / points.shape[1]
    return total / CLASSIFIER_STEPS


def lowest_of_each_class(
    losses: Float[Tensor, "episode query"],
    classes: Int64[Tensor, "episode query"],
    waiting: Bool[Tensor, "episode query"],
    count: int,
    way: int,
) -> Bool[Tensor, "episode query"]:
    """Return the queries with the lowest losses among those of their class that wait."""
    own = F.one_hot(classes, way).bool() & waiting.unsqueeze(-1)
    ranked = torch.where(own, losses.unsqueeze(-1), torch.inf)
    rank = ranked.argsort(1).argsort(1)
    return ((rank < count) & own).any(-1)
