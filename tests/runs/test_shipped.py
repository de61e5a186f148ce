"""The weights that come with the package."""

from dataclasses import asdict

import torch

import tpn
from tests.images.making import as_files, make_images, write_folder
from tests.tiny import SETTING, flags, tiny
from tpn.cli import main
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.evaluation.protocol import evaluate
from tpn.paper.experiments import find_experiment
from tpn.runs.folder import Run, find_run
from tpn.runs.loading import load, weights_digest
from tpn.runs.shipped import SHIPPED

NAMES = sorted(folder.name for folder in SHIPPED.iterdir() if folder.is_dir())


def test_they_are_known_by_their_names_and_small():
    assert NAMES == ["mini-conv4", "mini-conv4-pretrained", "mini-resnet12", "mini-resnet12-pretrained"]
    for name in NAMES:
        files = {file.name: file.stat().st_size for file in (SHIPPED / name).iterdir()}
        assert files.keys() == {"config.json", "metrics.jsonl", "model.safetensors", "base_mean.safetensors"}
        assert files["model.safetensors"] < (1_100_000 if "conv4" in name else 4_000_000)


def test_they_say_what_they_were_trained_on():
    for name in NAMES:
        config = find_run(name).read_config()
        method = "classifier-baseline" if name.endswith("-pretrained") else "tpn"
        backbone = "conv4-linear" if "conv4" in name else "resnet12-16"
        trained_on = (config.data, config.image_size, config.train_classes)
        assert (config.method, *trained_on) == (method, "mini-imagenet", 84, 64)
        assert (config.episode.way, config.episode.shot, config.settings.backbone) == (5, 5, backbone)
        assert f"| `{name}` |" in (SHIPPED / "README.md").read_text()


def test_their_settings_are_those_of_their_recipes():
    for name in NAMES:
        [training] = find_experiment(name).trainings
        settings = asdict(find_run(name).read_config().settings)
        assert {key: settings[key] for key, _ in training.settings} == dict(training.settings)
    for name in ("mini-conv4", "mini-resnet12"):
        second, first = find_run(name).read_config(), f"{name}-pretrained"
        assert (second.init, second.init_weights) == (first, weights_digest(find_run(first)))


def test_they_are_a_method_ready_to_be_used():
    for name, width in (("mini-conv4", 1600), ("mini-resnet12", 3200)):
        method = tpn.load(name)
        assert method.embed(torch.rand(2, 3, 84, 84)).shape == (2, width)
        assert not method.training
    assert tpn.load("mini-conv4", "tpn-semi").info.name == "tpn-semi"


def test_every_command_that_reads_a_run_takes_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "photos", as_files(make_images(3)))
    own = ["--data", f"folder:{tmp_path / 'photos'}", "--cache", str(tmp_path / "cache")]
    assert main(["evaluate", "mini-conv4", *own, *flags(**SETTING | {"way": 2}, episodes=2)]) == 0
    assert "tpn on folder:" in capsys.readouterr().out
    assert main(["train", "tpn", "--init", "mini-conv4", *own, *tiny(way=2, episodes=1), "--out", "own"]) == 0
    assert Run("own").read_config().init == str((SHIPPED / "mini-conv4").resolve())
    assert not list(tmp_path.glob("mini*"))


def test_without_images_they_say_where_to_name_them(refused):
    assert "mini-imagenet:PATH" in refused("evaluate", "mini-conv4")


def test_a_folder_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_run("mini-conv4").folder == SHIPPED / "mini-conv4"
    (tmp_path / "mini-conv4").mkdir()
    assert find_run("mini-conv4").folder == SHIPPED / "mini-conv4"  # it is not a run
    (tmp_path / "mini-conv4" / "config.json").write_text("{}")
    assert find_run("mini-conv4").folder == Run("mini-conv4").folder
    for name in ("", ".", "..", "../weights/mini-conv4", "nothing"):
        assert find_run(name).folder.resolve() == Run(name).folder.resolve()


def test_they_do_on_miniimagenet_what_the_results_say(mini_imagenet):
    episodes = draw_episodes(mini_imagenet, Setting(5, 5), 30, seed=0)
    for name, least in (("mini-conv4", 0.57), ("mini-resnet12", 0.6)):
        assert evaluate(load(name), mini_imagenet, episodes).mean.value > least
