"""What holds for every registered backbone, also for those that are added later, and for any nn.Module as one."""

import re
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from tpn.backbones import _registry as registry
from tpn.backbones._backbone import Backbone, ModuleBackbone
from tpn.backbones._pretrained import at_hand, is_pretrained
from tpn.backbones._registry import (
    backbone_name,
    build_backbone,
    check_backbone,
    find_backbone,
    list_backbones,
    register_backbone,
)
from tpn.errors import TPNError
from tpn.methods._method import Dimensions
from tpn.methods.protonet import ProtoNet

BUILT = [name for name in list_backbones() if not is_pretrained(name) or at_hand(name)]
"""Without those whose weights have to be fetched first; their own tests build them with random weights."""
OTHER_WIDTHS = {"conv4-32", "resnet12", "resnet12-wide", "resnet12-32"}
"""As conv4 and resnet12-16, with other numbers of filters: their maps are tested, and for the rest those two."""
EVERY = pytest.mark.parametrize("name", [name for name in BUILT if name not in OTHER_WIDTHS])
WITH_WEIGHTS = [name for name in BUILT if name not in {"identity", *OTHER_WIDTHS}]
SIZES = {"identity": 1} | {name: 40 for name in list_backbones() if name.startswith("efficientnet")}


def images_for(name, count=4, channels=1):
    torch.manual_seed(0)
    return torch.rand(count, channels, SIZES.get(name, 28), SIZES.get(name, 28))


def build(name, channels=1, **options):
    torch.manual_seed(1)
    return build_backbone(name, channels, SIZES.get(name, 28), **options)


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("channels", [1, 3])
def test_maps_have_the_shape_that_is_announced(name, channels):
    network, images = build(name, channels), images_for(name, 2, channels)
    with torch.no_grad():
        maps = network(images)
    assert maps.shape == (2, *network.map_shape)
    assert len(network.widths) == len(network.blocks)
    assert network.widths[-1] == network.map_shape[0]
    assert not network.gives_vectors or network.map_shape[1:] == (1, 1)


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_every_weight_learns_and_the_gradient_reaches_the_images(name):
    network, images = build(name).train(), images_for(name).requires_grad_()
    network(images).square().mean().backward()
    for key, parameter in network.named_parameters():
        assert parameter.requires_grad, key
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert parameter.grad.abs().max() > 0, key
    assert images.grad.abs().max() > 0


@EVERY
def test_loaded_from_its_state_it_embeds_the_same(name):
    one, images = build(name), images_for(name)
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
        one.train()(images)  # its statistics of batch normalisation, if it keeps such, change too
    other = build(name)
    other.load_state_dict(one.state_dict())
    with torch.no_grad():
        assert torch.equal(one.eval()(images), other.eval()(images))


@EVERY
def test_in_test_mode_images_do_not_influence_each_other(name):
    network, images = build(name).eval(), images_for(name)
    with torch.no_grad():
        alone = torch.cat([network(image[None]) for image in images])
        torch.testing.assert_close(network(images), alone, rtol=1e-4, atol=1e-5)


@EVERY
def test_images_are_normalised_by_the_training_data_or_by_itself(name):
    plain, normalised, images = build(name).eval(), build(name, mean=(0.3,), std=(0.5,)).eval(), images_for(name)
    normalised.load_state_dict(plain.state_dict())
    with torch.no_grad():
        expected = plain(images if plain.normalises_itself else (images - 0.3) / 0.5)
        torch.testing.assert_close(normalised(images), expected, rtol=1e-4, atol=1e-5)


@EVERY
def test_images_that_are_too_small_are_refused_before_anything_is_built(name):
    network = find_backbone(name)
    least = getattr(network.func if isinstance(network, partial) else network, "smallest_image", 1)
    build_backbone(name, 1, least)(torch.rand(2, 1, least, least))
    for size in {least - 1, 1} - {0, least}:
        with pytest.raises(TPNError, match=f"{name} needs images of at least {least}x{least} pixels, not {size}x"):
            check_backbone(name, image_size=size)


def test_an_unknown_name_is_met_with_the_known_ones():
    with pytest.raises(TPNError, match=r"'conv5'.*conv4.*package\.module:Name"):
        build_backbone("conv5", 1, 28)


# any nn.Module


class Vectors(nn.Module):
    """A network of a user's, with vectors and a batch normalisation of its own."""

    def __init__(self, in_channels, width=6):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(in_channels, width, 3, 2), nn.BatchNorm2d(width), nn.ReLU())

    def forward(self, images):
        return self.layers(images).mean((2, 3))


