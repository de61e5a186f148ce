from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.conftest import refuses_setting
from tests.methods.reference import classifier, double_task, gradients, median_distance, start
from tests.propagation.reference import affinity
from tpn.methods.maml import MAML
from tpn.methods.maml_transduction import MAMLTransduction, MAMLTransductionConfig

SETTINGS = {"inner_lr": 0.1, "inner_steps": 1, "test_steps": 2}


def build(dimensions, kind=MAMLTransduction, **config):
    torch.manual_seed(0)
    return kind(kind.Config(**{**SETTINGS, **config}), dimensions).double().train()


def term(weights, support, query):
    """The mean over all pairs of images of W_ij |ŷ_i - ŷ_j|², W without a gradient."""
    both = [classifier(weights, images) for images in (support, query)]
    predictions = torch.cat([scores for scores, _ in both]).softmax(-1)
    features = torch.cat([features for _, features in both]).detach().numpy()
    W = affinity(features, median_distance(features))
    total = 0
    for i in range(18):
        for j in range(18):
            total = total + W[i, j] * (predictions[i] - predictions[j]).square().sum()
    return total / 18**2


def adapt(weights, support, labels, query, steps, how_much):
    for _ in range(steps):
        loss = F.cross_entropy(classifier(weights, support)[0], labels) + how_much * term(weights, support, query)
        gradient = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        weights = {name: weight - 0.1 * g for (name, weight), g in zip(weights.items(), gradient, strict=True)}
    return weights


def test_the_term_is_in_the_inner_and_the_outer_loss(dimensions, drawings):
    method, task = build(dimensions, transduction_weight=0.7), double_task(drawings)
    weights, losses = start(method), []
    for support, labels, query, answers in zip(
        task.support, task.support_labels, task.query, task.query_labels, strict=True
    ):
        adapted = adapt(weights, support, labels, query, steps=1, how_much=0.7)
        own = F.cross_entropy(classifier(adapted, query)[0], answers)
        losses.append(own + 0.7 * term(adapted, support, query))
    loss = sum(losses) / 2
    expected = torch.autograd.grad(loss, list(weights.values()))
    assert method.learn(task).loss == pytest.approx(loss.item())
    torch.testing.assert_close(list(gradients(method).values()), list(expected), rtol=1e-6, atol=1e-10)


def test_in_testing_it_adapts_to_the_queries_too(dimensions, drawings):
    method, task = build(dimensions, transduction_weight=0.7).eval(), double_task(drawings, episodes=1)
    adapted = adapt(start(method), task.support[0], task.support_labels[0], task.query[0], steps=2, how_much=0.7)
    torch.testing.assert_close(method.score(task)[0], classifier(adapted, task.query[0])[0].detach())


@pytest.mark.parametrize("change", [{"vectorised": True}, {"first_order": True}])
def test_vectorised_it_learns_the_same_and_without_second_order_it_does_not(dimensions, drawings, change):
    task, method, changed = double_task(drawings), build(dimensions), build(dimensions, **change)
    assert method.learn(task).loss == pytest.approx(changed.learn(task).loss)
    alike = [
        torch.allclose(one, other, rtol=1e-6, atol=1e-10)
        for one, other in zip(gradients(method).values(), gradients(changed).values(), strict=True)
    ]
    assert all(alike) == ("vectorised" in change)


def test_without_weight_it_is_maml(dimensions, drawings):
    task, maml, method = double_task(drawings), build(dimensions, MAML), build(dimensions, transduction_weight=0.0)
    method.load_state_dict(maml.state_dict())
    assert torch.equal(method.score(task), maml.score(task))
    assert method.learn(task) == maml.learn(task)
    for name, gradient in gradients(maml).items():
        assert torch.equal(gradients(method)[name], gradient)


def test_the_term_matters_for_scores_and_gradients(dimensions, drawings):
    task, method, plain = double_task(drawings), build(dimensions), build(dimensions, transduction_weight=0.0)
    assert not torch.allclose(method.score(task), plain.score(task), rtol=1e-2)
    assert method.learn(task).loss > plain.learn(task).loss
    head = "network.head.weight"
    assert not torch.allclose(gradients(method)[head], gradients(plain)[head], rtol=1e-2)


def test_steps_on_the_task_matter(dimensions, drawings):
    method, task = build(dimensions).eval(), double_task(drawings)
    adapted = method.score(task)
    method.config = replace(method.config, test_steps=0)
    assert not torch.allclose(method.score(task), adapted, rtol=1e-2)


@pytest.mark.parametrize(
    "settings",
    [
        {"transduction_weight": -0.1},
        {"transduction_weight": float("inf")},
        {"transduction_weight": float("nan")},
        {"inner_steps": -1},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(MAMLTransductionConfig, settings)
