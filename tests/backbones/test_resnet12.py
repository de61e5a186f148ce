import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tpn.backbones._blocks import DropBlock, NormalisedConvolution, ResidualBlock
from tpn.backbones._registry import build_backbone
from tpn.backbones.resnet12 import ResNet12
from tpn.errors import TPNError

WIDTHS = {
    "resnet12": (64, 128, 256, 512),
    "resnet12-wide": (64, 160, 320, 640),
    "resnet12-32": (32, 64, 128, 256),
    "resnet12-16": (16, 32, 64, 128),
}


def after_some_training(module):
    """Scales of both signs, shifts, and statistics of their own."""
    with torch.no_grad():
        for norm in module.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.weight.normal_().add_(0.5)
                norm.bias.normal_()
                norm.running_mean.normal_()
                norm.running_var.uniform_(0.5, 2)
    return module


def normalised(part, x, training):
    norm, padding = part.norm, part.convolution.kernel_size[0] // 2
    out = F.conv2d(x, part.convolution.weight, padding=padding)
    return F.batch_norm(out, norm.running_mean.clone(), norm.running_var.clone(), norm.weight, norm.bias, training)


def textbook_block(block, x, training, ceil_mode):
    """In the order of the papers: the sum of both ways, its activation, pooling."""
    out = F.leaky_relu(normalised(block.first, x, training), 0.1)
    out = F.leaky_relu(normalised(block.second, out, training), 0.1)
    out = normalised(block.third, out, training) + normalised(block.shortcut, x, training)
    return F.max_pool2d(F.leaky_relu(out, 0.1), 2, ceil_mode=ceil_mode)


def textbook(network, x, training):
    for index, block in enumerate(network.blocks):
        x = textbook_block(block, x, training, ceil_mode=index == 3)
    return x


