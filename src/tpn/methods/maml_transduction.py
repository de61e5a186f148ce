"""MAML with a transductive regulariser: a baseline of the TPN paper."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._adaptation import Labels, Query, Scores, Support, Weights
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods.maml import MAML, MAMLConfig
from tpn.propagation.affinity import mean_squared_distances
from tpn.propagation.length_scale import median_scale


@dataclass(frozen=True)
class MAMLTransductionConfig(MAMLConfig):
    """MAML + transduction: adapt to the queries as well, by a penalty on different predictions for similar images."""

    transduction_weight: float = 1.0
    """The weight of the penalty relative to the cross-entropy; 0 is plain MAML."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.transduction_weight < float("inf"):
            raise TPNError(f"--transduction-weight must be at least 0, not {self.transduction_weight}.")


@register_method
class MAMLTransduction(MAML):
    """Liu et al., "Learning to Propagate Labels: Transductive Propagation Network for Few-shot Learning", ICLR 2019,
    section 3.2: MAML + transduction.

    MAML whose loss, in the inner and in the outer loop, has a further term: the mean over all pairs of
    images, support and queries, of W_ij |ŷ_i - ŷ_j|², ŷ the softmax of the scores and W_ij = exp(-d(f_i, f_j)/(2σ²))
    the affinity of their features, with σ by the median heuristic and W constant (no gradient flows through it).
    The paper has a sum; the mean makes the weight of the term independent of the number of images.

    https://arxiv.org/abs/1805.10002
    """

    info = Info(
        name="maml-transduction",
        paper="Liu et al., Learning to Propagate Labels: Transductive Propagation Network, ICLR 2019",
        transduction="yes",
        fixed_way=True,
        equivariant=False,
    )
    Config = MAMLTransductionConfig
    config: MAMLTransductionConfig

    def inner_loss(self, weights: Weights, support: Support, labels: Labels, query: Query) -> Float[Tensor, ""]:
        of_support, of_query = self.run(weights, support), self.run(weights, query)
        return F.cross_entropy(of_support[0], labels) + self.regulariser(of_support, of_query)

    def outer_loss(
        self, support: Support, labels: Labels, query: Query, query_labels: Int64[Tensor, "query"]
    ) -> tuple[Float[Tensor, ""], Scores]:
        weights = self.adapt(support, labels, query, self.config.inner_steps)
        of_support, of_query = self.run(weights, support), self.run(weights, query)
        return F.cross_entropy(of_query[0], query_labels) + self.regulariser(of_support, of_query), of_query[0]

    def regulariser(self, *parts: tuple[Tensor, Tensor]) -> Float[Tensor, ""]:
        """Return the weighted transductive term for these pairs of scores and features."""
        scores, features = (torch.cat(each) for each in zip(*parts, strict=True))
        return self.config.transduction_weight * disagreement(scores.softmax(-1), features.detach())


def disagreement(predictions: Float[Tensor, "node way"], features: Float[Tensor, "node feature"]) -> Float[Tensor, ""]:
    """Return the mean over all pairs of W_ij |ŷ_i - ŷ_j|²."""
    distances = mean_squared_distances(features)
    W = torch.exp(-distances / (2 * median_scale(distances) ** 2))
    return (W * predictions.shape[-1] * mean_squared_distances(predictions)).mean()
