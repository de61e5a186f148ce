from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.conftest import draw_task, refuses_setting
from tests.methods.reference import double_task
from tpn.episodes.mini_batches import MiniBatches
from tpn.episodes.setting import Setting
from tpn.episodes.task import Task
from tpn.methods._method import Dimensions
from tpn.methods.discriminative_k_shot import DiscriminativeKShot, DiscriminativeKShotConfig, most_probable
from tpn.training.optimiser import build_optimiser


def build(dimensions, **config):
    torch.manual_seed(0)
    settings = DiscriminativeKShotConfig(**{"backbone": "conv4-32", **config})
    return DiscriminativeKShot(settings, dimensions).double().train()


def objective(weights, features, Y, variance, mean=0.0):
    """The cross-entropy of all images, less the log-probability of the weights (a column per class)."""
    scores = features @ weights
    top = scores.max(1)
    log_sums = top + np.log(np.exp(scores - top[:, None]).sum(1))
    return np.sum(log_sums - (scores * Y).sum(1)) + np.sum((weights.T - mean) ** 2 / variance) / 2


def best_weights(features, Y, variance, mean=0.0):
    """The minimum of it, by Newton's method with a line search in the space of weights."""
    way, size = Y.shape[1], features.shape[1]
    weights = np.zeros((size, way))
    for _ in range(300):
        scores = features @ weights
        P = np.exp(scores - scores.max(1, keepdims=True))
        P /= P.sum(1, keepdims=True)
        gradient = features.T @ (P - Y) + (weights - np.broadcast_to(mean, size)[:, None]) / variance[:, None]
        curvature = np.zeros((way, size, way, size))
        for c in range(way):
            for d in range(way):
                curvature[c, :, d] = features.T @ (features * (P[:, c] * ((c == d) - P[:, d]))[:, None])
            curvature[c, :, c] += np.diag(1 / variance)
        step = -np.linalg.solve(curvature.reshape(way * size, -1), gradient.T.ravel()).reshape(way, size).T
        slope = np.sum(gradient * step)
        if slope > -1e-14:
            return weights + step
        start, length = objective(weights, features, Y, variance, mean), 1.0
        while objective(weights + length * step, features, Y, variance, mean) > start + 1e-4 * length * slope:
            length /= 2
        weights = weights + length * step
    raise AssertionError("no minimum was found")


def coefficients(features, Y, variance, steps=20_000):
    K = torch.from_numpy((features * variance) @ features.T)
    return most_probable(K, torch.from_numpy(Y), steps).numpy()


def problem(way, shot, size, seed, spread=1.0):
    """Features with a one at the end, one-hot labels, variances."""
    draw = np.random.default_rng(seed)
    features = np.concatenate([draw.normal(size=(way * shot, size)), np.ones((way * shot, 1))], axis=1)
    return features, np.eye(way)[np.arange(way * shot) % way], np.exp(spread * draw.normal(size=size + 1))


@given(
    way=st.integers(2, 5),
    shot=st.integers(1, 4),
    size=st.integers(1, 6),
    scale=st.sampled_from([1e-3, 0.1, 1.0, 5.0]),
    seed=st.integers(0, 100),
)
def test_the_coefficients_are_those_of_the_most_probable_weights(way, shot, size, scale, seed):
    features, Y, variance = problem(way, shot, size, seed)
    weights = best_weights(scale * features, Y, variance)
    A = coefficients(scale * features, Y, variance)
    largest = np.linalg.eigvalsh((scale * features * variance) @ (scale * features).T)[-1]
    found = variance[:, None] * (scale * features).T @ A
    np.testing.assert_allclose(scale * features @ found, scale * features @ weights, atol=1e-4 * max(largest, 1e-3))


@pytest.mark.parametrize("spread", [3.0, 6.0])
@pytest.mark.parametrize("seed", range(4))
def test_also_where_features_differ_much_in_scale(spread, seed):
    """Variances over many orders of magnitude: the objective is as low as it can be, but for a small part."""
    features, Y, variance = problem(3, 4, 8, seed, spread)
    A = coefficients(features, Y, variance)
    found = variance[:, None] * features.T @ A
    lowest = objective(best_weights(features, Y, variance), features, Y, variance)
    at_zero = 12 * np.log(3)
    assert lowest - 1e-9 <= objective(found, features, Y, variance) <= lowest + 1e-4 * at_zero