def maps_of(channels, image_size):
    assert image_size == 28
    return nn.Conv2d(channels, 5, 7, stride=7)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test registers is forgotten when it ends."""
    monkeypatch.setattr(registry, "_BACKBONES", dict(registry._BACKBONES))
    monkeypatch.setattr(registry, "_NAMED_BY_USER", {})
    monkeypatch.delenv(registry.TRUSTED, raising=False)


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (Vectors, (6, 1, 1)),
        (partial(Vectors, width=9), (9, 1, 1)),
        (Vectors(1, width=4), (4, 1, 1)),
        (maps_of, (5, 4, 4)),
        (lambda: nn.Flatten(), (784, 1, 1)),
    ],
)
def test_any_network_is_a_backbone(network, shape):
    built = build_backbone(backbone_name(network), 1, 28, (0.3,), (0.5,))
    assert isinstance(built, ModuleBackbone)
    assert built.map_shape == shape
    assert built.training
    images = torch.rand(3, 1, 28, 28)
    inner = built.blocks[0].module
    torch.testing.assert_close(
        built.eval()(images).flatten(1), inner.eval()((images - 0.3) / 0.5).flatten(1), rtol=1e-4, atol=1e-5
    )


def test_a_network_that_is_handed_over_is_copied_with_its_weights_and_left_as_it_is():
    handed = Vectors(1)
    before = {name: tensor.clone() for name, tensor in handed.state_dict().items()}
    one, other = (build_backbone(backbone_name(handed), 1, 28) for _ in range(2))
    one.train()(torch.rand(3, 1, 28, 28)).sum().backward()
    nn.init.zeros_(one.blocks[0].module.layers[0].weight)
    for name, tensor in handed.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert torch.equal(other.blocks[0].module.state_dict()[name], before[name])


def test_a_method_learns_and_predicts_with_it(drawings):
    method = ProtoNet(ProtoNet.Config(backbone=backbone_name(Vectors)), Dimensions(1, 28, 3, 2, 5))
    images = drawings.load(np.arange(6))
    assert method.fit(images, list("aabbcc")).predict(images).shape == (6,)
    assert isinstance(method.backbones[0], Backbone)


def test_registered_it_is_known_by_name_and_another_cannot_take_the_name():
    assert register_backbone("own")(Vectors) is Vectors
    assert "own" in list_backbones()
    assert build_backbone("own", 1, 28).map_shape == (6, 1, 1)
    assert backbone_name(Vectors) == "own"
    register_backbone("own", Vectors)  # a cell that is run again
    for name in ("own", "conv4"):
        with pytest.raises(TPNError, match=f"already a backbone called '{name}'"):
            register_backbone(name, maps_of)


@pytest.mark.parametrize(
    ("network", "complaint"),
    [
        (lambda: nn.Flatten(0), r"feature maps .*or vectors .* returned \(1568,\)"),
        (lambda: nn.Conv2d(4, 4, 3), "cannot embed images of 1 channel"),
        (lambda: 3, "must build an nn.Module, not int"),
        (lambda **options: nn.Linear(), "cannot be built"),
    ],
)
def test_what_is_not_a_backbone_is_refused(network, complaint):
    with pytest.raises(TPNError, match=complaint):
        build_backbone(backbone_name(network), 1, 28)


def test_installed_packages_offer_backbones_by_entry_points(monkeypatch):
    class Point:
        name = "offered"

        def load(self):
            return offered

    def entry_points(group, name="offered"):
        return [Point()] if (group, name) == ("tpn.backbones", "offered") else []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    offered = 3
    with pytest.raises(TPNError, match="not int"):
        build_backbone("offered", 1, 28)
    offered = Vectors
    assert "offered" in list_backbones()
    assert build_backbone("offered", 1, 28).map_shape == (6, 1, 1)


@pytest.fixture
def dangerous(tmp_path, monkeypatch):
    """The name of a network in a module that leaves a trace when it is imported."""
    (tmp_path / "dangerous.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'imported')!r}).touch()\n"
        "from torch import nn\n"
        "class Net(nn.Flatten): pass\n"
        "class Holder:\n    Net = Net\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "dangerous:Net"
    sys.modules.pop("dangerous", None)


def test_code_is_imported_if_the_user_names_it_and_otherwise_not(dangerous, tmp_path, monkeypatch):
    with pytest.raises(TPNError, match=re.escape(dangerous) + ".*backbone.*TPN_BACKBONES"):
        find_backbone(dangerous)
    assert not (tmp_path / "imported").exists()
    with monkeypatch.context() as patch:
        patch.setenv("TPN_BACKBONES", f"other:Net, {dangerous}")
        assert find_backbone(dangerous).__name__ == "Net"
    assert (tmp_path / "imported").exists()
    assert find_backbone(backbone_name("dangerous:Holder.Net")).__name__ == "Net"


@pytest.mark.parametrize("name", ["dangerous:Nothing", "no.such.module:Net", ":Net", "dangerous:"])
def test_code_that_is_not_there_is_named(dangerous, name):
    with pytest.raises(TPNError, match=f"{re.escape(name)} cannot be imported"):
        build_backbone(backbone_name(name), 1, 28)
