"""Batch normalisation for gradients of gradients, against PyTorch's own."""

import pytest
import torch
from torch import nn

from tpn.backbones.batch_norm import ElementaryBatchNorm, make_twice_differentiable


def both(**settings):
    """PyTorch's layer and ours, with the same weights."""
    torch.manual_seed(0)
    reference = nn.BatchNorm2d(3, track_running_stats=False, **settings).double()
    with torch.no_grad():
        reference.weight.normal_()
        reference.bias.normal_()
    ours = ElementaryBatchNorm(3, track_running_stats=False, **settings).double()
    ours.load_state_dict(reference.state_dict())
    return reference, ours


def derivatives(layer, maps):
    """The output, its gradient, and the gradient of the gradient's norm."""
    maps = maps.clone().requires_grad_()
    out = layer(maps)
    first = torch.autograd.grad((out.sin() * out).sum(), [maps, *layer.parameters()], create_graph=True)
    second = torch.autograd.grad(sum(each.square().sum() for each in first), [maps, *layer.parameters()])
    return out, *first, *second


@pytest.mark.parametrize("training", [True, False])
def test_first_and_second_derivatives_are_those_of_pytorch(training):
    reference, ours = both(eps=0.1)
    maps = torch.randn(4, 3, 5, 6, dtype=torch.float64) * 2 + 1
    found, expected = (derivatives(layer.train(training), maps) for layer in (ours, reference))
    torch.testing.assert_close(found, expected)


def test_mixed_precision_does_not_reach_the_statistics():
    _, ours = both()
    maps = torch.randn(8, 3, 9, 9) + 100  # bfloat16 has less than three digits
    plain = ours.float().train()(maps)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(ours(maps), plain)


def test_layers_are_replaced_at_any_depth():
    network = nn.Sequential(nn.Sequential(nn.Conv2d(1, 3, 1), nn.BatchNorm2d(3)), nn.BatchNorm2d(3))
    make_twice_differentiable(network)
    kinds = [type(layer) for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert kinds == [ElementaryBatchNorm] * 2