def test_one_step_is_by_the_bound_on_the_curvature():
    features, Y, variance = problem(3, 2, 4, seed=0)
    K = (features * variance) @ features.T
    expected = np.linalg.solve(K / 2 + np.eye(6), Y - 1 / 3)
    np.testing.assert_allclose(coefficients(features, Y, variance, steps=1), expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [100, 1000])
@pytest.mark.parametrize("seed", range(2))
def test_the_default_steps_are_enough_for_large_features_thanks_to_momentum(scale, seed):
    """Of which each image's have this much as the sum of squares; the same steps without momentum stop short."""
    draw = np.random.default_rng(seed)
    features, Y, variance = draw.normal(size=(25, 40)) + 0.5, np.eye(5)[np.arange(25) % 5], np.ones(40)
    features *= np.sqrt(scale / np.square(features).sum(1).mean())
    K = features @ features.T
    plain = np.zeros((25, 5))
    steps = DiscriminativeKShotConfig().steps
    for _ in range(steps):
        P = np.exp(K @ plain)
        plain -= np.linalg.solve(K / 2 + np.eye(25), P / P.sum(1, keepdims=True) - Y + plain)
    lowest = objective(best_weights(features, Y, variance), features, Y, variance)
    gap, without = (
        objective(features.T @ A, features, Y, variance) - lowest
        for A in (coefficients(features, Y, variance, steps), plain)
    )
    assert -1e-9 < gap < 1e-5 * 25 * np.log(5)
    assert 100 * gap < without


