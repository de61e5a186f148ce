"""The mutual information between queries and their labels, and descent of prototypes along its gradient."""

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

    def entropy_slope(self, p: Float[Tensor, "episode way _"]) -> Float[Tensor, "episode way _"]:
        """Return the derivative of the entropy by each probability, up to a constant that a softmax cancels."""
        if self.alpha == 1:
            return -p.clamp_min(torch.finfo(p.dtype).tiny).log()
        power = p if self.alpha == 2 else p.pow(self.alpha - 1)
        return power * (-self.alpha / (self.alpha - 1))

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
        p = logits.softmax(1)
        known, unknown = p[..., :n_support], p[..., n_support:]
        slope = self.conditional * self.entropy_slope(unknown)
        slope = slope - self.marginal * self.entropy_slope(unknown.mean(-1, keepdim=True))
        by_query = unknown * (slope - (unknown * slope).sum(1, keepdim=True)) / n_query
        return torch.cat([(known - Y) * (self.support / max(n_support, 1)), by_query], dim=-1)


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

    def step(self, values: Tensor, slope: Tensor, factor: float = 1.0) -> Tensor:
        """Return the values after a step against the slope, `factor` times as long."""
        squares = slope.square()
        if self.entries is not None:
            squares = squares.sum(-1, keepdim=True) / self.entries
        self.mean = torch.lerp(slope, torch.zeros_like(slope) if self.mean is None else self.mean, FIRST)
        self.square = torch.lerp(squares, torch.zeros_like(squares) if self.square is None else self.square, SECOND)
        self.steps += 1
        scale = (self.square / (1 - SECOND**self.steps)).sqrt() + LEAST
        return values - factor * self.lr / (1 - FIRST**self.steps) * self.mean / scale