def gradients_agree(got, expected, inputs):
    seed = torch.randn_like(expected)
    for mine, other in zip(
        torch.autograd.grad(got, inputs, seed), torch.autograd.grad(expected, inputs, seed), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("pool", ["down", "up"])
@pytest.mark.parametrize("training", [True, False])
def test_a_block_is_the_papers_block(pool, training):
    torch.manual_seed(0)
    block = after_some_training(ResidualBlock(3, 8, pool).double().train(training))
    x = torch.randn(4, 3, 9, 9, dtype=torch.double, requires_grad=True)
    expected = textbook_block(block, x, training, ceil_mode=pool == "up")
    got = block(x)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    gradients_agree(got, expected, [x, *block.parameters()])


@pytest.mark.parametrize("size", [28, 33])
@pytest.mark.parametrize("training", [True, False])
def test_the_network_is_four_such_blocks(size, training):
    torch.manual_seed(0)
    network = after_some_training(build_backbone("resnet12-16", 3, size).double().train(training))
    images = torch.rand(3, 3, size, size, dtype=torch.double)
    expected = textbook(network, images, training)
    got = network(images)
    torch.testing.assert_close(got, expected, rtol=1e-8, atol=1e-8)
    gradients_agree(got, expected, list(network.parameters()))


@pytest.mark.parametrize(("size", "padded", "left"), [(3, True, 6), (3, False, 4), (1, True, 6)])
@pytest.mark.parametrize("training", [True, False])
def test_normalisation_may_be_folded_into_the_convolution(size, padded, left, training):
    torch.manual_seed(0)
    part = after_some_training(NormalisedConvolution(2, 5, size, padded).double().train(training))
    norm, x = part.norm, torch.randn(3, 2, 6, 6, dtype=torch.double)
    out = F.conv2d(x, part.convolution.weight, padding=size // 2 if padded else 0)
    expected = F.batch_norm(out, norm.running_mean.clone(), norm.running_var.clone(), norm.weight, norm.bias, training)
    assert expected.shape == (3, 5, left, left)
    torch.testing.assert_close(part(x), expected, rtol=1e-9, atol=1e-9)
    assert part.convolution.bias is None


def test_training_gathers_statistics_and_testing_does_not():
    torch.manual_seed(0)
    part = NormalisedConvolution(1, 4)
    x = torch.rand(5, 1, 6, 6)
    out = F.conv2d(x, part.convolution.weight, padding=1)
    part.eval()(x)
    assert part.norm.num_batches_tracked == 0
    part.train()(x)
    torch.testing.assert_close(part.norm.running_mean, 0.1 * out.mean((0, 2, 3)))
    torch.testing.assert_close(part.norm.running_var, 0.9 + 0.1 * out.var((0, 2, 3)))


@pytest.mark.parametrize(("size", "map_size"), [(16, 1), (28, 2), (33, 2), (42, 3), (84, 5)])
@pytest.mark.parametrize("channels", [1, 3])
def test_maps_have_the_shape_that_is_announced(size, map_size, channels):
    network = build_backbone("resnet12-16", channels, size).eval()
    assert network.map_shape == (128, map_size, map_size)
    with torch.no_grad():
        assert network(torch.rand(2, channels, size, size)).shape == (2, *network.map_shape)


@pytest.mark.parametrize("name", sorted(WIDTHS))
def test_each_has_its_widths_and_twelve_convolutions_beside_the_shortcuts(name):
    network = build_backbone(name, 3, 16).eval()
    assert network.widths == WIDTHS[name]
    assert network.map_shape == (WIDTHS[name][-1], 1, 1)
    convolutions = [part for part in network.modules() if isinstance(part, nn.Conv2d)]
    sizes = [part.kernel_size for part in convolutions]
    assert sizes.count((3, 3)) == 12
    assert sizes.count((1, 1)) == 4
    assert len(sizes) == 16
    maps = torch.rand(1, 3, 16, 16)
    for block, width in zip(network.blocks, network.widths, strict=True):
        with torch.no_grad():
            maps = block(maps)
        assert maps.shape[1] == width


def test_a_signal_neither_dies_nor_explodes_in_a_new_network():
    torch.manual_seed(0)
    images = torch.rand(16, 3, 28, 28, requires_grad=True)
    maps = build_backbone("resnet12-16", 3, 28).train()(images)
    assert 0.1 < maps.std() < 10
    assert torch.autograd.grad(maps.square().mean(), images)[0].abs().max() > 0


def test_weights_are_kept_channels_last():
    network = build_backbone("resnet12-16", 3, 28)
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            assert part.weight.is_contiguous(memory_format=torch.channels_last)
    assert network(torch.rand(2, 3, 28, 28)).is_contiguous(memory_format=torch.channels_last)


def dropped(share, size, *shape, seed=0):
    torch.manual_seed(seed)
    return DropBlock(share, size).train()(torch.ones(shape))


def test_nothing_is_dropped_in_testing():
    maps = torch.rand(2, 3, 8, 8)
    assert DropBlock(0.5, 3).eval()(maps) is maps
    assert torch.equal(DropBlock(0.0, 3).train()(maps), maps)
    network, plain = (ResNet12(1, 28, WIDTHS["resnet12-16"], drop_block=share) for share in (0.3, 0.0))
    plain.load_state_dict(network.state_dict())
    images = torch.rand(2, 1, 28, 28)
    assert torch.equal(network.eval()(images), plain.eval()(images))
    assert not torch.equal(network.train()(images), plain.train()(images))


@pytest.mark.parametrize(("share", "size"), [(0.05, 1), (0.3, 1), (0.05, 3), (0.1, 5), (0.02, 5)])
def test_about_the_share_that_was_asked_for_is_dropped(share, size):
    """Squares may meet, so that it is a little less."""
    zeros = (dropped(share, size, 20, 20, 40, 40) == 0).float().mean().item()
    assert share * (1 - share) * 0.95 < zeros < share * 1.05


@pytest.mark.parametrize(("height", "size"), [(10, 5), (5, 3), (3, 2), (2, 1)])
def test_also_on_the_maps_that_images_of_84_and_28_pixels_have(height, size):
    zeros = (dropped(0.1, size, 100, 100, height, height) == 0).float().mean().item()
    assert 0.1 * 0.85 < zeros < 0.1 * 1.03


def test_also_in_mixed_precision():
    torch.manual_seed(0)
    out = DropBlock(0.02, 5).train()(torch.ones(100, 100, 10, 10, dtype=torch.bfloat16))
    assert 0.02 * 0.85 < (out == 0).float().mean().item() < 0.02 * 1.05


def test_what_is_dropped_is_squares():
    size, found = 3, 0
    for seed in range(5):
        zero = dropped(0.05, size, 2, 3, 12, 12, seed=seed) == 0
        for plane in zero.view(-1, 12, 12).numpy():
            covered = plane & False
            for top in range(10):
                for left in range(10):
                    window = (slice(top, top + size), slice(left, left + size))
                    if plane[window].all():
                        covered[window] = True
                        found += 1
            assert (covered == plane).all()
    assert found > 20


def test_each_map_of_each_image_has_squares_of_its_own():
    zero = dropped(0.2, 2, 4, 5, 8, 8) == 0
    planes = {tuple(plane.flatten().tolist()) for plane in zero.view(20, 8, 8)}
    assert len(planes) > 15


def test_what_is_left_is_scaled_up_so_that_the_mean_stays():
    out = dropped(0.2, 3, 10, 10, 12, 12)
    assert out.mean().item() == pytest.approx(1, rel=1e-5)
    assert out.unique().numel() == 2
    torch.manual_seed(1)
    maps = torch.randn(200, 50, 6, 6).square()
    assert DropBlock(0.2, 2).train()(maps).mean().item() == pytest.approx(maps.mean().item(), rel=0.01)


@pytest.mark.parametrize(
    "precision",
    [
        "float32",
        "bfloat16",
        "float16",
    ],
)
def test_in_every_precision_the_mean_stays(precision):
    """Also where there are more numbers than the largest that float16 knows."""
    torch.manual_seed(0)
    lowered, drop = getattr(torch, precision), DropBlock(0.1, 3).train()
    with torch.autocast("cpu", lowered, enabled=lowered != torch.float32):
        out = drop(torch.ones(64, 512, 5, 5, dtype=lowered))
    assert out.dtype == lowered
    assert out.float().mean().item() == pytest.approx(1, rel=0.01)


def test_maps_of_which_all_is_dropped_are_zero():
    torch.manual_seed(0)
    assert (DropBlock(0.99, 1).train()(torch.ones(1, 1, 1, 1)) == 0).all()


def test_what_is_dropped_has_no_gradient():
    torch.manual_seed(0)
    maps = torch.rand(2, 3, 8, 8).add_(1).requires_grad_()
    out = DropBlock(0.3, 3).train()(maps)
    gradient = torch.autograd.grad(out.sum(), maps)[0]
    assert torch.equal(gradient == 0, out == 0)
    torch.testing.assert_close(gradient * maps, out)


def test_the_same_seed_drops_the_same():
    first, again, other = (dropped(0.2, 3, 2, 3, 10, 10, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("size", "squares"), [(84, [5, 3]), (28, [2, 1]), (16, [1, 1]), (200, [5, 5])])
def test_the_last_two_blocks_drop_squares_of_half_a_map(size, squares):
    network = build_backbone("resnet12-16", 3, size, drop_block=0.1)
    drops = [block.drop for block in network.blocks]
    assert [isinstance(drop, DropBlock) for drop in drops] == [False, False, True, True]
    assert [drop.size for drop in drops[2:]] == squares
    assert all(drop.share == 0.1 for drop in drops[2:])
    plain = build_backbone("resnet12-16", 3, size)
    assert not any(isinstance(part, DropBlock) for part in plain.modules())


@pytest.mark.parametrize("backbone", ["conv4", "conv4-32", "conv4-maps"])
def test_other_backbones_know_no_drop_block(backbone):
    with pytest.raises(TPNError, match=f"drop_block is for resnet12.*, not for {backbone}"):
        build_backbone(backbone, 1, 28, drop_block=0.1)
