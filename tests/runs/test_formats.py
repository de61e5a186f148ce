"""Runs that earlier versions have written, and runs that name code outside tpn."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

import tpn
from tests.tiny import flags, tiny
from tpn.backbones import _registry as registry
from tpn.cli import main
from tpn.errors import TPNError
from tpn.runs.folder import Run
from tpn.runs.formats import FORMAT, READABLE
from tpn.runs.tensors import read_tensors, write_tensors

HERE = Path(__file__).parent
RELEASED = [4, 5]
"""Formats of earlier releases, each with a run that was written then."""


@pytest.fixture(params=RELEASED)
def old(request, tmp_path):
    """A copy of a run of an earlier format: 30 episodes of tpn on quickdraw, 3-way 2-shot."""
    return shutil.copytree(HERE / f"format-{request.param}", tmp_path / "old")


def accuracy(run, capsys):
    capsys.readouterr()
    assert main(["evaluate", str(run), *flags(episodes=20, threads=1), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "", "nothing to note about it"
    return json.loads(captured.out)["accuracy"]


def test_every_format_that_was_released_has_a_run_here():
    assert {*RELEASED, FORMAT} == set(READABLE)
    for version in RELEASED:
        assert json.loads((HERE / f"format-{version}" / "config.json").read_text())["format"] == version


def test_an_old_run_loads_and_tests_as_it_did_then(old, capsys):
    method = tpn.load(old)
    assert (method.info.name, method.config.backbone, method.dimensions.image_size) == ("tpn", "conv4-32", 16)
    assert accuracy(old, capsys) == pytest.approx(0.3444444444444444)


def test_an_old_run_is_resumed_as_it_would_have_been_and_becomes_a_new_one(old, capsys):
    weights = read_tensors(old / "checkpoint.safetensors")[1]["run"]
    assert main(["train", "tpn", *flags(out=old, resume=True, episodes=50, threads=1)]) == 0
    best = max(Run(old).read_metrics(), key=lambda line: line["val_accuracy"])
    assert (best["episode"], best["val_accuracy"]) == (50, pytest.approx(0.36666666666666664))
    config = json.loads((old / "config.json").read_text())
    assert config["format"] == FORMAT
    assert "pictures" not in config
    assert read_tensors(old / "checkpoint.safetensors")[1]["run"] == weights, "it is the same run"
    assert Run(old).read_config().settings.episodes == 50
    assert tpn.load(old).info.name == "tpn"
    assert accuracy(old, capsys) > 0
    assert main(["train", "tpn", *flags(out=old, resume=True, episodes=52, threads=1)]) == 0
    assert Run(old).read_metrics()[-1]["episode"] == 52


def test_old_settings_and_weights_are_still_held_together(old):
    config = json.loads((old / "config.json").read_text())
    (old / "config.json").write_text(json.dumps({**config, "seed": 99}))
    with pytest.raises(TPNError, match="belongs to another run"):
        tpn.load(old)


def test_the_weights_that_ship_load():
    assert tpn.load("mini-conv4").info.name == "tpn"


def test_the_old_names_of_snails_weights_are_understood(tmp_path):
    """Before format 5, its projection was called `embed`, also in the optimiser's state."""
    run = Run(tmp_path / "run")
    training = ["train", "snail", *tiny(backbone="conv4-32", image_size=16), "--out", str(run.folder)]
    assert main(training) == 0
    config = json.loads(run.config_file.read_text())
    expected, _ = read_tensors(run.model_file)
    for file in (run.model_file, run.checkpoint_file):
        tensors, facts = read_tensors(file)
        facts["optimised"] = [name.replace("projection.", "embed.", 1) for name in facts.get("optimised", [])]
        old = {name.replace("projection.", "embed.", 1): tensor for name, tensor in tensors.items()}
        assert old.keys() != tensors.keys()
        write_tensors(file, old, facts)
    config["pictures"] = config.pop("data_digest")
    del config["digest"]
    run.config_file.write_text(json.dumps({**config, "format": 4}))
    with pytest.raises(TPNError, match="belongs to another run"):
        tpn.load(run.folder)  # its digest was another then
    digest = Run(run.folder).read_config().digest
    for file in (run.model_file, run.checkpoint_file):
        tensors, facts = read_tensors(file)
        write_tensors(file, tensors, {**facts, "run": digest})
    loaded = tpn.load(run.folder).state_dict()
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in loaded.items())
    assert main(["train", "snail", *flags(out=run.folder, resume=True, episodes=6, threads=1)]) == 0
    assert Run(run.folder).read_metrics()[-1]["episode"] == 6


