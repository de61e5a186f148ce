from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.conftest import refuses_setting
from tests.methods.reference import double_task, median_distance
from tests.propagation import reference
from tpn.methods.label_propagation import LabelPropagation, LabelPropagationConfig
from tpn.methods.tpn import TPN

GRAPH = {"backbone": "conv4-32", "k": 7, "alpha": 0.9}


def build(dimensions, kind=LabelPropagation, **config):
    torch.manual_seed(0)
    return kind(kind.Config(**GRAPH, **config), dimensions).double().train()


def by_hand(method, task, episode, sigma):
    """F* of an episode; a number for σ, or a function that finds it from the features."""
    features = method.backbone(task.inputs[episode]).detach().flatten(1).numpy()
    W = reference.affinity(features, sigma(features) if callable(sigma) else sigma)
    S = reference.normalise(reference.connect(W, 7))
    Y = np.zeros((len(S), 3))
    Y[np.arange(6), task.support_labels[episode]] = 1
    return reference.closed_form(S, Y, 0.9)


@pytest.mark.parametrize(("sigma", "expected_sigma"), [(0.3, 0.3), (0.8, 0.8), ("median", median_distance)])
@pytest.mark.parametrize(("loss_over", "first"), [("support+query", 0), ("query", 6)])
def test_the_whole_method_follows_the_paper(dimensions, drawings, sigma, expected_sigma, loss_over, first):
    method = build(dimensions, sigma=sigma, loss_over=loss_over)
    task = double_task(drawings, unlabelled=1, distractors=1)  # 22 images: an odd number of pairs
    F = np.stack([by_hand(method, task, episode, expected_sigma) for episode in range(2)])
    loss, scores = method.loss(task)
    np.testing.assert_allclose(scores.detach(), F[:, 6:18], rtol=1e-7, atol=1e-12)
    labels = torch.cat([task.support_labels, task.query_labels], dim=1)[:, first:]
    assert loss.item() == pytest.approx(reference.loss(F[:, first:18].reshape(-1, 3), labels.flatten()))


def test_the_median_heuristic_takes_away_the_size_of_features_and_a_number_does_not(dimensions, drawings):
    method = build(dimensions, sigma="median")
    task = method.embedded(double_task(drawings))
    larger = task.with_inputs(3 * task.inputs)
    torch.testing.assert_close(method.score(larger), method.score(task))
    method.config = replace(method.config, sigma=0.3)
    assert not torch.allclose(method.score(larger), method.score(task), rtol=1e-2)


def test_it_is_tpn_without_length_scales(dimensions, drawings):
    method, tpn = build(dimensions, sigma=0.3), build(dimensions, TPN)
    tpn.backbone.load_state_dict(method.backbone.state_dict())
    task = double_task(drawings)
    tpn.initialise(task)
    scores = method.score(method.embedded(task))
    assert not torch.allclose(tpn.score(tpn.embedded(task)), scores, rtol=1e-2)
    torch.nn.init.zeros_(tpn.length_scale.out.weight)
    torch.nn.init.constant_(tpn.length_scale.out.bias, 0.3)
    torch.testing.assert_close(tpn.score(tpn.embedded(task)), scores)


@pytest.mark.parametrize("sigma", [0.3, "median"])
def test_the_backbone_learns_through_the_propagation(dimensions, drawings, sigma):
    method = build(dimensions, sigma=sigma)
    method.learn(double_task(drawings))
    assert all(parameter.grad.abs().max() > 0 for parameter in method.parameters())


@pytest.mark.parametrize(
    "settings",
    [
        {"sigma": 0.0},
        {"sigma": -1.0},
        {"sigma": float("inf")},
        {"sigma": float("nan")},
        {"alpha": 1.0},
        {"k": 0},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(LabelPropagationConfig, settings)


def test_the_gradient_goes_through_the_median(dimensions, drawings):
    """Scaling all features changes nothing, so the loss has no slope in that direction."""
    method = build(dimensions, sigma="median")
    task = double_task(drawings, episodes=1)
    features = method.embedded(task).inputs.detach().requires_grad_()
    spread = method.propagate(task.with_inputs(features))
    F.cross_entropy(spread[0, : task.n_support], task.support_labels[0]).backward()
    assert features.grad.norm() > 1e-6
    assert (features.grad * features).sum().abs() < 1e-9 * features.grad.norm() * features.norm()


def test_unit_features_make_the_graph_a_matter_of_angles(dimensions, drawings):
    method = build(dimensions, unit_features=True)
    images = double_task(drawings).inputs[0]
    features = method.backbone(images).detach().flatten(1).numpy()
    expected = features / np.linalg.norm(features, axis=1)[:, None] * np.sqrt(features.shape[1])
    np.testing.assert_allclose(method.embed(images).detach(), expected, rtol=1e-9)
