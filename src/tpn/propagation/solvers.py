"""Solvers of label propagation on a graph: equations (3) and (4).

Both solvers have the same limit, F* = (I - αS)^-1 Y. Rows of Y are zero for unlabelled nodes. A node that no label
reaches has a row of zeros in F*, which a softmax turns into the uniform distribution.

`tpn.semi_supervised` is the other propagation engine. Here graphs are small and dense, come in batches and carry
gradients to the backbone, so they are PyTorch tensors; there one sparse graph has up to millions of points, labels
stay fixed and every point has a prior, so it is NumPy and SciPy arrays, and an iterative solver.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.propagation.batched_solve import solve


def label_matrix(
    labels: Int64[Tensor, "*episode node"], way: int, like: Float[Tensor, "..."]
) -> Float[Tensor, "*episode node class"]:
    """Return Y: one-hot rows for labelled nodes, zeros for unlabelled ones (-1)."""
    labelled = labels >= 0
    return F.one_hot(labels.clamp_min(0), way).to(like) * labelled[..., None].to(like)


def propagate(
    S: Float[Tensor, "*episode node node"],
    Y: Float[Tensor, "*episode node class"],
    alpha: float | Float[Tensor, ""],
) -> Float[Tensor, "*episode node class"]:
    """Return F* = (I - αS)^-1 Y, equation (4), by a factorisation of I - αS."""
    identity = torch.eye(S.shape[-1], dtype=S.dtype, device=S.device)
    return solve(identity - alpha * S, Y)


def propagate_stepwise(
    S: Float[Tensor, "*episode node node"],
    Y: Float[Tensor, "*episode node class"],
    alpha: float | Float[Tensor, ""],
    steps: int,
) -> Float[Tensor, "*episode node class"]:
    """Iterate equation (3), F <- αSF + (1 - α)Y, from F = Y; divide by 1 - α, so that the limit is equation (4)."""
    spread = Y
    for _ in range(steps):
        spread = alpha * (S @ spread) + (1 - alpha) * Y
    return spread / (1 - alpha)
