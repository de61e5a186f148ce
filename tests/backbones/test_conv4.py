import pytest
import torch
import torch.nn.functional as F

from tpn.backbones._blocks import ConvBlock
from tpn.backbones._registry import build_backbone
from tpn.backbones.batch_norm import batch_statistics
from tpn.backbones.conv4 import Conv4


@pytest.mark.parametrize(
    ("size", "channels", "map_size"), [(16, 1, 1), (17, 3, 1), (28, 1, 2), (31, 3, 2), (42, 3, 3), (84, 3, 5)]
)
def test_maps_have_the_shape_that_is_announced(size, channels, map_size):
    network = build_backbone("conv4", channels, size)
    assert network.map_shape == (64, map_size, map_size)
    assert network(torch.rand(2, channels, size, size)).shape == (2, *network.map_shape)


def textbook(block: ConvBlock, x: torch.Tensor, training: bool) -> torch.Tensor:
    """The block in the order of the paper: convolution, batch norm, ReLU, pooling."""
    norm = block.norm
    out = F.conv2d(x, block.convolution.weight, padding=1)
    out = F.batch_norm(out, norm.running_mean.clone(), norm.running_var.clone(), norm.weight, norm.bias, training)
    return F.max_pool2d(F.relu(out), 2, ceil_mode=block.pool == "up")


@pytest.mark.parametrize("pool", ["down", "up"])
@pytest.mark.parametrize("training", [True, False])
def test_a_block_is_the_papers_block(pool, training):
    torch.manual_seed(0)
    block = ConvBlock(3, 8, pool).double().train(training)
    with torch.no_grad():  # as after some training: scales of both signs, statistics of their own
        for tensor in (block.norm.weight, block.norm.bias, block.norm.running_mean):
            tensor.normal_()
        block.norm.running_var.uniform_(0.5, 2)
    x = torch.randn(4, 3, 9, 9, dtype=torch.double, requires_grad=True)
    expected = textbook(block, x, training)
    got = block(x)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    seed = torch.randn_like(expected)
    parameters = [x, *block.parameters()]
    for mine, other in zip(
        torch.autograd.grad(got, parameters, seed), torch.autograd.grad(expected, parameters, seed), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)


def test_pools_that_round_up_start_at_the_edge():
    x = torch.arange(25.0).view(1, 1, 5, 5)
    pooled = F.max_pool2d(x, 2, ceil_mode=True)[0, 0]
    assert pooled.tolist() == [[6, 8, 9], [16, 18, 19], [21, 23, 24]]
    assert ConvBlock(1, 1, "up").output_size(5) == 3
    assert F.max_pool2d(torch.ones(1, 1, 1, 1), 2, ceil_mode=True).shape == (1, 1, 1, 1)


def test_batch_statistics_are_used_only_inside_and_leave_no_trace():
    network = Conv4(1, 28).eval()
    images = torch.rand(10, 1, 28, 28)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    alone = network(images[:5])
    torch.testing.assert_close(network(images)[:5], alone)
    with batch_statistics(network):
        assert not torch.allclose(network(images)[:5], network(images[:5]))
        torch.testing.assert_close(network(images), in_training(network, images))
    torch.testing.assert_close(network(images)[:5], alone)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert not network.blocks[0].norm.training


def in_training(network: Conv4, images: torch.Tensor) -> torch.Tensor:
    copy = Conv4(1, 28).train()
    copy.load_state_dict(network.state_dict())
    return copy(images)
