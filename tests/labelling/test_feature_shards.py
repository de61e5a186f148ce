"""Features in shards: resumable, memory-mapped, the same whoever makes them."""

import json
import os
import signal
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import tpn
from tests.labelling.making import NAMES, write_images
from tpn.backbones._registry import register_backbone
from tpn.cli import main
from tpn.errors import TPNError, TPNWarning
from tpn.labelling import shard_workers


class MeanColours(torch.nn.Module):
    def forward(self, images):
        return torch.nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


@pytest.fixture
def many(tmp_path):
    register_backbone("mean-colours", MeanColours)
    return write_images(tmp_path / "many", [f"{index:02}.png" for index in range(11)])


def embed(source, out, **options):
    return tpn.embed_images(source, out, progress=False, **{"backbone": "mean-colours", "shard_size": 4, **options})


def test_the_rows_are_those_of_the_images(many, tmp_path):
    made = embed(many, tmp_path / "shards")
    assert (made.images, made.width, made.shards, made.unreadable) == (11, 12, 3, [])
    shards = tpn.open_features(tmp_path / "shards")
    assert shards.names == [f"{index:02}.png" for index in range(11)]
    assert shards.shape == np.asarray(shards).shape == (11, 12)
    for name, row in zip(shards.names, shards, strict=True):
        (alone,) = tpn.open_features(embed(_list(tmp_path, [many / name]), tmp_path / name).folder)
        np.testing.assert_allclose(row, alone, rtol=1e-5)


def _list(folder, files, name="list.txt"):
    (folder / name).write_text("".join(f"{file}\n" for file in files))
    return folder / name


def test_rows_are_gathered_from_their_shards(many, tmp_path):
    embed(many, tmp_path / "shards")
    shards = tpn.open_features(tmp_path / "shards")
    whole = np.asarray(shards)
    for rows in (slice(2, 9), [10, 0, 4, 4], np.array([3]), slice(None, None, -3), []):
        assert (shards[rows] == whole[rows]).all()
    assert (shards[-1] == whole[-1]).all()
    embed(many, tmp_path / "one", shard_size=100)
    one = np.asarray(tpn.open_features(tmp_path / "one"))
    assert isinstance(one, np.memmap) or isinstance(one.base, np.memmap), "nothing is read before it is used"
    assert (one == whole).all()


def test_an_interrupted_call_goes_on(many, tmp_path, monkeypatch):
    expected = np.asarray(tpn.open_features(embed(many, tmp_path / "expected").folder))
    seen = []
    whole = shard_workers.embed_shard

    def interrupted(root, names, *rest):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(names)
        return whole(root, names, *rest)

    monkeypatch.setattr(shard_workers, "embed_shard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        embed(many, tmp_path / "shards")
    with pytest.raises(TPNError, match="not complete: run the same"):
        tpn.open_features(tmp_path / "shards")
    seen[:] = [None]
    made = embed(many, tmp_path / "shards")
    assert seen[1:] == [("08.png", "09.png", "10.png")]
    assert (np.asarray(tpn.open_features(made.folder)) == expected).all()
    seen.clear()
    embed(many, tmp_path / "shards")
    assert seen == []


def test_a_damaged_shard_is_made_again_and_no_other(many, tmp_path, monkeypatch):
    expected = np.asarray(tpn.open_features(embed(many, tmp_path / "shards").folder))
    content = bytearray((tmp_path / "shards" / "shard-000001.npy").read_bytes())
    content[-3] ^= 4
    (tmp_path / "shards" / "shard-000001.npy").write_bytes(content)
    seen, whole = [], shard_workers.embed_shard
    monkeypatch.setattr(
        shard_workers, "embed_shard", lambda root, names, *rest: seen.append(names) or whole(root, names, *rest)
    )
    embed(many, tmp_path / "shards")
    assert seen == [("04.png", "05.png", "06.png", "07.png")]
    assert (np.asarray(tpn.open_features(tmp_path / "shards")) == expected).all()


def test_another_network_or_other_images_need_a_folder_of_their_own(many, tmp_path):
    embed(many, tmp_path / "shards")
    with pytest.raises(TPNError, match=r"another shard_size.*new out"):
        embed(many, tmp_path / "shards", shard_size=5)
    with pytest.raises(TPNError, match="features of another network"):
        embed(many, tmp_path / "shards", backbone="mini-conv4")
    os.remove(many / "03.png")
    with pytest.raises(TPNError, match="another images"):
        embed(many, tmp_path / "shards")
    with pytest.raises(TPNError, match="holds something else"):
        embed(many, many)
    with pytest.raises(TPNError, match="Cannot read"):
        tpn.open_features(many)


def test_unreadable_images_are_listed(many, tmp_path, capsys):
    (many / "05.png").write_bytes(b"no image")
    command = ["embed", str(many), "--out", str(tmp_path / "shards"), "--backbone", "mean-colours", "--json"]
    assert main(command) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["images"] == 10
    assert [one["path"] for one in result["unreadable"]] == ["05.png"]
    assert "Note: 05.png cannot be read" in captured.err
    assert "05.png" not in tpn.open_features(tmp_path / "shards").names


def test_a_list_of_images(photos, tmp_path, refused):
    register_backbone("mean-colours", MeanColours)
    (tmp_path / "list.csv").write_text("label,path\ncat,photos/a.png\n,photos/z.png\ncat,photos/a.png\n")
    embed(tmp_path / "list.csv", tmp_path / "shards")
    assert tpn.open_features(tmp_path / "shards").names == ["photos/a.png", "photos/z.png"]
    (tmp_path / "wrong.csv").write_text("file\na.png\n")
    _list(tmp_path, [], "empty.txt")
    for source, complaint in (
        ("wrong.csv", "no column `path`"),
        ("empty.txt", "no images in the list"),
        ("no", "No such"),
    ):
        assert complaint in refused("embed", tmp_path / source, "--out", tmp_path / "new", "--backbone", "mean-colours")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--shard-size", "0"], "shard-size must be at least 1"),
        (["--workers", "2"], "--workers is for --ray"),
        (["--ray", "nowhere"], "--ray must be auto"),
        (["--mean", "0.5"], "--mean must be three"),
        (["--output", "x"], "--output is for --backbone onnx:FILE"),
        (["--backbone", "onnx:no.onnx"], "no.onnx"),
        (["--backbone", "dinov3"], "Unknown backbone 'dinov3'"),
    ],
)
def test_wrong_options(photos, tmp_path, refused, options, complaint):
    register_backbone("mean-colours", MeanColours)
    backbone = [] if "--backbone" in options or "--output" in options else ["--backbone", "mean-colours"]
    assert complaint in refused("embed", photos, "--out", tmp_path / "new", *backbone, *options)


