"""TIM: prototypes that maximise the mutual information between queries and their labels."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._information import Adam, InformationLoss
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods._span import InnerProducts, mean_weights


@dataclass(frozen=True)
class InformationConfig(HeadConfig):
    """Settings of heads that maximise mutual information."""

    temperature: float = 7.5
    """The factor of the squared distances to the prototypes."""
    steps: int = 1000
    """Gradient steps."""
    step_size: float = 1e-4
    """The learning rate of the prototypes."""
    support_weight: float = 0.1
    """The weight of the cross-entropy of the support."""
    marginal_weight: float = 1.0
    """The weight of the entropy of the mean label of the queries, which is largest for classes of equal size."""
    conditional_weight: float = 0.1
    """The weight of the entropy of each query's label."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "temperature", "step_size")
        check_rounds(self, "steps", 0)
        for name in ("support_weight", "marginal_weight", "conditional_weight"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise TPNError(f"--{name.replace('_', '-')} must be at least 0, not {getattr(self, name)}.")


@dataclass(frozen=True)
class TIMConfig(InformationConfig):
    """TIM: move the prototypes until the labels of the queries are certain, and their classes of equal size."""

    solver: Literal["gd", "adm"] = "gd"
    """Gradient descent, for --steps steps; or alternating closed forms, for --rounds rounds."""
    rounds: int = 150
    """Rounds of alternating closed forms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "rounds", 0)


class InformationHead(Head):
    """A head whose prototypes minimise an information loss, from the means of the support."""

    config: InformationConfig

    def information_loss(self, shot: float) -> InformationLoss:
        """Return the loss, given the mean number of shots."""
        config = self.config
        return InformationLoss(config.support_weight, config.marginal_weight, config.conditional_weight)

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        products, labels = InnerProducts(together(support, query)), Y.mT
        w = self.minimise(products, labels, mean_weights(F.pad(labels, (0, query.shape[1]))))
        return -self.config.temperature * products.squared_distances(w)[..., Y.shape[1] :].mT

    def minimise(
        self,
        products: InnerProducts,
        Y: Float[Tensor, "episode way support"],
        w: Float[Tensor, "episode way node"],
    ) -> Float[Tensor, "episode way node"]:
        """Return the weights of the prototypes that minimise the loss: by gradient descent from w.

        The gradient by a prototype is a sum of points too, so that its weights and its inner products with all points
        tell everything about it: no step computes with features. The factor of the logits is in the loss.
        """
        T, features = self.config.temperature, products.points.shape[-1]
        loss = self.information_loss(Y.shape[-1] / Y.shape[-2]).times(2 * T)
        adam, state = Adam(self.config.step_size, entries=features), torch.stack([w, products.of(w)])
        for _ in range(self.config.steps):
            w, inner = state
            # -T‖z - w‖² without ‖z‖², which is the same for all classes
            slopes = loss.slopes(torch.sub(2 * T * inner, (w * inner).sum(-1, keepdim=True), alpha=T), Y)
            slope = torch.stack([slopes, products.of(slopes)]).addcmul_(slopes.sum(-1, keepdim=True), state, value=-1)
            squares = (slope[0] * slope[1]).sum(-1, keepdim=True).clamp_min_(0)  # of points that are alike, below zero
            state = adam.step(state, slope, squares=squares)
        return state[0]


@register_method
class TIM(InformationHead):
    """Boudiaf et al., "Transductive Information Maximization for Few-Shot Learning", NeurIPS 2020.

    With p = softmax(-7.5‖z - w‖²), the prototypes w minimise 0.1 CE(support) - H(mean p) + 0.1 mean H(p): by gradient
    descent from the means of the support, or by alternating closed forms of the labels q and of w.

    https://arxiv.org/abs/2008.11297
    """

    info = Info(
        name="tim",
        paper="Boudiaf et al., Transductive Information Maximization for Few-Shot Learning, NeurIPS 2020",
        transduction="yes",
        learns_from="mini-batches",
        class_balance="equal",
        head=True,
    )
    Config = TIMConfig
    config: TIMConfig

    def minimise(
        self,
        products: InnerProducts,
        Y: Float[Tensor, "episode way support"],
        w: Float[Tensor, "episode way node"],
    ) -> Float[Tensor, "episode way node"]:
        if self.config.solver == "gd":
            return super().minimise(products, Y, w)
        return self.alternate(products, Y, w)

    def alternate(
        self,
        products: InnerProducts,
        Y: Float[Tensor, "episode way support"],
        w: Float[Tensor, "episode way node"],
    ) -> Float[Tensor, "episode way node"]:
        """Return the weights of the prototypes by alternating directions: labels q given w, then w given q."""
        config, n_support = self.config, Y.shape[-1]
        power = 1 + config.conditional_weight
        share = torch.full_like(w[:1, :1], n_support / (w.shape[-1] - n_support))
        share[..., :n_support] = config.support_weight / power
        for _ in range(config.rounds):
            p = (-config.temperature * products.squared_distances(w)).softmax(1)
            q = p[..., n_support:].pow(power)
            q = q / q.sum(-1, keepdim=True).sqrt()
            q = torch.cat([Y, q / q.sum(1, keepdim=True)], dim=-1)
            moved = share * (q - p) + (share * p).sum(-1, keepdim=True) * w
            w = moved / (share * q).sum(-1, keepdim=True)
        return w
