"""Each equation against an independent computation in NumPy, in both precisions, with its gradient."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from tests.propagation import reference
from tpn.propagation.affinity import affinity, mean_squared_distances
from tpn.propagation.graph import connect, normalise
from tpn.propagation.solvers import label_matrix, propagate
from tpn.propagation.solvers import propagate_stepwise as stepwise

PRECISIONS = [(torch.float64, 1e-9), (torch.float32, 1e-4)]


def features(n=30, d=40, seed=0, offset=3.0):
    """Not centred, as features after a ReLU are not."""
    return np.random.default_rng(seed).gamma(2.0, 1.0, (n, d)) + offset


def graph(seed=0, n=30, k=6):
    rng = np.random.default_rng(seed)
    W = reference.connect(reference.affinity(features(n, seed=seed), rng.uniform(0.5, 1.5, n)), k)
    return W, reference.normalise(W)


def labels(n=30, way=3, shots=2):
    Y = np.zeros((n, way))
    Y[np.arange(way * shots), np.arange(way * shots) % way] = 1
    return Y


def tensor(array, dtype=torch.float64):
    return torch.tensor(array, dtype=dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("one_per_node", [False, True])
def test_affinity(dtype, tolerance, seed, one_per_node):
    f = features(seed=seed)
    sigma = np.random.default_rng(seed).uniform(0.4, 1.6, 30) if one_per_node else 0.7
    if one_per_node:
        sigma[3] *= -1  # nothing keeps the network from it
    W = affinity(tensor(f, dtype), tensor(sigma, dtype) if one_per_node else sigma)
    np.testing.assert_allclose(W, reference.affinity(f, sigma), rtol=tolerance, atol=1e-30)
    assert torch.equal(W, W.mT)
    assert (W.diagonal() == 1).all()


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_distances_far_from_the_origin_keep_their_digits(dtype, tolerance):
    f = features(offset=50.0)
    expected = ((f[:, None] - f[None]) ** 2).mean(-1)
    np.testing.assert_allclose(mean_squared_distances(tensor(f, dtype)), expected, rtol=tolerance, atol=tolerance)


class LargestTensor(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that any operation returns, forwards or backwards."""

    largest = 0

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        result = operation(*arguments, **(keywords or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, tensor.numel())
        return result


def test_distances_never_build_an_array_of_nodes_by_nodes_by_features():
    nodes, size = 40, 30

    def largest(distances):
        f = torch.rand(nodes, size, requires_grad=True)
        with LargestTensor() as seen:
            distances(f).sum().backward()
        assert f.grad is not None
        return seen.largest

    assert largest(mean_squared_distances) == nodes * nodes
    assert largest(lambda f: (f[:, None] - f[None]).square().mean(-1)) == nodes * nodes * size


@pytest.mark.parametrize("k", [1, 2, 5, 30, 99])
@pytest.mark.parametrize("mutual", [False, True])
def test_neighbour_graph(k, mutual):
    W = reference.affinity(features(), 1.0)
    np.testing.assert_array_equal(connect(tensor(W), k, mutual), reference.connect(W, k, mutual))


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_normalisation(dtype, tolerance):
    W, S = graph()
    np.testing.assert_allclose(normalise(tensor(W, dtype)), S, rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.99])
def test_closed_form(dtype, tolerance, alpha):
    _, S = graph()
    F = propagate(tensor(S, dtype), tensor(labels(), dtype), alpha)
    np.testing.assert_allclose(F, reference.closed_form(S, labels(), alpha), rtol=tolerance, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("steps", [1, 2, 10])
def test_iteration(dtype, tolerance, steps):
    _, S = graph()
    F = stepwise(tensor(S, dtype), tensor(labels(), dtype), 0.99, steps)
    np.testing.assert_allclose(F, reference.iterate(S, labels(), 0.99, steps) / 0.01, rtol=tolerance, atol=1e-12)


def test_label_matrix_of_labels_at_any_place():
    Y = label_matrix(torch.tensor([[2, -1, 0], [-1, 1, 1]]), way=3, like=torch.zeros(1, dtype=torch.float64))
    assert Y.tolist() == [[[0, 0, 1], [0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1, 0], [0, 1, 0]]]
    assert Y.dtype == torch.float64


def variable(array):
    return tensor(array).requires_grad_()


def test_gradients():
    """Of every equation, and of all of them in a row, against finite differences."""
    f, sigma = variable(features(8, 5)), variable(np.random.default_rng(1).uniform(0.7, 1.3, 8))
    Y, alpha = tensor(labels(8, 2, 1)), variable(0.9)
    W, S = (tensor(array).requires_grad_() for array in graph(n=8, k=4))
    assert gradcheck(affinity, (f, sigma))
    full = variable(reference.affinity(features(8, 5), 1.0))
    assert gradcheck(lambda W: connect(W, 4), (full,))
    assert gradcheck(normalise, (W,))
    assert gradcheck(lambda S, alpha: propagate(S, Y, alpha), (S, alpha))
    assert gradcheck(lambda S, alpha: stepwise(S, Y, alpha, 5), (S, alpha))
    assert gradcheck(
        lambda f, sigma, alpha: propagate(normalise(connect(affinity(f, sigma), 4)), Y, alpha), (f, sigma, alpha)
    )
