"""The fused step after a convolution equals PyTorch's own layers.

tests/training/test_device.py checks that it does so compiled too, in a process without the checks of types.
"""

import pytest
import torch
from torch import nn

from tpn.backbones import pooled_batch_norm
from tpn.backbones._blocks import ConvBlock
from tpn.backbones._registry import build_backbone


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    monkeypatch.setattr(pooled_batch_norm, "_compiled", lambda function: function)


def outcome(block: ConvBlock, images: torch.Tensor) -> list[torch.Tensor]:
    """The output, the gradients of everything, and the running statistics, after one pass from the same state."""
    block.zero_grad()
    block.norm.reset_running_stats()
    images = images.clone().requires_grad_()
    out = block(images)
    (out * torch.linspace(-1, 1, out.numel()).to(out).view(out.shape)).sum().backward()
    norm = block.norm
    statistics = [norm.running_mean.clone(), norm.running_var.clone(), norm.num_batches_tracked.clone()]
    return [out.detach(), images.grad, *(parameter.grad.clone() for parameter in block.parameters()), *statistics]


@pytest.mark.parametrize("size", [2, 8, 9])
@pytest.mark.parametrize("relu", [True, False])
def test_it_equals_batch_norm_pooling_and_relu(size, relu):
    torch.manual_seed(size)
    block = ConvBlock(3, 8, relu=relu).double().train()
    nn.init.normal_(block.norm.bias)
    nn.init.normal_(block.norm.weight)
    assert (block.norm.weight < 0).any()
    assert (block.norm.weight > 0).any()
    images = torch.randn(5, 3, size, size).double()
    images[:2] = 0.5  # constant images: all values of most windows are equal
    expected = outcome(block, images)
    assert block.fuse()
    for found, wanted in zip(outcome(block, images), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3).double()
    nn.init.normal_(norm.weight)
    maps = torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda maps: pooled_batch_norm.pooled_batch_norm(maps, norm, True), maps)


@pytest.mark.parametrize("size", [(5, 4), (4, 4)])
@pytest.mark.parametrize("relu", [True, False])
def test_gradients_of_gradients_are_those_of_finite_differences(size, relu):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3, track_running_stats=False).double()
    weight, bias = torch.randn(2, 3, dtype=torch.float64)
    maps = torch.randn(2, 3, *size, dtype=torch.float64)

    def fused(*tensors):
        maps, norm_weight, norm_bias = tensors
        return torch.func.functional_call(
            Fused(norm, relu), {"norm.weight": norm_weight, "norm.bias": norm_bias}, (maps,)
        )

    assert torch.autograd.gradgradcheck(fused, tuple(each.requires_grad_() for each in (maps, weight, bias)))


class Fused(nn.Module):
    """The fused step as a module."""

    def __init__(self, norm: nn.BatchNorm2d, relu: bool) -> None:
        super().__init__()
        self.norm, self.relu = norm, relu

    def forward(self, maps):
        return pooled_batch_norm.pooled_batch_norm(maps, self.norm, self.relu)


@pytest.mark.parametrize("size", [8, 9])
def test_half_precision_is_that_of_the_maps_only(size):
    """What is computed from maps in bfloat16 equals the same from their values in double precision, rounded once."""
    torch.manual_seed(size)
    exact, norm = nn.BatchNorm2d(4).double(), nn.BatchNorm2d(4)
    nn.init.normal_(norm.weight)
    exact.load_state_dict(norm.state_dict())
    maps = torch.randn(6, 4, size, size).bfloat16().requires_grad_()
    precise = maps.detach().double().requires_grad_()
    found = pooled_batch_norm.pooled_batch_norm(maps, norm, True)
    expected = nn.functional.max_pool2d(exact(precise), 2).relu()
    weights = torch.randn_like(expected).bfloat16()
    (found * weights).sum().backward()
    (expected * weights.double()).sum().backward()
    assert found.dtype == maps.grad.dtype == torch.bfloat16
    rounding = torch.finfo(torch.bfloat16).eps
    torch.testing.assert_close(found.double(), expected, rtol=rounding, atol=1e-5)
    torch.testing.assert_close(maps.grad.double(), precise.grad, rtol=rounding, atol=1e-4)
    torch.testing.assert_close(norm.weight.grad.double(), exact.weight.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(norm.running_var.double(), exact.running_var)


def test_without_running_statistics_it_is_fused_in_tests_too():
    torch.manual_seed(0)
    block = ConvBlock(3, 8).double().eval()
    block.norm.track_running_stats = False
    block.norm.running_mean = block.norm.running_var = block.norm.num_batches_tracked = None
    images = torch.randn(5, 3, 8, 8).double()
    expected = block(images)
    assert block.fuse()
    torch.testing.assert_close(block(images), expected)
    assert block(images).grad_fn.name() == "_PooledBatchNormBackward"


def test_large_means_lose_no_digits():
    torch.manual_seed(0)
    maps, norm = torch.randn(20, 4, 16, 16) + 1000, nn.BatchNorm2d(4)
    fused = pooled_batch_norm.pooled_batch_norm(maps, norm, relu=False)
    exact = nn.functional.max_pool2d(nn.BatchNorm2d(4).double()(maps.double()), 2)
    torch.testing.assert_close(fused.double(), exact, rtol=1e-3, atol=1e-3)


def test_a_block_that_pools_beyond_its_edge_keeps_pytorchs_layers():
    torch.manual_seed(0)
    block = ConvBlock(2, 4, pool="up").double().train()
    images = torch.randn(3, 2, 5, 5).double()
    expected = outcome(block, images)
    assert block.fuse()
    for found, wanted in zip(outcome(block, images), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    assert not ConvBlock(2, 4, pool="none").fuse()


def test_in_training_smaller_images_give_maps_of_the_usual_shape():
    backbone = build_backbone("conv4", 3, 84)
    assert backbone.train()(torch.rand(2, 3, 42, 42)).shape[1:] == backbone.map_shape
    assert backbone.eval()(torch.rand(2, 3, 84, 84)).shape[1:] == backbone.map_shape


def test_without_its_last_relu_a_conv4_has_negative_features():
    torch.manual_seed(0)
    images = torch.rand(4, 3, 28, 28)
    assert build_backbone("conv4-linear", 3, 28)(images).min() < 0
    assert build_backbone("conv4", 3, 28)(images).min() >= 0
