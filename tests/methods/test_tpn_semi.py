from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import refuses_setting
from tests.methods.reference import double_task
from tests.propagation import reference
from tpn.episodes.task import Task
from tpn.methods.tpn import TPN
from tpn.methods.tpn_semi import TPNSemi

GRAPH = {"backbone": "conv4-32", "k": 5, "alpha": 0.9}
UNLABELLED = {"unlabelled": 2, "distractors": 1}


def build(dimensions, task, kind=TPNSemi, **config):
    """A method that has seen some images, in test mode."""
    torch.manual_seed(0)
    method = kind(kind.Config(**GRAPH, **config), dimensions).double().train()
    for _ in range(10):
        method.embedded(task)
    method.initialise(task)
    return method.eval()


def by_hand(method, task, episode, query):
    """F* of the graph of support, one query and the unlabelled images, in this order."""
    nodes = [*range(6), 6 + query, *range(18, task.inputs.shape[1])]
    with torch.no_grad():
        maps = method.backbone(task.inputs[episode, nodes])
        sigma = method.length_scale(maps).numpy()
    S = reference.normalise(reference.connect(reference.affinity(maps.flatten(1).numpy(), sigma), 5))
    Y = np.zeros((len(nodes), 3))
    Y[np.arange(6), task.support_labels[episode]] = 1
    return reference.closed_form(S, Y, 0.9)


@pytest.mark.parametrize(("loss_over", "first"), [("support+query", 0), ("query", 6)])
def test_each_query_has_a_graph_of_its_own(dimensions, drawings, loss_over, first):
    task = double_task(drawings, **UNLABELLED)
    method = build(dimensions, task, loss_over=loss_over)
    F = np.array([[by_hand(method, task, episode, query) for query in range(12)] for episode in range(2)])
    loss, scores = method.loss(task)
    np.testing.assert_allclose(scores.detach(), F[:, :, 6], rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(method.score(method.embedded(task)), scores)
    of_support = np.mean([reference.loss(F[e, q, :6], task.support_labels[e]) for e in range(2) for q in range(12)])
    of_queries = np.mean([reference.loss(F[e, :, 6], task.query_labels[e]) for e in range(2)])
    expected = (6 * of_support + 12 * of_queries) / 18 if first == 0 else of_queries
    assert loss.item() == pytest.approx(expected)


def test_each_query_is_scored_as_by_tpn_when_it_is_the_only_one(dimensions, drawings):
    task = double_task(drawings, **UNLABELLED)
    method = build(dimensions, task)
    tpn = build(dimensions, task, TPN)
    tpn.load_state_dict(method.state_dict())
    scores = method.score(method.embedded(task))
    for query in range(12):
        images = torch.cat([task.support, task.query[:, query : query + 1], task.unlabelled], dim=1)
        alone = Task(images, task.support_labels, way=3, n_query=1)
        torch.testing.assert_close(scores[:, query], tpn.score(tpn.embedded(alone))[:, 0])
    assert not torch.allclose(scores, tpn.score(tpn.embedded(task)), rtol=1e-2)


def test_unlabelled_images_matter_and_other_queries_do_not(dimensions, drawings):
    task = double_task(drawings, **UNLABELLED)
    method = build(dimensions, task)
    embedded = method.embedded(task)
    scores = method.score(embedded)
    without = embedded.with_inputs(embedded.inputs[:, :18])
    assert not torch.allclose(method.score(without), scores, rtol=1e-2)
    others = embedded.inputs.clone()
    others[:, 7:18] = others[:, 7:18].flip(1) + 0.1
    torch.testing.assert_close(method.score(embedded.with_inputs(others))[:, 0], scores[:, 0])


def test_length_scales_matter(dimensions, drawings):
    task = double_task(drawings, **UNLABELLED)
    method = build(dimensions, task)
    method.length_scale.out.weight.data *= 20  # it starts with small ones
    scores = method.score(method.embedded(task))
    torch.nn.init.zeros_(method.length_scale.out.weight)
    assert not torch.allclose(method.score(method.embedded(task)), scores, rtol=1e-2)


def test_the_iterative_solver_and_mutual_neighbours_are_used_here_too(dimensions, drawings):
    task = double_task(drawings, **UNLABELLED)
    method = build(dimensions, task)
    embedded = method.embedded(task)
    closed = method.score(embedded)
    for changes, equal in (
        ({"solver": "iterative", "steps": 500}, True),
        ({"solver": "iterative", "steps": 1}, False),
        ({"mutual": True}, False),
    ):
        method.config = replace(method.config, **{"solver": "closed", "mutual": False, **changes})
        assert torch.allclose(method.score(embedded), closed, rtol=1e-6) == equal


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0.0},
        {"k": 0},
        {"steps": 0},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(TPNSemi.Config, settings)