def test_a_batch_is_solved_as_its_episodes_one_by_one():
    """Also if one is much harder than the other."""
    problems = [problem(3, 4, 5, seed, spread) for seed, spread in ((0, 0.1), (1, 1.0), (2, 3.0))]
    K = torch.stack([torch.from_numpy((features * variance) @ features.T) for features, _, variance in problems])
    Y = torch.stack([torch.from_numpy(Y) for _, Y, _ in problems])
    together = most_probable(K, Y, 20_000)
    alone = torch.stack([most_probable(k, y, 20_000) for k, y in zip(K, Y, strict=True)])
    torch.testing.assert_close(together, alone, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("prior", ["isotropic", "diagonal"])
def test_the_variance_is_that_of_the_weights_of_the_training_classes(dimensions, prior):
    method = build(dimensions, prior=prior)
    with torch.no_grad():
        method.head.weight.mul_(torch.arange(128) + 1).add_(3)
        method.head.bias.mul_(50)
    weights = np.column_stack([method.head.weight.detach(), method.head.bias.detach()])
    expected = weights.var(0) if prior == "diagonal" else np.full(129, weights.var(0).mean())
    np.testing.assert_allclose(method.variance, expected, rtol=1e-9)


def learned(prior, split):
    """After a few steps of learning, in test mode."""
    method = build(Dimensions(1, 28, 3, 2, len(split.classes)), prior=prior, augment=(), lr=0.05, warm_up=0).float()
    optimiser, batches = build_optimiser(method), MiniBatches(split, Setting(), 64, seed=0)
    for _ in range(20):
        optimiser.zero_grad()
        method.learn(draw_task(batches, 1))
        optimiser.step()
    return method.eval()


@pytest.fixture(scope="module")
def embedded(drawings):
    """Of each number of classes and shots, a task, with features as they are after some steps of learning."""
    method = learned("isotropic", drawings)
    with torch.no_grad():
        tasks = {
            (way, shot): method.embedded(Task(**base(double_task(drawings, way=way, shot=shot))))
            for way, shot in ((3, 2), (5, 1), (5, 5))
        }
    return method, tasks


def base(task):
    return {
        "inputs": task.inputs.float(),
        "support_labels": task.support_labels,
        "way": task.way,
        "n_query": task.n_query,
    }


def with_prior(method, prior):
    other = DiscriminativeKShot(replace(method.config, prior=prior), method.dimensions).eval()
    other.load_state_dict(method.state_dict())
    return other


def as_arrays(task, episode):
    """Features with a one at the end of support and queries, and labels, in float64."""
    support, query = (
        np.pad(part[episode].double().numpy(), ((0, 0), (0, 1)), constant_values=1)
        for part in (task.support, task.query)
    )
    return support, query, np.eye(task.way)[task.support_labels[episode].numpy()]


def relative(scores):
    """What remains of scores if all classes of a query may have anything added."""
    return scores - scores.mean(-1, keepdims=True)


@pytest.mark.parametrize("prior", ["isotropic", "diagonal"])
@pytest.mark.parametrize(("way", "shot"), [(3, 2), (5, 1), (5, 5)])
def test_with_the_default_steps_scores_are_those_of_the_most_probable_weights(embedded, prior, way, shot):
    """In float32, on features as they are after some steps of learning."""
    method, task = with_prior(embedded[0], prior), embedded[1][way, shot]
    scores = method.score(task).detach().numpy()
    for episode in range(2):
        support, query, Y = as_arrays(task, episode)
        variance = method.variance.double().numpy()
        expected = query @ best_weights(support, Y, variance)
        np.testing.assert_allclose(relative(scores[episode]), relative(expected), atol=1e-3 * np.ptp(expected))


def test_the_mean_of_the_prior_makes_no_difference(embedded):
    """An independent search with the mean of the training classes' weights comes to the same differences."""
    method, tasks = embedded
    weights = np.column_stack([method.head.weight.detach(), method.head.bias.detach()]).astype(float)
    task, mean = tasks[3, 2], weights.mean(0)
    support, query, Y = as_arrays(task, 0)
    expected = query @ best_weights(support, Y, method.variance.double().numpy(), 5 * mean)
    without = query @ best_weights(support, Y, method.variance.double().numpy())
    assert not np.allclose(expected, without, rtol=1e-2)
    np.testing.assert_allclose(relative(expected), relative(without), atol=1e-8)
    scores = method.score(task)[0].detach().numpy()
    np.testing.assert_allclose(relative(scores), relative(expected), atol=1e-3 * np.ptp(without))


def test_priors_differ(embedded):
    method, tasks = embedded
    scores = [with_prior(method, prior).score(tasks[3, 2]) for prior in ("isotropic", "diagonal", "none")]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.allclose(scores[one], scores[other], rtol=1e-2)


def test_without_a_prior_the_support_is_learned_all_but_perfectly(embedded):
    """Its objective comes near the lowest one within the default steps, though not all the way."""
    method, tasks = embedded
    for task in tasks.values():
        support_as_queries = replace(
            task, inputs=torch.cat([task.support, task.support], dim=1), n_query=task.support_labels.shape[1]
        )
        chances = [
            with_prior(method, prior).score(support_as_queries).softmax(-1).gather(2, task.support_labels[..., None])
            for prior in ("none", "isotropic")
        ]
        assert chances[0].min() > 0.97
        assert chances[1].max() < 0.9


def test_without_a_prior_it_is_plain_logistic_regression(dimensions):
    """On classes that overlap: those that can be told apart have no best weights without a prior."""
    method = build(dimensions, prior="none", steps=5000)
    method.head = nn.Linear(2, 10).double()
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(45, 2)), np.arange(30) % 3
    task = Task(torch.from_numpy(features)[None], torch.from_numpy(labels)[None], 3, 15)
    ones = np.column_stack([features, np.ones(45)])
    expected = ones[30:] @ best_weights(ones[:30], np.eye(3)[labels], np.full(3, 1e8))
    np.testing.assert_allclose(relative(method.score(task)[0].detach().numpy()), relative(expected), atol=1e-2)


def test_fewer_steps_stop_short(embedded):
    method, tasks = embedded
    task, distances = tasks[5, 5], []
    support, query, Y = as_arrays(task, 0)
    expected = relative(query @ best_weights(support, Y, method.variance.double().numpy()))
    for steps in (1, 3, 100):
        method.config = replace(method.config, steps=steps)
        distances.append(np.abs(relative(method.score(task)[0].detach().numpy()) - expected).max())
    method.config = replace(method.config, steps=200)
    assert distances[0] > 3 * distances[1] > 30 * distances[2]


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 0},
        {"steps": 100_001},
        {"batch_size": 1},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(DiscriminativeKShotConfig, settings)
