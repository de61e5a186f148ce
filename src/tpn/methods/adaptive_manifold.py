"""Adaptive manifold: a graph whose edges adapt to each episode."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._config import check_at_least, check_rounds
from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._information import Adam, InformationLoss
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means
from tpn.methods._registry import register_method
from tpn.methods._span import span_coordinates
from tpn.propagation.affinity import mean_squared_distances
from tpn.propagation.graph import neighbour_mask, normalise
from tpn.propagation.solvers import propagate


@dataclass(frozen=True)
class AdaptiveManifoldConfig(HeadConfig):
    """Adaptive manifold: adapt prototypes, exponents and weights of the edges of an episode's graph."""

    neighbours: int | None = None
    """Nearest neighbours of each node in the graph (default: 20 with one shot, 10 with several)."""
    alpha: float | None = None
    """How far labels propagate (default: 0.8 with one shot, 0.9 with several)."""
    scale: float = 15.0
    """The factor of the propagated labels before the softmax."""
    information: Literal["tim", "alpha-tim"] = "alpha-tim"
    """The loss: that of TIM or that of α-TIM."""
    steps: int = 50
    """Gradient steps; with 0, the graph does not adapt. The paper has 1,000 with a step size of 1e-4."""
    step_size: float = 2e-3
    """The learning rate of the prototypes, the exponents and the weights of the edges."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours is not None:
            check_at_least(self, "neighbours", 1)
        if self.alpha is not None and not 0 < self.alpha < 1:
            raise TPNError(f"--alpha must be above 0 and below 1, not {self.alpha}.")
        check_rounds(self, "steps", 0)
        check_positive(self, "scale", "step_size")


@register_method
class AdaptiveManifold(Head):
    """Lazarou et al., "Adaptive manifold for imbalanced transductive few-shot learning", WACV 2024.

    The nodes of a graph are the class prototypes, the support and the queries; only the prototypes have labels, which
    propagate in closed form, as in TPN. For each episode the prototypes and, for every edge, the exponent and the
    weight of its affinity adapt by gradient descent, so that the labels of the support are right and the labels of the
    queries are informative, by the loss of TIM or α-TIM.

    https://arxiv.org/abs/2304.14281
    """

    info = Info(
        name="adaptive-manifold",
        paper="Lazarou et al., Adaptive manifold for imbalanced transductive few-shot learning, WACV 2024",
        transduction="yes",
        learns_from="mini-batches",
        class_balance="equal",
        head=True,
    )
    Config = AdaptiveManifoldConfig
    config: AdaptiveManifoldConfig
    most_nodes = 2_000

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        features, n_support, one_shot = support.shape[-1], Y.shape[1], Y.shape[1] == Y.shape[2]
        points = span_coordinates(together(support, query))
        prototypes = class_means(points[:, :n_support], Y)
        k = self.config.neighbours or (20 if one_shot else 10)
        alpha = self.config.alpha or (0.8 if one_shot else 0.9)
        loss = (
            InformationLoss(0.1, 1, 0.1)
            if self.config.information == "tim"
            else InformationLoss(1, 1, 1, 2 if one_shot else 7)
        )
        edges = points.shape[1] + Y.shape[2]
        exponents = torch.ones_like(points[:, :1, :1]).expand(-1, edges, edges)
        weights = exponents
        adams = [Adam(self.config.step_size, entries) for entries in (features, None, None)]
        for _ in range(self.config.steps):
            with torch.enable_grad():
                values = [one.detach().requires_grad_() for one in (prototypes, exponents, weights)]
                logits = self.propagated(values, points.detach(), k, alpha)
                total = loss(logits[:, :n_support], Y, logits[:, n_support:]).sum()
                slopes = torch.autograd.grad(total, values)
            prototypes, exponents, weights = (
                adam.step(value, slope) for adam, value, slope in zip(adams, values, slopes, strict=True)
            )
            prototypes, exponents, weights = prototypes.detach(), exponents.detach(), weights.detach()
        return self.propagated([prototypes, exponents, weights], points, k, alpha)[:, n_support:]

    def propagated(
        self, values: list[Tensor], points: Float[Tensor, "episode point d"], k: int, alpha: float
    ) -> Float[Tensor, "episode point way"]:
        """Propagate the labels of the prototypes; return the scaled labels of support and queries."""
        prototypes, exponents, weights = values
        way = prototypes.shape[1]
        distances = mean_squared_distances(torch.cat([prototypes, points], dim=1))
        kept = neighbour_mask(-distances, k + 1)
        loops = torch.eye(distances.shape[-1], dtype=torch.bool, device=points.device)
        kept = kept & ~loops
        near = distances.detach().masked_fill(~kept, 0).sum((1, 2), keepdim=True) / kept.sum((1, 2), keepdim=True)
        relative = distances / near.clamp_min(torch.finfo(points.dtype).tiny)
        exponents, weights = (exponents + exponents.mT) / 2, (weights + weights.mT) / 2
        W = (weights.clamp_min(0) * torch.exp(-exponents.clamp_min(0) * relative)).masked_fill(~kept, 0)
        Y = F.pad(torch.eye(way, dtype=points.dtype, device=points.device), (0, 0, 0, points.shape[1]))
        spread = propagate(normalise(W), Y.expand(len(points), -1, -1), alpha)[:, way:]
        return self.config.scale * spread / spread.sum(-1, keepdim=True).clamp_min(torch.finfo(spread.dtype).eps)
