from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.conftest import refuses_setting
from tests.methods import reference
from tests.methods.reference import double_task, gradients
from tpn.errors import TPNError
from tpn.methods.tadam import TADAM, TADAMConfig

BACKBONES = ["conv4-32", "resnet12-16"]


def build(dimensions, training=True, sizes=0.0, **config):
    """With conditions of some size, as after some training, and statistics of batch normalisation to go with it."""
    torch.manual_seed(0)
    method = TADAM(TADAMConfig(**{"backbone": "conv4-32", **config}), dimensions).double().train(training)
    with torch.no_grad():
        method.log_scale.fill_(-0.7)
        for part in method.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.weight.uniform_(0.5, 1.5)
                part.bias.normal_(std=0.2)
                part.running_mean.normal_(std=0.1)
                part.running_var.uniform_(0.5, 1.5)
        for name, weight in method.named_parameters():
            if name.endswith("_size"):
                weight.normal_(std=sizes) if sizes else weight.zero_()
    return method


def norm_names(network):
    return [name for name, part in network.named_modules() if isinstance(part, nn.BatchNorm2d)]


def look(network, images, films=None):
    """The features of images, layer by layer; what comes out of each batch normalisation is scaled and shifted."""

    def normalised(name, maps, padding=1):
        part = network.get_submodule(name)
        maps, norm = F.conv2d(maps, part.convolution.weight, padding=padding), part.norm
        if network.training:
            mean, variance = maps.mean((0, 2, 3)), maps.var((0, 2, 3), correction=0)
        else:
            mean, variance = norm.running_mean, norm.running_var
        maps = (maps - mean[:, None, None]) / (variance[:, None, None] + 1e-5).sqrt()
        maps = maps * norm.weight[:, None, None] + norm.bias[:, None, None]
        if films is None:
            return maps
        scale, shift = films[f"{name}.norm"]
        return maps * scale[:, None, None] + shift[:, None, None]

    maps = images
    for index in range(4):
        block = f"blocks.{index}"
        if "blocks.0.norm" in norm_names(network):
            maps = F.relu(normalised(block, maps))
        else:
            inner = F.leaky_relu(normalised(f"{block}.first", maps), 0.1)
            inner = F.leaky_relu(normalised(f"{block}.second", inner), 0.1)
            both = normalised(f"{block}.third", inner) + normalised(f"{block}.shortcut", maps, padding=0)
            maps = F.leaky_relu(both, 0.1)
        maps = F.max_pool2d(maps, 2, ceil_mode=index == 3)
    return maps.flatten(1)


def film(condition, of_task):
    """A scale and a shift for each channel."""

    def three_layers(part):
        hidden = F.relu(part.first.weight @ of_task + part.first.bias)
        hidden = F.relu(hidden + part.second.weight @ hidden + part.second.bias)
        return hidden + part.third.weight @ hidden + part.third.bias

    return (
        1 + condition.scale_size * three_layers(condition.scale),
        condition.shift_size * three_layers(condition.shift),
    )


def of_each_class(features, labels, way=3):
    return torch.stack([features[labels == label].mean(0) for label in range(way)])


def task_mean(method, first, labels):
    """The mean over the classes of each channel's mean."""
    channels = first.view(len(first), method.backbone.map_shape[0], -1).mean(2)
    return of_each_class(channels, labels).mean(0)


def by_hand(method, task):
    """The scores of the queries, and what the first look at the support showed."""
    scores, firsts = [], []
    for images, labels in zip(task.inputs, task.support_labels, strict=True):
        shots = len(labels)
        if method.config.conditioning:
            first = look(method.backbone, images[:shots])
            of_task = task_mean(method, first, labels)
            names = norm_names(method.backbone)
            films = {name: film(part, of_task) for name, part in zip(names, method.conditions, strict=True)}
            features = look(method.backbone, images, films)
        else:
            features = look(method.backbone, images)
            first = features[:shots]
        if length := method.config.feature_length:
            features = length * features / features.square().sum(1, keepdim=True).sqrt()
        centres = of_each_class(features[:shots], labels)
        queries = features[shots : shots + task.n_query]
        distances = (queries[:, None] - centres).square().sum(-1)
        scores.append(-method.log_scale.exp() * distances)
        firsts.append(first)
    return torch.stack(scores), torch.stack(firsts)