def test_label_takes_shards(photos, tmp_path):
    register_backbone("mean-colours", MeanColours)
    labels = {"a.png": "x", "z.png": "y"}
    direct = tpn.label_folder(photos, labels=labels, backbone="mean-colours", cache=tmp_path / "cache", progress=False)
    made = embed(photos, tmp_path / "shards")
    for features in (made.folder, tpn.open_features(made.folder)):
        found = tpn.label_folder(photos, labels=labels, features=features, progress=False)
        assert found.labels == direct.labels
        np.testing.assert_allclose(found.confidence, direct.confidence, atol=1e-5)
    write_images(photos, ["new.png"], seed=9)
    with pytest.warns(TPNWarning, match=r"1 image has no features in .*shards.*new\.png"):
        found = tpn.label_folder(photos, labels=labels, features=made.folder, progress=False)
    assert found.paths == sorted(NAMES)
    with pytest.raises(TPNError, match="none of these images"):
        tpn.label_folder(write_images(tmp_path / "other", ["b/1.png", "c/2.png", "3.png"]), features=made.folder)


def test_the_estimator_takes_shards(many, tmp_path):
    embed(many, tmp_path / "shards")
    shards = tpn.open_features(tmp_path / "shards")
    y = np.array([0, 1, *[-1] * 9])
    model, same = tpn.LabelPropagator(n_neighbors=3), tpn.LabelPropagator(n_neighbors=3)
    assert (model.fit(shards, y).transduction_ == same.fit(np.asarray(shards), y).transduction_).all()


def _actors():
    """The process ids of the actors in the cluster that this process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if (folder / "cmdline").read_bytes().startswith(b"ray::Embedder"):
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if int(Path("/proc", parent, "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(folder.name))
    return found


def test_two_ray_workers_of_which_one_is_killed(tmp_path, monkeypatch):
    """All features are there, and equal to those without Ray."""
    pytest.importorskip("ray", exc_type=ImportError)
    photos = write_images(tmp_path / "photos", [f"{index:03}.png" for index in range(60)])
    (photos / "030.png").write_bytes(b"no image")
    options = {"backbone": "mini-conv4", "shard_size": 5, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TPNWarning)
        here = tpn.embed_images(photos, tmp_path / "here", **options)
        finished, on_ray = [], shard_workers.embed_on_ray

        def killing(*arguments):
            for one in on_ray(*arguments):
                finished.append(one[0])
                if len(finished) == 3:
                    os.kill(_actors()[0], signal.SIGKILL)
                yield one

        monkeypatch.setattr(shard_workers, "embed_on_ray", killing)
        warnings.filterwarnings("ignore", module=r"ray\..*")
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        cluster = tpn.embed_images(photos, tmp_path / "cluster", ray="local", workers=2, **options)
    assert sorted(finished) == list(range(12))
    assert cluster.unreadable == here.unreadable
    one, other = tpn.open_features(here.folder), tpn.open_features(cluster.folder)
    assert one.names == other.names
    assert len(one) == 59
    np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-5, atol=1e-6)
