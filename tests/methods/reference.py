"""What the tests of several methods share: their rules written out as a reader of the papers would, in float64."""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from tests.conftest import draw_task, sampler

SETTING = {"way": 3, "shot": 2, "query": 4}


def double_task(split, episodes=2, **setting):
    """Episodes in float64, with a support that is not sorted by class."""
    task = draw_task(sampler(split, **{**SETTING, **setting}), episodes)
    order = torch.randperm(task.n_support, generator=torch.Generator().manual_seed(0))
    inputs = torch.cat([task.support[:, order], task.inputs[:, task.n_support :]], dim=1)
    return replace(task, inputs=inputs.double(), support_labels=task.support_labels[:, order])


def gradients(method):
    return {name: parameter.grad for name, parameter in method.named_parameters()}


def classifier(weights, images):
    """Scores and features of Conv-4 with a linear layer; batch normalisation with the batch at hand."""
    maps = images
    for block in range(4):
        convolution, scale, shift = (
            weights[f"backbone.blocks.{block}.{name}"] for name in ("convolution.weight", "norm.weight", "norm.bias")
        )
        maps = F.conv2d(maps, convolution, padding=1)
        mean, variance = maps.mean((0, 2, 3), keepdim=True), maps.var((0, 2, 3), correction=0, keepdim=True)
        maps = (maps - mean) / (variance + 1e-5).sqrt() * scale[:, None, None] + shift[:, None, None]
        maps = F.max_pool2d(F.relu(maps), 2, ceil_mode=block == 3)
    features = maps.flatten(1)
    return features @ weights["head.weight"].T + weights["head.bias"], features


def start(method):
    """A copy of the weights that a classifier starts from, to take gradients with."""
    return {name: weight.detach().clone().requires_grad_() for name, weight in method.network.named_parameters()}


def distance(one, other):
    """Squared and Euclidean."""
    return np.sum((one - other) ** 2)


def prototypes(support, labels, way):
    return np.stack([support[labels == label].mean(0) for label in range(way)])


def prototype_scores(queries, centres):
    return np.array([[-distance(query, centre) for centre in centres] for query in queries])


def median_distance(features):
    """The root of the mean squared difference of two nodes, in the median over all pairs of them."""
    pairs = [(i, j) for i in range(len(features)) for j in range(i)]
    return np.median([np.sqrt(np.mean((features[i] - features[j]) ** 2)) for i, j in pairs])