def cross_entropy(scores, labels):
    """The mean over all images."""
    rows = scores.flatten(0, 1)
    chosen = torch.stack([row[label] for row, label in zip(rows, labels.flatten(), strict=True)])
    return (rows.exp().sum(1).log() - chosen).mean()


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize(("training", "length"), [(True, 0.0), (False, 0.0), (True, 3.0)])
def test_the_task_scales_and_shifts_what_each_normalisation_gives(dimensions, drawings, backbone, training, length):
    method = build(dimensions, training, sizes=0.5, backbone=backbone, feature_length=length)
    task = double_task(drawings, unlabelled=1)
    expected, _ = by_hand(method, task)
    scores = method.score(task)
    torch.testing.assert_close(scores, expected, rtol=1e-7, atol=1e-9)
    plain = [look(method.backbone, images) for images in task.inputs]
    unconditioned = method.compare(task.with_inputs(torch.stack(plain)))
    assert not torch.allclose(scores, unconditioned, rtol=0.1)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_features_are_those_of_normalisations_that_are_hooked(dimensions, drawings, backbone):
    """In training, by hooks on the layers of the network itself."""
    method, task = build(dimensions, sizes=0.5, backbone=backbone), double_task(drawings, episodes=1)
    with torch.no_grad():
        scores, labels = method.score(task), task.support_labels[0]
        of_task = task_mean(method, method.backbone(task.support[0]), labels)
        called = []
        for name, part in zip(norm_names(method.backbone), method.conditions, strict=True):
            scale, shift = (each[:, None, None] for each in film(part, of_task))
            method.backbone.get_submodule(name).register_forward_hook(
                lambda _, __, out, scale=scale, shift=shift: called.append(1) or out * scale + shift
            )
        features = method.backbone(task.inputs[0]).flatten(1)
        assert len(called) == len(method.conditions)
    centres = reference.prototypes(features[:6].numpy(), labels.numpy(), 3)
    expected = np.exp(-0.7) * reference.prototype_scores(features[6:].numpy(), centres)
    np.testing.assert_allclose(scores[0], expected, rtol=1e-7)


def test_without_conditioning_it_is_prototypes_at_a_scale(dimensions, drawings):
    method, task = build(dimensions, conditioning=False), double_task(drawings, unlabelled=1)
    scores = method.score(task).detach()
    for episode in range(2):
        features = method.backbone(task.inputs[episode]).detach().flatten(1).numpy()
        centres = reference.prototypes(features[:6], task.support_labels[episode].numpy(), 3)
        expected = np.exp(-0.7) * reference.prototype_scores(features[6:18], centres)
        np.testing.assert_allclose(scores[episode], expected, rtol=1e-8)
    assert not hasattr(method, "conditions")


@pytest.mark.parametrize("backbone", BACKBONES)
def test_at_the_start_conditioning_changes_nothing_in_testing(dimensions, drawings, backbone):
    torch.manual_seed(0)
    method = TADAM(TADAMConfig(backbone=backbone), dimensions).double().eval()
    plain = TADAM(TADAMConfig(backbone=backbone, conditioning=False), dimensions).double().eval()
    plain.load_state_dict(method.state_dict(), strict=False)
    task = double_task(drawings)
    torch.testing.assert_close(method.score(task), plain.score(task), rtol=1e-10, atol=1e-12)
    assert method.log_scale == 0


