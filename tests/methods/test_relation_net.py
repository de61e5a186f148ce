from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.conftest import noise
from tests.methods.reference import double_task
from tpn.errors import TPNError
from tpn.methods.relation_net import RelationNet


def build(dimensions, images):
    """A method whose batch normalisation has seen images, and has weights other than one and zero."""
    torch.manual_seed(0)
    method = RelationNet(RelationNet.Config(), dimensions).double().train()
    for layer in method.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(layer.weight, 0.5, 2)
            torch.nn.init.uniform_(layer.bias, -0.5, 0.5)
    method.relation.out.weight.data *= 20  # relations all over the range, not near a half
    method.score(method.embedded(images))
    return method


def block(layer, maps, training, padded):
    """3x3 convolution, batch normalisation, ReLU, 2x2 max-pooling."""
    maps, norm = F.conv2d(maps, layer.convolution.weight, padding=1 if padded else 0), layer.norm
    statistics = (None, None) if training else (norm.running_mean, norm.running_var)
    maps = F.batch_norm(maps, *statistics, norm.weight, norm.bias, training=training)
    return F.max_pool2d(F.relu(maps), 2, ceil_mode=padded)


def by_hand(method, task, episode, training, padded=True, together=torch.sum, class_first=True):
    """The relation of every query to every class, from the maps of each pair set side by side on."""
    maps, labels = method.backbone(task.inputs[episode]), task.support_labels[episode]
    classes = [together(maps[:6][labels == label], dim=0) for label in range(3)]
    pairs = [(of_class, query) for query in maps[6:18] for of_class in classes]
    pairs = torch.stack([torch.cat(pair if class_first else pair[::-1]) for pair in pairs])
    relation = method.relation
    for layer in (relation.first, relation.second):
        pairs = block(layer, pairs, training, padded)
    hidden = F.relu(pairs.flatten(1) @ relation.hidden.weight.T + relation.hidden.bias)
    return torch.sigmoid(hidden @ relation.out.weight.T + relation.out.bias).view(12, 3)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("size", "map_size", "padded"), [(28, 7, True), (64, 14, False)])
def test_the_whole_method_follows_the_paper(dimensions, training, size, map_size, padded):
    task = double_task(noise(5, 10, size))
    method = build(replace(dimensions, image_size=size), task).train(training)
    assert method.embedded(task).inputs.shape[2:] == (64, map_size, map_size)
    expected = torch.stack([by_hand(method, task, episode, training, padded) for episode in range(2)])
    loss, scores = method.loss(task)
    torch.testing.assert_close(scores, expected)
    right = torch.zeros(2, 12, 3, dtype=torch.float64)
    for episode in range(2):
        for query, label in enumerate(task.query_labels[episode]):
            right[episode, query, label] = 1
    torch.testing.assert_close(loss, ((expected - right) ** 2).mean())


def test_gradients_are_those_of_maps_side_by_side(dimensions, drawings):
    task = double_task(drawings, episodes=1)
    method = build(dimensions, task)
    right = F.one_hot(task.query_labels[0], 3)
    loss = (by_hand(method, task, 0, training=True) - right).square().mean()
    expected = torch.autograd.grad(loss, list(method.parameters()))
    method.learn(task)
    for parameter, gradient in zip(method.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-6, atol=1e-12)


def test_on_large_images_maps_have_the_size_of_the_paper(dimensions):
    method = RelationNet(RelationNet.Config(), replace(dimensions, image_size=84, channels=3))
    assert method.backbone.map_shape == (64, 19, 19)
    assert method.relation.hidden.in_features == 64 * 3 * 3


@pytest.mark.parametrize("backbone", ["identity", "efficientnet-lite0"])
def test_a_backbone_without_maps_is_refused_but_not_one_whose_maps_of_small_images_are_small(dimensions, backbone):
    size = {"identity": 1, "efficientnet-lite0": 32}[backbone]
    with pytest.raises(TPNError, match=r"feature maps.*one vector per image"):
        RelationNet(RelationNet.Config(backbone=backbone), replace(dimensions, image_size=size))
    RelationNet(RelationNet.Config(backbone="conv4"), replace(dimensions, image_size=16))


@pytest.mark.parametrize("change", [{"together": torch.mean}, {"class_first": False}])
def test_the_maps_of_a_class_are_summed_and_come_first(dimensions, drawings, change):
    task = double_task(drawings, episodes=1)
    method = build(dimensions, task).eval()
    scores = method.score(method.embedded(task))[0]
    assert not torch.allclose(by_hand(method, task, 0, training=False, **change), scores, rtol=1e-2)


def test_the_relation_module_matters(dimensions, drawings):
    task = double_task(drawings, episodes=1)
    method = build(dimensions, task).eval()
    embedded = method.embedded(task)
    scores = method.score(embedded)
    for layer in method.relation.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            layer.reset_parameters()
    assert not torch.allclose(method.score(embedded), scores, rtol=1e-2)
