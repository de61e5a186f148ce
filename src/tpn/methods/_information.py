"""The mutual information between queries and their labels, and descent of prototypes along its gradient."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

FIRST, SECOND, LEAST = 0.9, 0.999, 1e-8
"""Adam's constants."""


@dataclass(frozen=True)
class InformationLoss:
    """Cross-entropy of the support, minus the entropy of the mean query label, plus the mean entropy of query labels.

    The entropies of the queries are Shannon's for alpha = 1, otherwise Tsallis': (1 - Σp^α) / (α - 1).
    """

    support: float
    marginal: float
    conditional: float
    alpha: float = 1.0

    def entropy(self, p: Float[Tensor, "*node way"]) -> Float[Tensor, "*node"]:
        """Return the entropy of each distribution."""
        if self.alpha == 1:
            shannon: Tensor = torch.special.entr(p).sum(-1)
            return shannon
        return (1 - p.pow(self.alpha).sum(-1)) / (self.alpha - 1)

    def times(self, factor: float) -> "InformationLoss":
        """Return the loss times a factor."""
        return InformationLoss(factor * self.support, factor * self.marginal, factor * self.conditional, self.alpha)

    def entropy_slope(self, log_p: Float[Tensor, "episode way _"]) -> Float[Tensor, "episode way _"]:
        """Return the derivative of the entropy by each probability, up to a constant that a softmax cancels.

        Probabilities are given as logarithms. The least is that of the smallest positive number.
        """
        if self.alpha == 1:
            return -log_p.clamp_min(math.log(torch.finfo(log_p.dtype).tiny))
        return torch.exp((self.alpha - 1) * log_p) * (-self.alpha / (self.alpha - 1))

    def __call__(
        self,
        support: Float[Tensor, "episode support way"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query way"],
    ) -> Float[Tensor, "episode"]:
        """Return the loss of each episode, given the logits of support and queries."""
        p = query.softmax(-1)
        known = -(Y * F.log_softmax(support, dim=-1)).sum(-1).mean(-1)
        information = self.marginal * self.entropy(p.mean(1)) - self.conditional * self.entropy(p).mean(-1)
        return self.support * known - information

    def slopes(
        self, logits: Float[Tensor, "episode way node"], Y: Float[Tensor, "episode way support"]
    ) -> Float[Tensor, "episode way node"]:
        """Return the gradient of the loss by the logits of the support and the queries, in closed form.

        Classes come before nodes, which is faster: there are few of them.
        """
        n_support, n_query = Y.shape[-1], logits.shape[-1] - Y.shape[-1]
        log_p = logits.log_softmax(1)
        p = log_p.exp()
        known = p[..., :n_support]
        marginal = (p.sum(-1, keepdim=True) - known.sum(-1, keepdim=True)) / n_query
        # all nodes as if they were queries, then the support: contiguous memory is faster than slices of it
        on_marginal = self.entropy_slope(marginal.log()) * (-self.marginal / n_query)
        weighted = p * torch.add(on_marginal, self.entropy_slope(log_p), alpha=self.conditional / n_query)
        slopes = torch.addcmul(weighted, p, weighted.sum(1, keepdim=True), value=-1)
        slopes[..., :n_support] = (known - Y) * (self.support / max(n_support, 1))
        return slopes


class Adam:
    """Adam, for the parameters of all episodes at once, without state shared between them.

    With `entries`, a row of parameters (a prototype) has one second moment instead of one for each entry. Then the
    result does not depend on the coordinates, and may be computed in the span of an episode; `entries` is the number of
    features of the row outside of it. A step is as long as Adam's where gradients by all features are of similar size.
    """

    def __init__(self, lr: float, entries: int | None = None) -> None:
        self.lr, self.entries, self.steps = lr, entries, 0
        self.mean: Tensor | None = None
        self.square: Tensor | None = None

    def step(self, values: Tensor, slope: Tensor, factor: float = 1.0, squares: Tensor | None = None) -> Tensor:
        """Return the values after a step against the slope, `factor` times as long.

        With `entries`, `squares` may give the squared lengths of the rows of the slope.
        """
        if squares is None:
            squares = slope.square() if self.entries is None else slope.square().sum(-1, keepdim=True)
        if self.entries is not None:
            squares = squares / self.entries
        if self.mean is None or self.square is None:
            self.mean, self.square = torch.zeros_like(slope), torch.zeros_like(squares)
        self.mean.lerp_(slope, 1 - FIRST)
        self.square.lerp_(squares, 1 - SECOND)
        self.steps += 1
        scale = (self.square / (1 - SECOND**self.steps)).sqrt_().add_(LEAST)
        rate = -factor * self.lr / (1 - FIRST**self.steps)
        if self.entries is None:
            return torch.addcdiv(values, self.mean, scale, value=rate)
        return torch.addcmul(values, self.mean, rate / scale)
