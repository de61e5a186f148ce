"""Linear systems of many small matrices, on one thread.

PyTorch divides a batch of matrices among its threads, and each of them calls MKL, which starts threads of its own. With
`torch.set_num_threads(2)` and PyTorch 2.13, factorising 64 matrices of 160 rows then takes 20 times as long as on one
thread, reports wrong parameters, or never ends. On one thread it takes milliseconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Matrices = Float[Tensor, "*batch row row"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one CPU thread inside this block."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def solve(A: Matrices, B: Float[Tensor, "*batch row column"]) -> Float[Tensor, "*batch row column"]:
    """Return X with A X = B, with gradients, by an LU factorisation that the gradient uses again."""
    solution: Tensor = _Solve.apply(A, B)  # type: ignore[no-untyped-call]
    return solution


def inverse(A: Matrices) -> Matrices:
    """Return the inverse of each matrix."""
    identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand_as(A)
    return solve(A, identity)


class _Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor) -> Tensor:
        with one_thread():
            factors, pivots, _ = torch.linalg.lu_factor_ex(A)
            solution: Tensor = torch.linalg.lu_solve(factors, pivots, B)
        ctx.save_for_backward(factors, pivots, solution)
        return solution

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        factors, pivots, solution = ctx.saved_tensors
        with one_thread():
            to_B = torch.linalg.lu_solve(factors, pivots, gradients[0], adjoint=True)
        return -to_B @ solution.mH if ctx.needs_input_grad[0] else None, to_B
