import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import refuses_setting
from tests.methods import reference
from tests.methods.reference import distance, double_task
from tests.propagation.reference import loss as cross_entropy
from tpn.methods.masked_soft_kmeans import MaskedSoftKMeans
from tpn.methods.protonet import ProtoNet
from tpn.methods.soft_kmeans import SoftKMeans
from tpn.methods.soft_kmeans_cluster import SoftKMeansCluster

RADIUS = 1.7
EVERY = pytest.mark.parametrize("kind", [SoftKMeans, SoftKMeansCluster, MaskedSoftKMeans])


def build(kind, dimensions, **config):
    torch.manual_seed(0)
    method = kind(kind.Config(backbone="conv4-32", **config), dimensions).double().train()
    if kind is SoftKMeansCluster:
        torch.nn.init.constant_(method.log_radius, math.log(RADIUS))
    return method


def soft_task(method, split):
    """Embedded episodes whose images are so near to each other that each belongs to all classes a little."""
    task = double_task(split, unlabelled=3, distractors=1)
    return task.with_inputs(method.embedded(task).inputs.detach() * 0.15)


def class_shares(method, node, centres, unlabelled):
    """Soft k-means: exp(-d²), normalised to one."""
    parts = [np.exp(-distance(node, centre)) for centre in centres]
    return np.array(parts) / sum(parts)


def shares_beside_a_cluster(method, node, centres, unlabelled):
    """One more cluster at the origin: N(d; r) of Ren et al., r = 1 for the classes."""
    radii, middles = [1, 1, 1, RADIUS], [*centres, np.zeros_like(node)]
    parts = [
        np.exp(-distance(node, middle) / radius**2 - np.log(2 * np.pi) / 2 - np.log(radius))
        for middle, radius in zip(middles, radii, strict=True)
    ]
    return np.array(parts[:3]) / sum(parts)


def masked_shares(method, node, centres, unlabelled):
    """Shares times a mask; what makes the mask comes from statistics of all relative distances to the class."""
    first, last = (
        (layer.weight.detach().numpy(), layer.bias.detach().numpy())
        for layer in (method.mask_network[0], method.mask_network[2])
    )
    mask = []
    for centre in centres:
        distances = np.array([distance(other, centre) for other in unlabelled])
        relative = distances / distances.mean()
        standard = (relative - relative.mean()) / relative.std()
        seen = [relative.min(), relative.max(), relative.var(), (standard**3).mean(), (standard**4).mean() - 3]
        threshold, steepness = np.exp(last[0] @ np.tanh(first[0] @ np.array(seen) + first[1]) + last[1])
        mask.append(1 / (1 + np.exp(steepness * (distance(node, centre) / distances.mean() - threshold))))
    return class_shares(method, node, centres, unlabelled) * np.array(mask)


SHARES = {SoftKMeans: class_shares, SoftKMeansCluster: shares_beside_a_cluster, MaskedSoftKMeans: masked_shares}


def by_hand(method, task, episode, refinements):
    support, labels = task.support[episode].numpy(), task.support_labels[episode].numpy()
    unlabelled = task.unlabelled[episode].numpy()
    centres = reference.prototypes(support, labels, 3)
    for _ in range(refinements):
        shares = np.array([SHARES[type(method)](method, node, centres, unlabelled) for node in unlabelled])
        centres = np.stack(
            [
                (support[labels == label].sum(0) + sum(s[label] * x for s, x in zip(shares, unlabelled, strict=True)))
                / ((labels == label).sum() + shares[:, label].sum())
                for label in range(3)
            ]
        )
    return reference.prototype_scores(task.query[episode].numpy(), centres)


@EVERY
@pytest.mark.parametrize("refinements", [1, 2])
def test_prototypes_are_refined_as_in_the_paper(kind, refinements, dimensions, drawings):
    method = build(kind, dimensions, refinements=refinements)
    task = soft_task(method, drawings)
    expected = np.stack([by_hand(method, task, episode, refinements) for episode in range(2)])
    np.testing.assert_allclose(method.score(task).detach(), expected, rtol=1e-8)