def test_the_task_is_known_by_its_support_alone_in_testing(dimensions, drawings):
    method, task = build(dimensions, training=False, sizes=0.5), double_task(drawings)
    with torch.no_grad():
        features = method.embed_task(task)[0]
        other_queries, other_support = task.inputs.clone(), task.inputs.clone()
        other_queries[:, task.n_support + 1 :] = torch.rand_like(task.query[:, 1:])
        other_support[:, 0] = torch.rand_like(task.support[:, 0])
        same = method.embed_task(task.with_inputs(other_queries))[0]
        other = method.embed_task(task.with_inputs(other_support))[0]
    last = task.n_support + 1
    torch.testing.assert_close(same.inputs[:, :last], features.inputs[:, :last], rtol=1e-10, atol=1e-12)
    assert not torch.allclose(other.query, features.query, rtol=1e-2)


def falls(seen, episodes):
    """How many of twenty equal parts of the training are over."""
    return sum(seen * 20 >= part * episodes for part in range(1, 21))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ({}, 0),
        ({"episodes": 70, "auxiliary": 0.4}, 37),
        ({"auxiliary": 0.0, "conditioning_penalty": 2.0}, 5),
        ({"conditioning": False, "episodes": 30}, 15),
        ({"conditioning": False, "auxiliary": 0.0}, 15),
        ({"backbone": "resnet12-16", "episodes": 7}, 7),
    ],
)
def test_the_loss_and_its_gradient(dimensions, drawings, training, settings, seen):
    method = build(dimensions, training, sizes=0.3, **settings)
    method.seen += seen
    task = double_task(drawings, unlabelled=1)
    scores, first = by_hand(method, task)
    expected = cross_entropy(scores, task.query_labels)
    config = method.config
    if config.auxiliary:
        each = zip(task.classes, task.support_labels, strict=True)
        classes = torch.tensor([[of_label[label] for label in labels] for of_label, labels in each])
        of_classes = first @ method.head.weight.T + method.head.bias
        weight = config.auxiliary * 0.9 ** falls(seen, config.episodes)
        expected = expected + weight * cross_entropy(of_classes, classes)
    if config.conditioning:
        for condition in method.conditions:
            squares = condition.scale_size.square().sum() + condition.shift_size.square().sum()
            expected = expected + config.conditioning_penalty * squares
    names, weights = zip(*method.named_parameters(), strict=True)
    expected_gradients = dict(zip(names, torch.autograd.grad(expected, weights), strict=True))
    assert method.learn(task).loss == pytest.approx(expected.item(), rel=1e-7)
    torch.testing.assert_close(gradients(method), expected_gradients, rtol=1e-5, atol=1e-8)


def test_the_weight_of_base_class_training_falls_twenty_times(dimensions, drawings):
    """With a scale and conditions that do not depend on it, the loss shows the weight."""
    method = build(dimensions, training=False, episodes=100, conditioning=False)
    without = build(dimensions, training=False, episodes=100, conditioning=False, auxiliary=0.0)
    without.load_state_dict(method.state_dict(), strict=False)
    task = double_task(drawings, episodes=1)
    with torch.no_grad():
        episodic, losses = without.loss(task)[0], [method.loss(task)[0] for _ in range(102)]
    weights = torch.stack([loss - episodic for loss in losses])
    expected = [0.9 ** min(episode // 5, 20) for episode in range(101)]
    np.testing.assert_allclose(weights[:101] / weights[0], expected, rtol=1e-9)
    assert method.seen == 102


def test_every_episode_of_a_step_is_counted_and_remembered(dimensions, drawings):
    method = build(dimensions)
    method.learn(double_task(drawings, episodes=3))
    method.learn(double_task(drawings, episodes=2))
    again = build(dimensions)
    again.load_state_dict(method.state_dict())
    assert again.seen == 5
    method.eval().score(double_task(drawings))
    assert method.seen == 5


@pytest.mark.parametrize(
    "settings",
    [
        {"conditioning_penalty": -1.0},
        {"auxiliary": float("inf")},
        {"auxiliary": float("nan")},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(TADAMConfig, settings)


def test_a_backbone_without_batch_normalisation_cannot_be_conditioned(dimensions):
    features = replace(dimensions, channels=8, image_size=1)
    with pytest.raises(TPNError, match="batch normalisation"):
        TADAM(TADAMConfig(backbone="identity"), features)
    TADAM(TADAMConfig(backbone="identity", conditioning=False), features)
