"""Progressive image size."""

import signal

import numpy as np
import pytest
import torch

import tpn
from tests.tiny import tiny
from tests.training.making import make_steps, training_of
from tpn.images.augmentation import shrink
from tpn.methods._config import Config
from tpn.runs.tensors import read_tensors
from tpn.training.image_sizes import image_size_at, statistics_refreshed


def test_each_size_has_its_share_of_the_episodes():
    config = Config(episodes=10, sizes=(20, 24, 28), size_shares=(0.5, 0.3, 0.2))
    sizes = [image_size_at(config, episode, 28) for episode in range(11)]
    assert sizes == [20] * 5 + [24] * 3 + [28] * 3
    evenly = Config(episodes=9, sizes=(20, 24, 28))
    assert [image_size_at(evenly, episode, 28) for episode in range(9)] == [20] * 3 + [24] * 3 + [28] * 3
    assert image_size_at(Config(), 0, 28) == 28


def test_steps_have_images_of_the_size_that_is_due():
    training = training_of("tpn", episodes=4, sizes=(16, 28), augment=("resized-crop",))
    seen = []
    for _ in range(4):
        seen.append(training.draw(1, lambda drawn: drawn).inputs.shape[-2:])
        make_steps(training)
    assert seen == [(16, 16)] * 2 + [(28, 28)] * 2


def test_shrinking_averages():
    images = torch.arange(64.0).view(1, 1, 8, 8)
    rows = shrink(images, 4)[0, 0].mean(1).numpy()
    assert np.all(np.diff(rows) > 0)
    torch.testing.assert_close(shrink(torch.full((2, 3, 8, 8), 0.3), 4), torch.full((2, 3, 4, 4), 0.3))


def test_refreshed_statistics_are_those_of_full_sized_training_images():
    training = training_of("protonet", sizes=(16, 28))
    method, split = training.method, training.sampler.split
    make_steps(training, 2)
    before = [buffer.clone() for buffer in method.buffers()]
    norm = method.backbone.blocks[0].norm
    rows = np.sort(np.random.default_rng(0).permutation(len(split))[:128])
    with torch.no_grad():
        maps = method.backbone.blocks[0].convolution(method.backbone.prepare(split.load(rows)))
    with statistics_refreshed(method, split):
        torch.testing.assert_close(norm.running_mean, maps.mean((0, 2, 3)), rtol=0.1, atol=0.02)
        assert norm.momentum == 0.1
    assert all(torch.equal(now, then) for now, then in zip(method.buffers(), before, strict=True))


def test_a_training_through_all_sizes_is_resumed_exactly(tmp_path):
    settings = {"episodes": 6, "validate_every": 3, "validation_episodes": 2, "threads": 1, "progress": False}
    settings |= {"sizes": (16, 28), "ema": 0.9, "batch_size": 16, "classifier": "cosine", "nca": 0.5}
    settings |= {"augment": ("resized-crop", "flip"), "way": 3, "shot": 1, "query": 2, "backbone": "conv4-32"}

    def stop(step):
        if step["episode"] == 2:
            signal.raise_signal(signal.SIGINT)

    tpn.pretrain("quickdraw", out=tmp_path / "whole", **settings)
    with pytest.raises(tpn.Interrupted):
        tpn.pretrain("quickdraw", out=tmp_path / "resumed", on_step=stop, **settings)
    tpn.pretrain("quickdraw", out=tmp_path / "resumed", resume=True, **settings)
    whole, resumed = (read_tensors(tmp_path / name / "checkpoint.safetensors")[0] for name in ("whole", "resumed"))
    assert any(name.startswith("averaged/") for name in whole)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_sizes_end_with_that_of_the_run(refused, tmp_path):
    assert "--sizes must end with the image size of the run, 28" in refused(
        "train", "tpn", *tiny(sizes=(16, 20), out=tmp_path / "run")
    )


@pytest.mark.parametrize("method", ["maml", "relation-net", "tadam", "snail"])
def test_every_kind_of_method_trains_on_smaller_images(method):
    make_steps(training_of(method, episodes=2, sizes=(20, 28)), 1)
