import os
import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from benchmarks.memory import own_memory
from tests.conftest import draw_task, noise, refuses_setting, sampler
from tests.methods.reference import classifier, double_task, gradients, start
from tpn.methods import maml
from tpn.methods._method import Dimensions
from tpn.methods.maml import MAML, MAMLConfig
from tpn.training.optimiser import build_optimiser


def build(dimensions, **config):
    torch.manual_seed(0)
    settings = {"inner_lr": 0.1, "inner_steps": 1, "test_steps": 2, **config}
    return MAML(MAMLConfig(**settings), dimensions).double().train()


def adapt(weights, support, labels, steps, second_order=True):
    """Steps of gradient descent with rate 0.1; without second order, the result knows nothing of where it started."""
    for _ in range(steps):
        loss = F.cross_entropy(classifier(weights, support)[0], labels)
        gradient = torch.autograd.grad(loss, list(weights.values()), create_graph=second_order)
        weights = {name: weight - 0.1 * g for (name, weight), g in zip(weights.items(), gradient, strict=True)}
        if not second_order:
            weights = {name: weight.detach().requires_grad_() for name, weight in weights.items()}
    return weights


def outer_loss_and_gradient(method, task, steps, second_order):
    """The mean over the tasks of the loss after adapting, and the gradient of it at the start or, where the second
    order is left out, at the adapted weights."""
    losses, total = [], {}
    for support, labels, query, answers in zip(
        task.support, task.support_labels, task.query, task.query_labels, strict=True
    ):
        weights = start(method)
        adapted = adapt(weights, support, labels, steps, second_order)
        losses.append(F.cross_entropy(classifier(adapted, query)[0], answers))
        at = weights if second_order else adapted
        for name, gradient in zip(at, torch.autograd.grad(losses[-1], list(at.values())), strict=True):
            total[f"network.{name}"] = total.get(f"network.{name}", 0) + gradient / len(task.inputs)
    return sum(losses) / len(losses), total


@pytest.mark.parametrize("vectorised", [False, True])
@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
def test_the_gradient_of_a_meta_batch_goes_through_the_steps(dimensions, drawings, steps, first_order, vectorised):
    method = build(dimensions, inner_steps=steps, first_order=first_order, vectorised=vectorised)
    task = double_task(drawings)
    loss, expected = outer_loss_and_gradient(method, task, steps, second_order=not first_order)
    assert method.learn(task).loss == pytest.approx(loss.item())
    torch.testing.assert_close(gradients(method), expected, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("first_order", [False, True])
def test_a_large_task_whose_steps_are_computed_twice_learns_the_same(dimensions, drawings, monkeypatch, first_order):
    found = []
    for large in (10**9, 1):
        monkeypatch.setattr(maml, "LARGE_TASK", large)
        method = build(dimensions, inner_steps=3, first_order=first_order)
        found.append((method.learn(double_task(drawings)).loss, gradients(method)))
    (loss, expected), (same_loss, gradient) = found
    assert same_loss == loss
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


def test_a_head_that_starts_at_zero_becomes_the_class_means_in_its_first_step(dimensions, drawings):
    method, task = build(dimensions, zero_head=True, test_steps=1).eval(), double_task(drawings)
    for support, labels, query, scores in zip(
        task.support, task.support_labels, task.query, method.score(task), strict=True
    ):
        assert not classifier(start(method), query)[0].any()  # no class is preferred before the first step
        pull = (F.one_hot(labels).double() - 1 / 3) / len(labels)  # the gradient of cross-entropy at equal scores
        of_support, of_query = (classifier(start(method), images)[1] for images in (support, query))
        expected = 0.1 * (of_query @ of_support.T @ pull + pull.sum(0))
        torch.testing.assert_close(scores, expected, rtol=1e-6, atol=1e-8)


def test_second_order_matters(dimensions, drawings):
    task, found = double_task(drawings), []
    for first_order in (False, True):
        method = build(dimensions, first_order=first_order)
        found.append((method.learn(task).loss, gradients(method)["network.head.weight"]))
    (loss, full), (same_loss, without) = found
    assert loss == pytest.approx(same_loss)
    assert not torch.allclose(full, without, rtol=1e-2)


def test_in_testing_queries_are_classified_together_after_adapting_to_the_support(dimensions, drawings):
    method, task = build(dimensions, test_steps=2).eval(), double_task(drawings)
    for support, labels, query, scores in zip(
        task.support, task.support_labels, task.query, method.score(task), strict=True
    ):
        torch.testing.assert_close(scores, classifier(adapt(start(method), support, labels, steps=2), query)[0])


def test_steps_on_the_support_matter(dimensions, drawings):
    method, task = build(dimensions).eval(), double_task(drawings)
    adapted = method.score(task)
    method.config = replace(method.config, test_steps=0)
    plain = method.score(task)
    assert not torch.allclose(plain, adapted, rtol=1e-2)
    torch.testing.assert_close(plain[0], classifier(start(method), task.query[0])[0].detach())


def test_scoring_leaves_the_weights_as_they_are(dimensions, drawings):
    method = build(dimensions).eval()
    before = start(method)
    method.score(double_task(drawings))
    assert all(torch.equal(weight, before[name]) for name, weight in method.network.named_parameters())


def test_images_are_normalised_once(dimensions, drawings):
    task = double_task(drawings)
    method, plain = build(replace(dimensions, mean=(0.3,), std=(0.5,))), build(dimensions)
    normalised = replace(task, inputs=(task.inputs - 0.3) / 0.5)
    torch.testing.assert_close(method.score(task), plain.score(normalised), rtol=1e-4, atol=1e-5)
    assert method.learn(task).loss == pytest.approx(plain.learn(normalised).loss, rel=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"inner_lr": 0.0},
        {"inner_lr": 11.0},
        {"inner_lr": float("nan")},
        {"inner_steps": -1},
        {"test_steps": -1},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(MAMLConfig, settings)


@pytest.mark.skipif(sys.platform != "linux", reason="measured by /proc")
def test_memory_does_not_grow_with_time():
    method = MAML(MAMLConfig(inner_steps=2), Dimensions(1, 16, 3, 1, 50)).train()
    optimiser, drawn, taken = build_optimiser(method), sampler(noise(5, 10, 16), way=3, shot=1, query=2), []
    for step in range(70):
        optimiser.zero_grad()
        method.learn(draw_task(drawn, 2))
        optimiser.step()
        if step in (20, 69):
            taken.append(own_memory(os.getpid()))
    assert taken[1] - taken[0] < 10e3
