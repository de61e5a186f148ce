"""PADDLE: expectation maximisation with class proportions."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.errors import TPNError
from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods._span import InnerProducts, mean_weights
from tpn.methods._transport import log_probabilities


@dataclass(frozen=True)
class PADDLEConfig(HeadConfig):
    """PADDLE: soft k-means that estimates which of the classes occur, and how often."""

    temperature: float = 60.0
    """The factor of half the squared distances. The paper has 1, on features that are not of unit length; this default
    is the best of 15, 30, 60, 120 and 250 on the validation classes of miniImageNet."""
    proportion_weight: float = 1.0
    """λ/m: the weight of the logarithm of the class proportions; 0 ignores them. The paper has λ = m = 75 queries."""
    rounds: int = 100
    """Updates of labels, proportions and class means."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "temperature")
        check_rounds(self, "rounds", 0)
        if not 0 <= self.proportion_weight < float("inf"):
            raise TPNError(f"--proportion-weight must be at least 0, not {self.proportion_weight}.")


@register_method
class PADDLE(Head):
    """Martin et al., "Towards Practical Few-Shot Query Sets: Transductive Minimum Description Length Inference",
    NeurIPS 2022.

    100 times: p = softmax(-‖z - w‖²/2 + (λ/m) v), v = 1 + log of the mean of p over the queries; w are the means of
    support and queries, weighted by p. Classes that few queries belong to lose those too, so that a class that does
    not occur ends up with none.

    https://arxiv.org/abs/2210.14545
    """

    info = Info(
        name="paddle",
        paper="Martin et al., Towards Practical Few-Shot Query Sets, NeurIPS 2022",
        transduction="yes",
        learns_from="mini-batches",
        class_balance="estimated",
        head=True,
    )
    Config = PADDLEConfig
    config: PADDLEConfig

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        n_support, half = support.shape[1], self.config.temperature / 2
        products, labels = InnerProducts(together(support, query)), Y.mT
        logits = -half * products.squared_distances(mean_weights(F.pad(labels, (0, query.shape[1]))))[..., n_support:]
        for _ in range(self.config.rounds):
            p = logits.softmax(1)
            w = mean_weights(torch.cat([labels, p], dim=-1))
            proportions = log_probabilities(p.mean(-1, keepdim=True))
            bonus = self.config.proportion_weight * (1 + proportions)
            logits = bonus - half * products.squared_distances(w)[..., n_support:]
        return logits.mT
