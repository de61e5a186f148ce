"""Multinomial logistic regression on the support."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_positive
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods.discriminative_k_shot import most_probable


@dataclass(frozen=True)
class LogisticRegressionConfig(HeadConfig):
    """Logistic regression: a linear classifier of the features, fitted to the support."""

    inverse_penalty: float = 10.0
    """C: the weight of the cross-entropy against half the squared weights, as in scikit-learn."""
    steps: int = 200
    """The maximum number of steps of the optimiser."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "inverse_penalty")
        check_rounds(self, "steps", 1)


@register_method
class LogisticRegression(Head):
    """Tian et al., "Rethinking Few-Shot Image Classification: a Good Embedding Is All You Need?", ECCV 2020.

    A linear classifier is fitted to the support of each episode, with an L2 penalty on its weights (and its bias). It
    is found in the span of the support, so that its cost does not depend on the number of features.

    https://arxiv.org/abs/2003.11539
    """

    info = Info(
        name="logistic-regression",
        paper="Tian et al., Rethinking Few-Shot Image Classification: a Good Embedding Is All You Need?, ECCV 2020",
        transduction="no",
        learns_from="mini-batches",
        head=True,
    )
    Config = LogisticRegressionConfig
    config: LogisticRegressionConfig

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        C, precise = self.config.inverse_penalty, support.double()
        coefficients = most_probable(C * (precise @ precise.mT + 1), Y.double(), self.config.steps)
        scores: Tensor = C * (query @ support.mT + 1) @ coefficients.to(query)
        return scores
