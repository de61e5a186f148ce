"""TIM: prototypes that maximise the mutual information between queries and their labels."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._information import Adam, InformationLoss
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means, squared_distances
from tpn.methods._registry import register_method
from tpn.methods._span import span_coordinates


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
        features, n_support = support.shape[-1], Y.shape[1]
        points = span_coordinates(together(support, query))
        w = self.minimise(points[:, :n_support], Y, points[:, n_support:], features)
        return -self.config.temperature * squared_distances(points[:, n_support:], w)

    def minimise(
        self,
        support: Float[Tensor, "episode support coordinate"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query coordinate"],
        features: int,
    ) -> Float[Tensor, "episode way coordinate"]:
        """Return the prototypes that minimise the loss: by gradient descent, in coordinates of that many features."""
        T, points, w = self.config.temperature, together(support, query), class_means(support, Y)
        loss = self.information_loss(support.shape[1] / Y.shape[-1])
        transposed, labels, adam = points.mT.contiguous(), Y.mT, Adam(self.config.step_size, entries=features)
        for _ in range(self.config.steps):
            # -T‖z - w‖² without ‖z‖², which is the same for all classes
            logits = T * (2 * w @ transposed - w.square().sum(-1, keepdim=True))
            slopes = loss.slopes(logits, labels)
            w = adam.step(w, 2 * T * (slopes @ points - slopes.sum(-1, keepdim=True) * w))
        return w


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
        support: Float[Tensor, "episode support coordinate"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query coordinate"],
        features: int,
    ) -> Float[Tensor, "episode way coordinate"]:
        if self.config.solver == "gd":
            return super().minimise(support, Y, query, features)
        return self.alternate(support, Y, query)

    def alternate(
        self,
        support: Float[Tensor, "episode support coordinate"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query coordinate"],
    ) -> Float[Tensor, "episode way coordinate"]:
        """Return the prototypes by alternating directions: labels q given w, then w given q."""
        T, config, w = self.config.temperature, self.config, class_means(support, Y)
        power = 1 + config.conditional_weight
        on_support, on_query = config.support_weight / power, support.shape[1] / query.shape[1]
        for _ in range(config.rounds):
            p_known = (-T * squared_distances(support, w)).softmax(-1)
            p = (-T * squared_distances(query, w)).softmax(-1)
            q = p.pow(power)
            q = q / q.sum(1, keepdim=True).sqrt()
            q = q / q.sum(-1, keepdim=True)
            known = (Y - p_known).mT @ support + p_known.sum(1).unsqueeze(-1) * w
            unknown = (q - p).mT @ query + p.sum(1).unsqueeze(-1) * w
            total = on_support * Y.sum(1) + on_query * q.sum(1)
            w = (on_support * known + on_query * unknown) / total.unsqueeze(-1)
        return w
