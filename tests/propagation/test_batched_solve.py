"""Many small linear systems: exact, with gradients, and on any number of threads."""

import os
import subprocess
import sys

import numpy as np
import torch

from tpn.propagation.batched_solve import inverse, one_thread, solve


def systems(matrices=3, rows=7, columns=2):
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(matrices, rows, rows, dtype=torch.float64, generator=generator)
    return A, torch.randn(matrices, rows, columns, dtype=torch.float64, generator=generator)


def test_solutions_are_those_of_numpy():
    A, B = systems()
    np.testing.assert_allclose(solve(A, B), np.linalg.solve(A.numpy(), B.numpy()), rtol=1e-9)
    np.testing.assert_allclose(inverse(A), np.linalg.inv(A.numpy()), rtol=1e-8)
    np.testing.assert_allclose(solve(A[0], B[0]), np.linalg.solve(A[0].numpy(), B[0].numpy()), rtol=1e-9)


def test_gradients_are_those_of_finite_differences():
    A, B = (values.requires_grad_() for values in systems(2, 4))
    assert torch.autograd.gradcheck(solve, (A, B))
    assert torch.autograd.gradcheck(inverse, (A,))


def test_it_computes_on_one_thread_and_leaves_their_number_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        solve(*systems())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_ten_way_episodes_on_two_threads_come_to_an_end():
    """PyTorch's own solver does not always: its threads and those of MKL wait for each other."""
    program = """
import torch
from tpn.propagation.solvers import propagate
torch.set_num_threads(2)
W = torch.rand(64, 200, 200, generator=torch.Generator().manual_seed(0))
W = W + W.mT
S = W / W.sum(-1).sqrt()[:, :, None] / W.sum(-1).sqrt()[:, None]
Y = torch.eye(200, 10).expand(64, -1, -1)
for _ in range(20):
    F = propagate(S, Y, 0.99)
torch.testing.assert_close(F - 0.99 * S @ F, Y, rtol=0, atol=1e-3)
"""
    known = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}  # which the tests set
    subprocess.run([sys.executable, "-c", program], env=known, check=True, timeout=100)
