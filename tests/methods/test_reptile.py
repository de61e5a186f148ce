from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.conftest import refuses_setting
from tests.methods.reference import classifier, double_task, start
from tpn.methods.reptile import Reptile, ReptileConfig, mini_batches
from tpn.methods.reptile_bn import ReptileBN
from tpn.training.optimiser import build_optimiser

EVERY = pytest.mark.parametrize("kind", [Reptile, ReptileBN])


def build(dimensions, kind=Reptile, **config):
    torch.manual_seed(0)
    settings = {"inner_lr": 0.01, "inner_steps": 3, "inner_batch": 10, "test_steps": 3, **config}
    return kind(kind.Config(**settings), dimensions).double().train()


def fit(weights, images, labels, batches):
    """Adam without momentum on these batches, and the loss and the accuracy of each before its step."""
    seen, squares = [], {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for step, batch in enumerate(batches, start=1):
        scores = classifier(weights, images[batch])[0]
        loss = F.cross_entropy(scores, labels[batch])
        seen.append((loss.item(), (scores.argmax(-1) == labels[batch]).double().mean().item()))
        gradient = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
        fitted = {}
        for name, weight in weights.items():
            squares[name] = 0.999 * squares[name] + 0.001 * gradient[name] ** 2
            size = (squares[name] / (1 - 0.999**step)).sqrt()
            fitted[name] = (weight - 0.01 * gradient[name] / (size + 1e-8)).detach().requires_grad_()
        weights = fitted
    return weights, torch.tensor(seen).mean(0)


def fit_to_support(method, task, episode, steps=3):
    whole = [range(6)] * steps
    return fit(start(method), task.support[episode], task.support_labels[episode], whole)[0]


@EVERY
def test_a_step_takes_over_the_mean_of_the_weights_that_the_tasks_end_with(kind, dimensions, drawings):
    method, task = build(dimensions, kind), double_task(drawings, unlabelled=1)
    torch.manual_seed(1)
    fitted, seen = [], []
    for episode in range(2):
        order = torch.cat([torch.randperm(18), torch.randperm(18)])
        labels = torch.cat([task.support_labels[episode], task.query_labels[episode]])
        weights, own = fit(start(method), task.inputs[episode, :18], labels, order[:30].view(3, 10))
        fitted.append(weights)
        seen.append(own)
    torch.manual_seed(1)
    learned = method.learn(task)
    build_optimiser(method).step()
    for name, weight in method.network.named_parameters():
        torch.testing.assert_close(weight, (fitted[0][name] + fitted[1][name]) / 2, rtol=1e-7, atol=1e-8)
    assert (learned.loss, learned.accuracy) == pytest.approx(torch.stack(seen).mean(0).tolist())


def test_a_smaller_rate_goes_a_part_of_the_way(dimensions, drawings):
    task, ends = double_task(drawings), []
    for rate in (1.0, 0.25):
        method = build(dimensions, lr=rate)
        before = method.network.head.weight.detach().clone()
        torch.manual_seed(1)
        method.learn(task)
        build_optimiser(method).step()
        ends.append(method.network.head.weight - before)
    torch.testing.assert_close(ends[1], ends[0] / 4)


def test_in_testing_each_query_is_classified_with_the_support_only(dimensions, drawings):
    method, task = build(dimensions).eval(), double_task(drawings)
    scores = method.score(task)
    for episode in range(2):
        weights = fit_to_support(method, task, episode)
        for query, image in enumerate(task.query[episode]):
            with_support = torch.cat([task.support[episode], image[None]])
            expected = classifier(weights, with_support)[0][-1].detach()
            torch.testing.assert_close(scores[episode, query], expected, rtol=1e-6, atol=1e-7)


def test_with_bn_all_queries_are_classified_together(dimensions, drawings):
    method, task = build(dimensions, ReptileBN).eval(), double_task(drawings)
    scores = method.score(task)
    for episode in range(2):
        expected = classifier(fit_to_support(method, task, episode), task.query[episode])[0].detach()
        torch.testing.assert_close(scores[episode], expected, rtol=1e-6, atol=1e-7)


def test_bn_makes_other_scores_of_the_same_weights(dimensions, drawings):
    task, method, bn = double_task(drawings), build(dimensions), build(dimensions, ReptileBN)
    bn.load_state_dict(method.state_dict())
    assert not torch.allclose(bn.score(task), method.score(task), rtol=1e-2)


@EVERY
def test_steps_on_the_support_matter(kind, dimensions, drawings):
    method, task = build(dimensions, kind).eval(), double_task(drawings)
    adapted = method.score(task)
    method.config = replace(method.config, test_steps=0)
    assert not torch.allclose(method.score(task), adapted, rtol=1e-2)


def test_scoring_changes_neither_the_weights_nor_what_is_drawn_next(dimensions, drawings):
    method, task = build(dimensions, test_batch=4).eval(), double_task(drawings)
    before, generator = start(method), torch.get_rng_state()
    first = method.score(task)
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(torch.equal(weight, before[name]) for name, weight in method.network.named_parameters())
    assert torch.equal(method.score(task), first)


def test_batches_hold_every_image_before_any_comes_again():
    batches = mini_batches(6, steps=5, size=4)
    assert batches.shape == (5, 4)
    rounds = batches.flatten().split(6)
    assert [len(set(images.tolist())) for images in rounds] == [6, 6, 6, 2]
    assert mini_batches(6, steps=2, size=15).sort().values.tolist() == [[0, 1, 2, 3, 4, 5]] * 2
    assert mini_batches(6, steps=0, size=4).shape == (0, 4)


@pytest.mark.parametrize(
    "settings",
    [
        {"inner_lr": 0.0},
        {"inner_lr": float("nan")},
        {"inner_steps": 0},
        {"inner_batch": 0},
        {"test_steps": -1},
        {"test_batch": 0},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(ReptileConfig, settings)


@EVERY
def test_a_head_can_start_at_zero(kind, dimensions, drawings):
    method, task = build(dimensions, kind, zero_head=True, test_steps=0), double_task(drawings)
    assert not method.eval().score(task).any()
    assert build(dimensions, kind, test_steps=0).eval().score(task).any()
