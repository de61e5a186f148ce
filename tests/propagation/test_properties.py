"""What must hold whatever the data: symmetry, order, batches, limits, and no NaN or infinity anywhere."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tpn.propagation.affinity import affinity, scale
from tpn.propagation.graph import connect, normalise
from tpn.propagation.solvers import label_matrix, propagate, propagate_stepwise

SEEDS = st.integers(0, 10_000)


def random(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def scores(features, sigma, support_labels, way, k=5, alpha=0.9):
    S = normalise(connect(affinity(features, sigma), k))
    return propagate(S, label_matrix(first_nodes(support_labels, features.shape[-2]), way, like=S), alpha)


def first_nodes(labels, nodes):
    """Labels of the first nodes, and none of the others."""
    return torch.nn.functional.pad(labels, (0, nodes - labels.shape[-1]), value=-1)


@given(seed=SEEDS, way=st.integers(2, 6), k=st.integers(1, 20))
def test_relabelling_the_classes_permutes_the_scores(seed, way, k):
    rng = np.random.default_rng(seed)
    f, sigma = random(20, 6, seed=seed), torch.from_numpy(rng.uniform(0.5, 1.5, 20))
    labels, order = torch.arange(way), torch.from_numpy(rng.permutation(way))
    before = scores(f, sigma, labels, way, k)
    after = scores(f, sigma, order[labels], way, k)
    torch.testing.assert_close(after[:, order], before)


@given(seed=SEEDS, k=st.integers(1, 20))
def test_reordering_the_nodes_permutes_the_rows(seed, k):
    order = torch.from_numpy(np.random.default_rng(seed).permutation(20))
    f, Y = random(20, 6, seed=seed), random(20, 3, seed=seed + 1).abs()
    S = normalise(connect(affinity(f), k))
    permuted = normalise(connect(affinity(f[order]), k))
    torch.testing.assert_close(permuted, S[order][:, order])
    torch.testing.assert_close(propagate(permuted, Y[order], 0.9), propagate(S, Y, 0.9)[order])


@given(seed=SEEDS, episodes=st.integers(1, 5))
def test_a_batch_of_episodes_equals_them_one_by_one(seed, episodes):
    f, labels = random(episodes, 15, 6, seed=seed), torch.arange(3).expand(episodes, 3)
    sigma = random(episodes, 15, seed=seed + 1).abs() + 0.5
    batch = scores(f, sigma, labels, 3)
    for index in range(episodes):
        torch.testing.assert_close(batch[index], scores(f[index], sigma[index], labels[index], 3))


@given(seed=SEEDS, alpha=st.floats(0.05, 0.95))
def test_iteration_tends_to_the_closed_form(seed, alpha):
    S = normalise(connect(affinity(random(15, 6, seed=seed)), 5))
    Y = label_matrix(first_nodes(torch.arange(3), 15), 3, like=S)
    steps = int(np.ceil(np.log(1e-9) / np.log(alpha)))
    torch.testing.assert_close(propagate_stepwise(S, Y, alpha, steps), propagate(S, Y, alpha), rtol=1e-6, atol=1e-6)


@given(seed=SEEDS, factor=st.floats(1e-3, 1e3))
def test_scaling_features_and_length_scales_alike_changes_nothing(seed, factor):
    f, sigma = random(12, 6, seed=seed), random(12, seed=seed + 1).abs() + 0.5
    torch.testing.assert_close(affinity(factor * f, factor * sigma), affinity(f, sigma))
    W = connect(affinity(f, sigma), 4)
    torch.testing.assert_close(normalise(factor * W), normalise(W))


@given(seed=SEEDS, shift=st.floats(-100, 100))
def test_shifting_all_features_changes_nothing(seed, shift):
    f = random(12, 6, seed=seed)
    torch.testing.assert_close(affinity(f + shift), affinity(f))


@given(seed=SEEDS, k=st.integers(1, 12), mutual=st.booleans())
def test_the_graph_is_symmetric_and_keeps_enough_edges(seed, k, mutual):
    W = connect(affinity(random(12, 6, seed=seed)), k, mutual)
    assert torch.equal(W, W.mT)
    degrees = (W > 0).sum(-1)
    assert (W.diagonal() == 1).all()
    assert (degrees <= k).all() if mutual else (degrees >= k).all()


def finite(features, sigma, k=20, alpha=0.99):
    """Scores of two classes in float32, after checking that nothing in them or their gradients is NaN or infinite."""
    f, s = features.float().requires_grad_(), sigma.float().requires_grad_()
    F = scores(f, s, torch.arange(2), 2, k, alpha)
    torch.nn.functional.cross_entropy(F, torch.arange(len(F)) % 2).backward()
    for tensor in (F, f.grad, s.grad):
        assert torch.isfinite(tensor).all()
    return F


@pytest.mark.parametrize("sigma", [0.0, 1e-30, -1e-30, 1e-6, -1e-6, 1e-3, 1e6])
def test_length_scales_near_zero_and_far_from_it(sigma):
    finite(100 * random(12, 1600), torch.full((12,), sigma))
    mixed = torch.full((12,), sigma)
    mixed[::2] = 1.0
    finite(100 * random(12, 1600), mixed)


@pytest.mark.parametrize("far", [1, 5, 30])
def test_nodes_far_off_do_not_cost_the_others_their_digits(far):
    f = random(100, 1600) + 3
    sigma = torch.ones(100, dtype=torch.float64)
    sigma[:far] = 1e-4
    exact, single = affinity(f, sigma)[far:, far:], affinity(f.float(), sigma.float())[far:, far:]
    torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=0)


def test_scaling_keeps_the_sign_of_a_tiny_length_scale():
    ones = torch.ones(3, 1)
    assert scale(ones, torch.tensor([1e-9, -1e-9, 0.0])).flatten().tolist() == pytest.approx([1e4, -1e4, 1e4])


@pytest.mark.parametrize("alpha", [0.5, 0.99, 0.999])
@pytest.mark.parametrize("k", [1, 5, 1000])
def test_identical_images(k, alpha):
    F = finite(torch.ones(50, 64), torch.ones(50), k, alpha)
    assert (F >= -1e-3).all()


def test_a_node_that_no_label_reaches_gets_the_uniform_distribution():
    f = torch.zeros(8, 4)
    f[4:] = 1e4  # another island
    F = finite(f, torch.ones(8))
    assert (F[4:] == 0).all()
    assert (F[4:].softmax(-1) == 0.5).all()
    assert (F[:4] > 0).all()


def test_a_node_without_any_edge_stays_by_itself():
    W = torch.zeros(3, 3, requires_grad=True)
    S = normalise(W)
    assert (S == 0).all()
    S.sum().backward()
    assert torch.isfinite(W.grad).all()


@pytest.mark.parametrize("seed", range(5))
def test_float32_with_alpha_near_one_stays_close_to_float64(seed):
    f = random(100, 64, seed=seed)
    Y = label_matrix(first_nodes(torch.arange(5), 100), 5, like=f)
    exact = propagate(normalise(connect(affinity(f), 20)), Y, 0.999)
    single = propagate(normalise(connect(affinity(f.float()), 20)), Y.float(), 0.999)
    torch.testing.assert_close(single.double(), exact, rtol=1e-3, atol=1e-4)
    finite(f, torch.ones(100), alpha=0.999)
