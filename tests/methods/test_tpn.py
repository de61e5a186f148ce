from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import draw_task, refuses_setting, sampler
from tests.propagation import reference
from tpn.episodes.task import as_task
from tpn.methods.tpn import TPN, TPNConfig

SETTING = {"way": 3, "shot": 2, "query": 4}


def build(dimensions, **config):
    torch.manual_seed(0)
    return TPN(TPNConfig(**config), dimensions)


def by_hand(method, task, k, alpha):
    """F* of the first episode from the feature maps on, in NumPy."""
    with torch.no_grad():
        maps = method.backbone(task.inputs[0])
        features, sigma = maps.flatten(1).double().numpy(), method.length_scale(maps).double().numpy()
    S = reference.normalise(reference.connect(reference.affinity(features, sigma), k))
    Y = np.zeros((len(S), task.way))
    Y[np.arange(task.n_support), task.support_labels[0]] = 1
    return reference.closed_form(S, Y, alpha)


@pytest.mark.parametrize(("loss_over", "first"), [("support+query", 0), ("query", 6)])
def test_the_whole_method_follows_the_paper(dimensions, drawings, loss_over, first):
    method = build(dimensions, loss_over=loss_over, k=7, alpha=0.9).train()
    task = draw_task(sampler(drawings, unlabelled=2, distractors=1, **SETTING), 1)
    method.initialise(task)
    method.eval()
    F = by_hand(method, task, k=7, alpha=0.9)
    loss, scores = method.loss(task)
    np.testing.assert_allclose(scores.detach()[0], F[6:18], rtol=1e-3, atol=1e-5)
    labels = np.concatenate([task.support_labels[0], task.query_labels[0]])
    assert loss.item() == pytest.approx(reference.loss(F[first:18], labels[first:]), rel=1e-4)


def test_length_scales_matter(dimensions, drawings):
    method = build(dimensions).train()
    task = draw_task(sampler(drawings, **SETTING), 1)
    method.initialise(task)
    maps = method.backbone(task.inputs[0])
    sigma = method.length_scale(maps)
    assert sigma.std() > 0
    torch.testing.assert_close(method.embed(task.inputs[0]) * sigma[:, None], maps.flatten(1))
    one_for_all = task.with_inputs((maps.flatten(1) / sigma.mean())[None])
    assert not torch.allclose(method.score(method.embedded(task)), method.score(one_for_all), rtol=1e-2)


def test_the_start_from_data_connects_neighbours_and_the_plain_one_does_not(dimensions, drawings):
    def typical_weight(initial_scale):
        method = build(dimensions, initial_scale=initial_scale).train()
        task = draw_task(sampler(drawings, way=3, shot=5, query=15), 1)
        method.initialise(task)
        W = method.graph(method.embedded(task))[0]
        return W.topk(20).values[:, 1:].median().item()

    assert 0.2 < typical_weight("from-data") < 0.6
    assert not 0.1 < typical_weight("plain") < 0.7


def test_many_iterations_score_as_the_closed_form_and_few_do_not(dimensions, drawings):
    method = build(dimensions, alpha=0.8).train()
    task = draw_task(sampler(drawings, **SETTING), 1)
    method.initialise(task)
    embedded = method.embedded(task)
    closed = method.score(embedded)
    for steps, equal in ((200, True), (1, False)):
        method.config = replace(method.config, solver="iterative", steps=steps)
        assert torch.allclose(method.score(embedded), closed, rtol=1e-3, atol=1e-4) == equal


def test_alpha_can_be_learned_inside_its_bounds(dimensions, drawings):
    method = build(dimensions, learn_alpha=True, alpha=0.7).train()
    assert method.alpha.item() == pytest.approx(0.7, rel=1e-4)
    method.learn(draw_task(sampler(drawings, **SETTING), 1))
    assert method.alpha_logit.grad.abs() > 0
    for extreme in (-1e4, 1e4):
        torch.nn.init.constant_(method.alpha_logit, extreme)
        assert 0 <= method.alpha.item() < 1
        learned = method.learn(draw_task(sampler(drawings, **SETTING), 1))
        assert np.isfinite(learned.loss)
    assert build(dimensions, learn_alpha=True, alpha=0.9999).alpha.item() < 1


def test_fewer_neighbours_and_mutual_ones_make_another_graph(dimensions, drawings):
    method = build(dimensions, k=4).eval()
    task = method.embedded(draw_task(sampler(drawings, **SETTING), 1))
    edges = (method.graph(task) > 0).sum().item()
    method.config = replace(method.config, mutual=True)
    assert (method.graph(task) > 0).sum().item() < edges


def test_unlabelled_images_take_part_in_the_propagation(dimensions, drawings):
    method = build(dimensions).train()
    drawn = sampler(drawings, unlabelled=4, **SETTING)
    method.initialise(draw_task(drawn, 1))
    method.eval()
    episode = drawn.draw()
    inputs = method.embed(drawings.load(episode.images))[None]
    known = episode.role != 2
    without = replace(episode, images=episode.images[known], labels=episode.labels[known], role=episode.role[known])
    with_them, alone = method.score(as_task([episode], inputs)), method.score(as_task([without], inputs[:, known]))
    assert with_them.shape == alone.shape
    assert not torch.allclose(with_them, alone)


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0.99999},
        {"alpha": 0.0},
        {"alpha": float("nan")},
        {"k": 0},
        {"steps": -1},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(TPNConfig, settings)