# code that a run names


NETWORK = """
import pathlib
from torch import nn

pathlib.Path(__file__).with_name("imported").touch()

class Net(nn.Sequential):
    def __init__(self, channels):
        super().__init__(nn.Conv2d(channels, 4, 5, stride=4), nn.BatchNorm2d(4), nn.ReLU())
"""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A run with a network from a module that leaves a trace when it is imported; nobody here has named it yet."""
    module = tmp_path / "their_networks.py"
    module.write_text(NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_NAMED_BY_USER", {})
    monkeypatch.delenv(registry.TRUSTED, raising=False)
    call = ["train", "protonet", *tiny(backbone="their_networks:Net"), "--out", str(tmp_path / "run")]
    assert main(call) == 0
    forget(monkeypatch)
    (tmp_path / "imported").unlink()
    yield tmp_path / "run"
    sys.modules.pop("their_networks", None)


def forget(monkeypatch):
    """As in another process: no network has been named or imported."""
    monkeypatch.setattr(registry, "_NAMED_BY_USER", {})
    sys.modules.pop("their_networks", None)


def imported(run):
    return (run.parent / "imported").exists()


def test_a_run_alone_does_not_make_tpn_import_code(stranger, refused):
    for command in (["evaluate", stranger], ["plot", stranger], ["train", "protonet", "--out", stranger, "--resume"]):
        error = refused(*command)
        assert "their_networks:Net" in error
        assert "TPN_BACKBONES" in error
        assert "damaged" not in error
    with pytest.raises(TPNError, match="their_networks:Net"):
        tpn.load(stranger)
    assert not imported(stranger)
    assert "their_networks" not in sys.modules


def test_a_run_that_starts_from_one_with_such_a_network_is_refused_too(stranger, refused, tmp_path):
    call = ["train", "protonet", *tiny(), "--init", stranger, "--out", tmp_path / "new"]
    assert "their_networks:Net" in refused(*call)
    assert not imported(stranger)
    assert not (tmp_path / "new").exists()


def test_code_that_the_user_names_is_imported(stranger, monkeypatch):
    by_argument = tpn.load(stranger, backbone="their_networks:Net").state_dict()
    assert imported(stranger)
    forget(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setenv("TPN_BACKBONES", "their_networks:Net")
        by_environment = tpn.load(stranger).state_dict()
    assert by_argument.keys() == by_environment.keys()
    assert all(torch.equal(tensor, by_environment[name]) for name, tensor in by_argument.items())
    forget(monkeypatch)
    evaluate = ["evaluate", str(stranger), *flags(episodes=2, threads=1)]
    assert main([*evaluate, "--backbone", "their_networks:Net"]) == 0
    forget(monkeypatch)
    resume = flags(out=stranger, resume=True, episodes=6, threads=1, backbone="their_networks:Net")
    assert main(["train", "protonet", *resume]) == 0
    assert Run(stranger).read_metrics()[-1]["episode"] == 6


def test_a_network_can_be_handed_over(stranger):
    from their_networks import Net

    assert tpn.load(stranger, backbone=Net).info.name == "protonet"
    with pytest.raises(TPNError, match="was trained with the backbone their_networks:Net, not with conv4"):
        tpn.load(stranger, backbone="conv4")


def test_a_name_that_is_not_registered_here_is_said_to_be_unknown(stranger, monkeypatch, refused):
    run = stranger.parent / "named"
    with monkeypatch.context() as patch:
        patch.setattr(registry, "_BACKBONES", {**registry._BACKBONES, "own-net": registry.find_backbone("conv4-32")})
        assert main(["train", "protonet", *tiny(backbone="own-net"), "--out", str(run)]) == 0
    error = refused("evaluate", run)
    assert "Unknown backbone 'own-net'" in error
    assert "damaged" not in error
