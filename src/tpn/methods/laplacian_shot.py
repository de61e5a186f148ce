"""LaplacianShot: labels that are smooth over the nearest neighbours among the queries."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._config import check_at_least, check_rounds
from tpn.methods._head import Head, HeadConfig, together
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods._span import InnerProducts, mean_weights
from tpn.methods.bd_cspn import rectified, shifted

RECTIFYING = 10.0
"""The factor of the cosines in BD-CSPN's rectification."""
QUERIES_AT_ONCE = 2048
"""Rows of the distances between queries that are held at once."""
STILL = 1e-6
"""The change of the energy at which an episode has converged."""


@dataclass(frozen=True)
class LaplacianShotConfig(HeadConfig):
    """LaplacianShot: nearest prototypes, with a penalty where neighbouring queries have different labels."""

    laplacian_weight: float | None = None
    """λ: the weight of the neighbours' labels against the distances to the prototypes (default: 0.7 with one shot, 0.3
    with several)."""
    neighbours: int = 3
    """Nearest neighbours of a query among the queries, itself included."""
    rectify: bool = True
    """Rectify the prototypes as BD-CSPN does. The paper does so for balanced queries only."""
    rounds: int = 20
    """The maximum number of updates of the labels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.laplacian_weight is not None and not 0 <= self.laplacian_weight < float("inf"):
            raise TPNError(f"--laplacian-weight must be a number of at least 0, not {self.laplacian_weight}.")
        check_at_least(self, "neighbours", 1)
        check_rounds(self, "rounds", 1)


@register_method
class LaplacianShot(Head):
    """Ziko et al., "Laplacian Regularized Few-Shot Learning", ICML 2020.

    With a the squared distances of the queries to the prototypes and W the graph of their nearest neighbours, the
    labels Y = softmax(-a) are updated to softmax(-a + λWY) until the energy is constant: each update lowers a bound
    of it, for all queries at once.

    https://arxiv.org/abs/2006.15486
    """

    info = Info(
        name="laplacian-shot",
        paper="Ziko et al., Laplacian Regularized Few-Shot Learning, ICML 2020",
        transduction="yes",
        learns_from="mini-batches",
        head=True,
    )
    Config = LaplacianShotConfig
    config: LaplacianShotConfig

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        n_support = Y.shape[1]
        if self.config.rectify:
            query = shifted(support, query)
        products = InnerProducts(together(support, query))
        prototypes = mean_weights(F.pad(Y.mT, (0, query.shape[1])))
        if self.config.rectify:
            prototypes = rectified(products, Y.mT, RECTIFYING)
        weight = self.config.laplacian_weight
        if weight is None:
            weight = 0.7 if support.shape[1] == Y.shape[-1] else 0.3
        nearest = nearest_queries(products, n_support, self.config.neighbours)
        distances = products.squared_distances(prototypes)[..., n_support:].mT.contiguous()
        return smoothed(-distances, nearest, weight, self.config.rounds)


def nearest_queries(products: InnerProducts, n_support: int, k: int) -> Int64[Tensor, "episode query k"]:
    """Return the k nearest queries of each query, itself included."""
    square, query = products.squares[:, n_support:], products.points[:, n_support:]
    k, parts = min(k, query.shape[1]), []
    for first in range(0, query.shape[1], QUERIES_AT_ONCE):
        last = first + QUERIES_AT_ONCE
        if products.matrix is None:
            between = query[:, first:last] @ query.mT
        else:
            between = products.matrix[:, n_support:][:, first:last, n_support:]
        parts.append(torch.sub(between, square.unsqueeze(1), alpha=0.5).topk(k, dim=-1).indices)
    return torch.cat(parts, dim=1)


def smoothed(
    unary: Float[Tensor, "episode query way"], nearest: Int64[Tensor, "episode query k"], weight: float, rounds: int
) -> Float[Tensor, "episode query way"]:
    """Return the logits -a + λWY at the fixed point, given -a. Converged episodes do not change any more."""
    episodes, queries, k = nearest.shape
    index = nearest.reshape(episodes, -1, 1).expand(-1, -1, unary.shape[-1])

    def pulled(labels: Tensor) -> Tensor:
        return weight * labels.gather(1, index).view(episodes, queries, k, -1).sum(2)

    logits, energy = unary, torch.full_like(unary[:, :1, :1], torch.inf)
    done = torch.zeros_like(energy, dtype=torch.bool)
    for _ in range(rounds):
        labels = logits.softmax(-1)
        pull = pulled(labels)
        entropy = torch.special.entr(labels)
        current = -(labels * (unary + pull / 2) + entropy).sum((1, 2), keepdim=True)
        done = done | ((energy - current).abs() < STILL)
        if done.all():
            break
        logits = torch.where(done, logits, unary + pull)
        energy = current
    return logits
