from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import refuses_setting
from tests.methods.reference import double_task, gradients
from tests.propagation.reference import loss as cross_entropy
from tpn.methods.ada_resnet import AdaResNet, AdaResNetConfig


def build(dimensions, **config):
    torch.manual_seed(0)
    settings = {"backbone": "conv4-32", "key_size": 8, "hidden": 6, **config}
    return AdaResNet(AdaResNetConfig(**settings), dimensions).double().eval()


def trained(method):
    """As after some training: other statistics of batch normalisation than at the start, and larger shifts."""
    with torch.no_grad():
        for part in method.backbone.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.running_mean.normal_(std=0.1)
                part.running_var.uniform_(0.02, 0.1)
        for part in (*getattr(method, "values", []), getattr(method, "output_value", torch.nn.Identity())):
            for weight in part.parameters():
                weight.mul_(3)
    return method


def small_network(network, inputs):
    """Two linear layers with a ReLU between them."""
    first, second = ((network[index].weight.detach().numpy(), network[index].bias.detach().numpy()) for index in (0, 2))
    return second[0] @ np.maximum(first[0] @ inputs + first[1], 0) + second[1]


def linear(layer, inputs):
    return layer.weight.detach().numpy() @ inputs + layer.bias.detach().numpy()


def through(block, maps):
    """One image's maps, through a block."""
    with torch.no_grad():
        return block(torch.from_numpy(maps)[None])[0].numpy()


def key(method, features):
    found = linear(method.key, features)
    return found / np.linalg.norm(found)


def classify_by_hand(method, support, labels, query):
    """The scores of one query, image by image and layer by layer."""
    blocks, way = list(method.backbone.blocks), method.dimensions.way
    shifted = range(max(0, len(blocks) - method.config.shifted_blocks), len(blocks))
    memory = []
    for image, label in zip(support, labels, strict=True):
        maps, activations = image, {}
        for index, block in enumerate(blocks):
            maps = through(block, maps)
            activations[index] = maps.mean((1, 2))
        scores = linear(method.head, maps.flatten())
        error = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum() - np.eye(way)[label]
        values = {
            index: small_network(value, np.concatenate([error, activations[index]]))
            for index, value in zip(shifted, method.values, strict=True)
        }
        memory.append((key(method, maps.flatten()), values, small_network(method.output_value, error)))

    maps = query
    for block in blocks:
        maps = through(block, maps)
    asked = key(method, maps.flatten())
    likeness = np.array([np.exp(method.sharpness.item() * asked @ of_image) for of_image, _, _ in memory])
    shares = likeness / likeness.sum()

    maps = query
    for index, block in enumerate(blocks):
        maps = through(block, maps)
        if index in shifted:
            for share, (_, values, _) in zip(shares, memory, strict=True):
                maps = maps + share * values[index][:, None, None]
    of_output = sum(share * value for share, (_, _, value) in zip(shares, memory, strict=True))
    return linear(method.head, maps.flatten()) + of_output


def by_hand(method, task):
    each = zip(task.support.numpy(), task.support_labels.numpy(), task.query.numpy(), strict=True)
    return np.array(
        [[classify_by_hand(method, support, labels, query) for query in queries] for support, labels, queries in each]
    )


@pytest.mark.parametrize("backbone", ["conv4", "resnet12-16"])
@pytest.mark.parametrize("blocks", [1, 2, 4, 9])
def test_queries_are_shifted_by_what_the_memory_says(dimensions, drawings, backbone, blocks):
    method = trained(build(dimensions, backbone=backbone, shifted_blocks=blocks))
    task = double_task(drawings, query=1, unlabelled=1)
    assert len(method.values) == min(blocks, 4)
    np.testing.assert_allclose(method.score(task).detach(), by_hand(method, task), rtol=1e-8, atol=1e-10)


