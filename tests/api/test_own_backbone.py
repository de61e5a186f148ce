"""Any network: a module, what builds one, a registered name, an import path, or an installed package."""

import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

import tpn
from tests.api.conftest import TINY
from tests.processes import command, run
from tpn.cli import main

OWN = {name: value for name, value in TINY.items() if name != "backbone"}


class Maps(nn.Module):
    """A user's network that gives feature maps."""

    def __init__(self, channels, image_size):
        super().__init__()
        self.convolution = nn.Conv2d(channels, 8, 5, stride=image_size // 4)

    def forward(self, images):
        return self.convolution(images).relu()


def vectors(in_channels):
    """A user's network that gives vectors."""
    return nn.Sequential(nn.Flatten(), nn.Linear(in_channels * 28 * 28, 16), nn.ReLU())


@pytest.mark.parametrize(
    ("backbone", "method"),
    [(Maps, "tpn"), (vectors, "protonet"), (vectors(1), "tpn")],
    ids=["class", "function", "module"],
)
def test_train_resume_evaluate_and_load(backbone, method, tmp_path):
    whole = tpn.train(method, out=tmp_path / "whole", backbone=backbone, **OWN)
    tpn.train(method, out=tmp_path / "parts", backbone=backbone, **{**OWN, "episodes": 3})
    parts = tpn.train(
        method, out=tmp_path / "parts", resume=True, backbone=backbone, episodes=6, threads=1, progress=False
    )
    one, other = tpn.load(whole).state_dict(), tpn.load(parts).state_dict()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert 0 <= tpn.evaluate(whole, episodes=4, progress=False).accuracy <= 1
    assert tpn.load(whole)(torch.rand(2, 1, 28, 28)).ndim == 2


def test_a_module_starts_from_its_own_weights(tmp_path):
    mine = vectors(1)
    run = tpn.train("protonet", out=tmp_path, backbone=mine, **{**OWN, "lr": 1e-12})
    [loaded] = [tensor for name, tensor in tpn.load(run).state_dict().items() if name.endswith("1.weight")]
    torch.testing.assert_close(loaded, mine[1].weight, rtol=0, atol=1e-9)


def test_a_registered_name(tmp_path):
    tpn.register_backbone("my-maps", Maps)
    assert "my-maps" in tpn.list_backbones()
    run = tpn.train("protonet", out=tmp_path / "run", backbone="my-maps", **OWN)
    assert run.config.settings.backbone == "my-maps"
    assert tpn.evaluate(run, episodes=2, progress=False).method == "protonet"
    with pytest.raises(tpn.TPNError, match="already a backbone called 'conv4'"):
        tpn.register_backbone("conv4", Maps)


@pytest.mark.parametrize(
    ("backbone", "words"),
    [
        (lambda: nn.LSTM(28, 4), "cannot embed images"),
        (lambda: nn.Flatten(0), "must turn a batch of N images into"),
        (lambda channels, image_size, third: nn.Identity(), "cannot be built"),
        (lambda: 3, "must build an nn.Module"),
        (7, "A backbone is an nn.Module"),
        ("no-such", "Unknown backbone 'no-such'"),
        ("no.such.package:Net", "cannot be imported"),
    ],
)
def test_what_is_no_backbone_is_refused(backbone, words, tmp_path):
    with pytest.raises(tpn.TPNError, match=words):
        tpn.train("protonet", out=tmp_path / "run", backbone=backbone, **OWN)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "words"), [("relation-net", "compares feature maps"), ("tadam", "batch normalisation")]
)
def test_methods_say_what_they_need_of_a_backbone(method, words, tmp_path):
    with pytest.raises(tpn.TPNError, match=words):
        tpn.train(method, out=tmp_path / "run", backbone=vectors, **OWN)


PACKAGE = {
    "pyproject.toml": """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "tpn-extras-for-tests"
        version = "1.0"
        [project.entry-points."tpn.backbones"]
        tiny-net = "tpn_extras_for_tests:TinyNet"
        [project.entry-points."tpn.methods"]
        first-shot = "tpn_extras_for_tests:FirstShot"
        [tool.hatch.build.targets.wheel]
        include = ["tpn_extras_for_tests.py"]
        """,
    "tpn_extras_for_tests.py": '''
        import tpn
        from torch import nn

        class TinyNet(nn.Sequential):
            def __init__(self, channels, image_size):
                super().__init__(nn.Conv2d(channels, 4, 7, stride=7))

        class FirstShot(tpn.Method):
            """The class of the nearest first shot."""
            info = tpn.Info(name="first-shot", paper="nobody, 2026", transduction="no", head=True)

            def __init__(self, config, dimensions):
                super().__init__(config, dimensions)
                self.backbone = dimensions.build_backbone(config)

            def embed(self, images):
                return self.backbone(images).flatten(1)

            def score(self, task):
                first = task.support.unflatten(1, (task.way, -1))[:, :, 0]
                return -(task.query[:, :, None] - first[:, None]).square().sum(-1)
        ''',
}


def use_installed(site, out):
    """Train and test with what a package offers, in a process that finds it."""
    sys.path.insert(0, site)
    assert "tiny-net" in tpn.list_backbones()
    assert "first-shot" in tpn.list_methods()
    trained = tpn.train("first-shot", out=out, **OWN, backbone="tiny-net")
    print(tpn.evaluate(trained, episodes=2, progress=False).to_dict()["method"])
    return main(["methods"])


def test_backbones_and_methods_of_an_installed_package(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    for name, text in PACKAGE.items():
        (source / name).write_text(textwrap.dedent(text))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", str(site), str(source)], check=True, capture_output=True)
    done = run(use_installed, str(site), str(tmp_path / "run"))
    assert done.code == 0, done.error
    tested, *listed = done.out.splitlines()
    assert tested == "first-shot"
    assert any(line.startswith("first-shot") for line in listed), "tpn methods has it"
    without = run(command, ["evaluate", str(tmp_path / "run")])
    assert without.code == 2
    assert "first-shot" in without.error
    assert "not known here" in without.error


def test_a_method_of_ones_own(tmp_path):
    class Coin(tpn.Method):
        """Every class alike."""

        info = tpn.Info(name="coin", paper="nobody, 2026", transduction="no", head=True)

        def __init__(self, config, dimensions):
            super().__init__(config, dimensions)
            self.backbone = dimensions.build_backbone(config)

        def embed(self, images):
            return self.backbone(images).flatten(1)

        def score(self, task):
            return task.query.mean(-1, keepdim=True).expand(-1, -1, task.way) * torch.arange(task.way)

    tpn.register_method(Coin)
    run = tpn.train("coin", out=tmp_path / "run", **TINY)
    assert tpn.evaluate(run, episodes=2, progress=False).method == "coin"
    assert main(["evaluate", str(run.folder), "--episodes", "2"]) == 0
    with pytest.raises(tpn.TPNError, match="already a method called 'tpn'"):

        @tpn.register_method
        class Other(Coin):
            info = tpn.Info(name="tpn", paper="nobody, 2026", transduction="no")