@EVERY
def test_the_loss_is_the_cross_entropy_of_the_queries(kind, dimensions, drawings):
    method = build(kind, dimensions)
    task = double_task(drawings, unlabelled=3, distractors=1)
    embedded = method.embedded(task)
    embedded = embedded.with_inputs(embedded.inputs.detach())
    expected = np.stack([by_hand(method, embedded, episode, 1) for episode in range(2)])
    loss, scores = method.loss(task)
    np.testing.assert_allclose(scores.detach(), expected, rtol=1e-6)
    assert loss.item() == pytest.approx(cross_entropy(expected.reshape(24, 3), task.query_labels.flatten()))


@EVERY
def test_without_refinement_or_without_unlabelled_images_it_is_a_prototypical_network(kind, dimensions, drawings):
    method, protonet = build(kind, dimensions), build(ProtoNet, dimensions)
    task = soft_task(method, drawings)
    alone = task.with_inputs(task.inputs[:, :18])
    plain = protonet.score(task)
    assert not torch.allclose(method.score(task), plain, rtol=1e-2)
    torch.testing.assert_close(method.score(alone), plain)
    method.config = replace(method.config, refinements=0)
    torch.testing.assert_close(method.score(task), plain)


def test_the_cluster_matters_and_without_a_radius_there_is_none(dimensions, drawings):
    method, plain = build(SoftKMeansCluster, dimensions), build(SoftKMeans, dimensions)
    task = soft_task(method, drawings)
    assert not torch.allclose(method.score(task), plain.score(task), rtol=1e-2)
    torch.nn.init.constant_(method.log_radius, -20)
    torch.testing.assert_close(method.score(task), plain.score(task))


def test_the_radius_is_learned(dimensions, drawings):
    method = build(SoftKMeansCluster, dimensions)
    method.score(soft_task(method, drawings)).log_softmax(-1)[..., 0].sum().backward()
    assert method.log_radius.grad.abs() > 0


def test_the_radius_starts_where_the_cluster_is_as_near_as_a_class(dimensions, drawings):
    method = build(SoftKMeansCluster, dimensions)
    task = double_task(drawings, unlabelled=8, distractors=2)
    method.initialise(task)
    embedded = method.embedded(task)
    share = method.soft_assignments(embedded.unlabelled, ProtoNet.prototypes(method, embedded)).sum(-1)
    assert 0.2 < (share > 0.5).double().mean() < 0.8
    method.learn(task)
    assert method.log_radius.grad.abs() > 1e-4


def test_the_mask_starts_steep_and_the_right_way_round(dimensions, drawings):
    method = build(MaskedSoftKMeans, dimensions)
    relative = torch.tensor([0.5, 1.0, 1.5, 1.0], dtype=torch.float64)[None, :, None].expand(1, 4, 3)
    mask = method.mask(relative)[0, :, 0]
    assert mask[0] > 0.6 > mask[1] > 0.4 > mask[2]


def test_the_mask_matters_and_an_open_one_leaves_soft_kmeans(dimensions, drawings):
    method, plain = build(MaskedSoftKMeans, dimensions), build(SoftKMeans, dimensions)
    task = soft_task(method, drawings)
    assert not torch.allclose(method.score(task), plain.score(task), rtol=1e-2)
    torch.nn.init.zeros_(method.mask_network[2].weight)
    method.mask_network[2].bias.data = torch.tensor([9.0, 1.0], dtype=torch.float64)  # of threshold and steepness, log
    torch.testing.assert_close(method.score(task), plain.score(task))


def test_a_closed_mask_leaves_a_prototypical_network(dimensions, drawings):
    method, protonet = build(MaskedSoftKMeans, dimensions), build(ProtoNet, dimensions)
    task = soft_task(method, drawings)
    torch.nn.init.zeros_(method.mask_network[2].weight)
    method.mask_network[2].bias.data = torch.tensor([-9.0, 9.0], dtype=torch.float64)
    torch.testing.assert_close(method.score(task), protonet.score(task))


@EVERY
def test_fewer_than_no_refinements_are_refused(kind):
    refuses_setting(kind.Config, {"refinements": -1})