def test_the_loss_is_the_cross_entropy_of_the_scores(dimensions, drawings):
    method = trained(build(dimensions))
    task = double_task(drawings, query=1)
    loss, scores = method.loss(task)
    expected = by_hand(method, task)
    np.testing.assert_allclose(scores.detach(), expected, rtol=1e-8)
    assert loss.item() == pytest.approx(cross_entropy(expected.reshape(6, 3), task.query_labels.flatten()))


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 9])
def test_each_number_of_shifted_blocks_gives_other_scores_up_to_all_of_them(dimensions, drawings, blocks):
    task = double_task(drawings, episodes=1)
    method, other = (
        trained(build(dimensions, shifted_blocks=count)).score(task).detach() for count in (blocks, blocks + 1)
    )
    assert torch.allclose(method, other, rtol=1e-3) == (blocks >= 4)


def test_images_are_normalised_once(dimensions, drawings):
    task = double_task(drawings)
    method = trained(build(replace(dimensions, mean=(0.3,), std=(0.5,))))
    plain = trained(build(dimensions))
    plain.load_state_dict(method.state_dict())
    normalised = replace(task, inputs=(task.inputs - 0.3) / 0.5)
    torch.testing.assert_close(method.score(task), plain.score(normalised), rtol=1e-5, atol=1e-6)


def test_without_shift_it_is_a_network_that_knows_nothing_of_the_support(dimensions, drawings):
    method, task = trained(build(dimensions, shift=False)), double_task(drawings)
    scores = method.score(task)
    for episode in range(2):
        for index, image in enumerate(task.query[episode]):
            maps = image.numpy()
            for block in method.backbone.blocks:
                maps = through(block, maps)
            expected = linear(method.head, maps.flatten())
            np.testing.assert_allclose(scores[episode, index].detach(), expected, rtol=1e-9, atol=1e-12)
    other_support = task.inputs.clone()
    other_support[:, : task.n_support] = torch.rand_like(task.support)
    assert torch.equal(method.score(replace(task, support_labels=2 - task.support_labels)), scores)
    torch.testing.assert_close(method.score(task.with_inputs(other_support)), scores, rtol=1e-12, atol=1e-12)
    assert {name.split(".")[0] for name, _ in method.named_parameters()} == {"backbone", "head"}


def test_with_shift_images_and_labels_of_the_support_matter(dimensions, drawings):
    method, task = trained(build(dimensions)), double_task(drawings)
    scores = method.score(task)
    other_support = task.inputs.clone()
    other_support[:, : task.n_support] = torch.rand_like(task.support)
    assert not torch.allclose(method.score(replace(task, support_labels=2 - task.support_labels)), scores, rtol=1e-2)
    assert not torch.allclose(method.score(task.with_inputs(other_support)), scores, rtol=1e-2)


def test_the_order_of_the_support_makes_no_difference(dimensions, drawings):
    method, task = trained(build(dimensions)), double_task(drawings)
    inputs = task.inputs.clone()
    inputs[:, : task.n_support] = task.support.flip(1)
    turned = replace(task, inputs=inputs, support_labels=task.support_labels.flip(1))
    torch.testing.assert_close(method.score(turned), method.score(task), rtol=1e-10, atol=1e-12)


def test_learning_reaches_every_part(dimensions, drawings):
    method = build(dimensions).train()
    method.learn(double_task(drawings))
    for name, gradient in gradients(method).items():
        assert gradient is not None, name
        assert gradient.abs().max() > 0, name
    assert {name.split(".")[0] for name in gradients(method)} == {
        "backbone",
        "head",
        "key",
        "sharpness",
        "values",
        "output_value",
    }


def test_the_gradient_is_that_of_the_loss(dimensions, drawings):
    """By finite differences, along a random direction in all weights."""
    method, task = trained(build(dimensions)), double_task(drawings)
    method.learn(task)
    torch.manual_seed(1)
    step = {name: 1e-9 * torch.randn_like(weight) for name, weight in method.named_parameters()}
    expected = sum((gradients(method)[name] * step[name]).sum() for name in step)
    losses = []
    for sign in (1, -2):
        with torch.no_grad():
            for name, weight in method.named_parameters():
                weight.add_(sign * step[name])
            losses.append(method.loss(task)[0])
    assert (losses[0] - losses[1]).item() / 2 == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"shifted_blocks": 0},
        {"key_size": 0},
        {"hidden": -3},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(AdaResNetConfig, settings)
