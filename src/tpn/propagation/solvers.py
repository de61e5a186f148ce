"""Propagating labels over a graph: equations (3) and (4).

Both solvers have the same limit, F* = (I - αS)^-1 Y. Rows of Y are zero where there is no label; nodes that no label
reaches end with a row of zeros, which a softmax turns into the uniform distribution.

`tpn.semi_supervised` is the other propagation engine. Here graphs are small and dense, come in batches and carry
gradients to the backbone, so they are PyTorch tensors; there one sparse graph has up to millions of points, labels
stay fixed and every point has a prior, so it is NumPy and SciPy arrays, and an iterative solver.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor


def label_matrix(
    labels: Int64[Tensor, "*episode node"], way: int, like: Float[Tensor, "..."]
) -> Float[Tensor, "*episode node class"]:
    """Y: a one in the column of its class for each labelled node, zeros for nodes without a label (-1)."""
    labelled = labels >= 0
    return F.one_hot(labels.clamp_min(0), way).to(like) * labelled[..., None].to(like)


def propagate(
    S: Float[Tensor, "*episode node node"],
    Y: Float[Tensor, "*episode node class"],
    alpha: float | Float[Tensor, ""],
) -> Float[Tensor, "*episode node class"]:
    """Equation (4), F* = (I - αS)^-1 Y, by a factorisation of I - αS."""
    identity = torch.eye(S.shape[-1], dtype=S.dtype, device=S.device)
    spread: Tensor = torch.linalg.solve(identity - alpha * S, Y)
    return spread


def propagate_stepwise(
    S: Float[Tensor, "*episode node node"],
    Y: Float[Tensor, "*episode node class"],
    alpha: float | Float[Tensor, ""],
    steps: int,
) -> Float[Tensor, "*episode node class"]:
    """`steps` times equation (3), F <- αSF + (1 - α)Y from F = Y, divided by 1 - α so that it tends to equation (4)."""
    spread = Y
    for _ in range(steps):
        spread = alpha * (S @ spread) + (1 - alpha) * Y
    return spread / (1 - alpha)
