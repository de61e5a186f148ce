"""Balanced assignment of queries to classes, by the Sinkhorn-Knopp iteration."""

import torch
from jaxtyping import Float
from torch import Tensor

SINKHORN_ITERATIONS = 30


def balanced_assignment(
    logits: Float[Tensor, "episode query way"],
    counts: Float[Tensor, "episode way"] | None = None,
    rows: Float[Tensor, "episode query"] | None = None,
    iterations: int = SINKHORN_ITERATIONS,
) -> Float[Tensor, "episode query way"]:
    """Scale the rows and columns of exp(logits) until rows sum to one and columns to `counts`.

    By default the classes are of equal size. `rows` are weights of the queries; those with weight 0 are left out, and
    `counts` must sum to the sum of the others. Rows are scaled last.
    """
    # classes first, then episodes: sums over few classes are fast where they are far apart in memory
    weights = torch.exp(logits - logits.amax(-1, keepdim=True)).permute(2, 0, 1).contiguous()
    least = torch.finfo(weights.dtype).tiny
    if rows is None:
        rows = torch.ones_like(weights[0])
    if counts is None:
        counts = (rows.sum(-1, keepdim=True) / len(weights)).expand(-1, len(weights))
    columns = counts.mT.unsqueeze(-1)
    factor = torch.ones_like(columns)
    for _ in range(iterations):
        row_factor = rows / (weights * factor).sum(0).clamp_min_(least)
        factor = columns / (weights * row_factor).sum(-1, keepdim=True).clamp_min_(least)
    scaled = weights * factor
    return (rows * scaled / scaled.sum(0).clamp_min_(least)).permute(1, 2, 0)


def log_probabilities(P: Float[Tensor, "*episode query way"]) -> Float[Tensor, "*episode query way"]:
    """Return log P as scores, with a floor instead of minus infinity."""
    return P.clamp_min(torch.finfo(P.dtype).tiny ** 0.5).log()
