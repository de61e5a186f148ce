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
    weights = torch.exp(logits - logits.amax(-1, keepdim=True))
    least = torch.finfo(weights.dtype).tiny
    if rows is None:
        rows = torch.ones_like(weights[..., 0])
    if counts is None:
        counts = (rows.sum(-1, keepdim=True) / weights.shape[-1]).expand_as(weights[:, 0])
    factor = torch.ones_like(counts)
    for _ in range(iterations):
        row_factor = rows / torch.einsum("eqw,ew->eq", weights, factor).clamp_min(least)
        factor = counts / torch.einsum("eqw,eq->ew", weights, row_factor).clamp_min(least)
    scaled = weights * factor.unsqueeze(-2)
    return rows.unsqueeze(-1) * scaled / scaled.sum(-1, keepdim=True).clamp_min(least)


def log_probabilities(P: Float[Tensor, "*episode query way"]) -> Float[Tensor, "*episode query way"]:
    """Return log P as scores, with a floor instead of minus infinity."""
    return P.clamp_min(torch.finfo(P.dtype).tiny ** 0.5).log()
