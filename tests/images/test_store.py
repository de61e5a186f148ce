"""A store is built once, by all processors, and is complete or not there."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.images import making
from tests.images.making import SIZE, as_files, encode, make_images
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.errors import TPNError, TPNWarning
from tpn.images import store_cache
from tpn.images.cache_folder import cache_folder
from tpn.images.opening import open_images

SOURCE = make_images(4, classes={"train": ["cat", "dog"], "val": ["cow", "emu"], "test": ["pig", "hen"]})
MANY = make_images(100, 8, classes={"train": ["cat", "dog"], "val": ["cow"], "test": ["pig"]})
"""More than are decoded without further processes."""


def stores(folder):
    return sorted(path for path in folder.iterdir() if path.is_dir())


@pytest.fixture
def own(tmp_path):
    return making.write_folder(tmp_path / "own", as_files(SOURCE))


def test_it_holds_what_the_manifest_says(own, tmp_path):
    images = open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    [store] = stores(tmp_path / "cache")
    manifest = json.loads((store / "manifest.json").read_text())
    assert manifest["source"] == {"kind": "folder", "path": str(own), "class_seed": 0}
    assert manifest["image_size"] == SIZE
    assert manifest["splits"]["train"]["classes"] == {"cat": 4, "dog": 4}
    for split in SOURCE:
        content = (store / f"{split}.npy").read_bytes()
        import hashlib

        assert manifest["splits"][split]["sha256"] == hashlib.sha256(content).hexdigest()
        pixels = np.load(store / f"{split}.npy")
        assert pixels.shape == (8, SIZE, SIZE, 3)
        np.testing.assert_array_equal(images.split(split).images, pixels)
    train = np.stack([pixels for items in SOURCE["train"].values() for pixels in items]) / 255
    np.testing.assert_allclose(images.mean, train.mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(images.std, train.std((0, 1, 2)), atol=1e-6)
    assert stat_mode(images.split("train").images) == "mapped"


def stat_mode(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return "in memory" if array is None else "mapped"


def test_it_is_built_once_and_opened_afterwards(own, tmp_path, monkeypatch):
    first = open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    monkeypatch.setattr(store_cache, "build", lambda *_: pytest.fail("built again"))
    monkeypatch.chdir(tmp_path)
    again = open_images("folder:own", SIZE, cache=tmp_path / "cache")
    assert again.digest == first.digest
    assert again.spec == f"folder:{own}"
    sampler = EpisodeSampler(again.split("train"), Setting(way=2, shot=1, query=2), 0)
    assert again.split("train").load(sampler.draw().images).shape == (6, 3, SIZE, SIZE)


def test_each_size_and_division_of_classes_has_its_own(own, tmp_path):
    for size in (SIZE, 10):
        for seed in (0, 1):
            images = open_images(f"folder:{own}", size, cache=tmp_path / "cache", class_seed=seed)
            assert images.split("val").images.shape[1:] == (size, size, 3)
    assert len(stores(tmp_path / "cache")) == 4


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_changed_source_is_noticed(tmp_path, form):
    files = as_files(SOURCE)
    write, path = (
        (making.write_folder, tmp_path / "own") if form == "folder" else (making.write_zip, tmp_path / "own.zip")
    )
    before = open_images(f"folder:{write(path, files)}", SIZE, cache=tmp_path / "cache")
    files["train/cat/0.png"] = encode(SOURCE["train"]["cat"][0][::-1])
    write(path, files)
    os.utime(path / "train/cat/0.png" if form == "folder" else path, (1, 1))  # the clock of a disk may be coarse
    after = open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")
    assert after.digest != before.digest
    np.testing.assert_array_equal(after.split("train").images[0], SOURCE["train"]["cat"][0][::-1])
    np.testing.assert_array_equal(before.split("train").images[0], SOURCE["train"]["cat"][0])
    assert len(stores(tmp_path / "cache")) == 1, "the old one is removed"
    if form == "folder":
        write(path, {"train/cat/new.png": encode(SOURCE["val"]["cow"][0][::-1])})
        more = open_images(f"folder:{path}", SIZE, cache=tmp_path / "cache")
        assert more.info()["train"].images == 9


def test_it_outlives_its_source(own, tmp_path):
    before = open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    shutil.rmtree(own)
    assert open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache").digest == before.digest
    with pytest.raises(TPNError, match="own does not exist"):
        open_images(f"folder:{own}", 11, cache=tmp_path / "cache")


@pytest.mark.parametrize("damage", ["manifest.json", "train.npy", "val.npy"])
def test_a_damaged_one_is_built_anew(own, tmp_path, damage):
    before = open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    [store] = stores(tmp_path / "cache")
    content = (store / damage).read_bytes()
    (store / damage).write_bytes(content[: len(content) // 2])
    again = open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    assert again.digest == before.digest
    np.testing.assert_array_equal(again.split("train").images[3], SOURCE["train"]["cat"][3])


def test_flipped_bits_are_found_by_verifying(own, tmp_path):
    open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    [store] = stores(tmp_path / "cache")
    content = bytearray((store / "test.npy").read_bytes())
    content[-5] ^= 1
    (store / "test.npy").write_bytes(content)
    verified = open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache", verify=True)
    np.testing.assert_array_equal(verified.split("test").images[-1], SOURCE["test"]["pig"][-1])


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_several_processes_build_the_same_as_one(tmp_path, monkeypatch, form):
    files = as_files(MANY)
    files["train/dog/broken.png"] = b"nothing"
    write = {"folder": making.write_folder, "zip": making.write_zip, "tar": making.write_tar}[form]
    path = write(tmp_path / "own", files)
    with pytest.warns(TPNWarning, match="1 image cannot be read"):
        many = open_images(f"folder:{path}", 8, cache=tmp_path / "one")
    monkeypatch.setattr("tpn.images.parallel_decoding.FEW", 10**6)
    with pytest.warns(TPNWarning, match="1 image cannot be read"):
        alone = open_images(f"folder:{path}", 8, cache=tmp_path / "two")
    assert many.digest == alone.digest
    assert (many.mean, many.std) == (alone.mean, alone.std)
    in_order = sorted(range(100), key=str)
    np.testing.assert_array_equal(many.split("val").images, np.stack([MANY["val"]["cow"][i] for i in in_order]))
    assert many.info()["train"].images == 200


BUILD = """
import sys, time
from pathlib import Path
import tpn.images.parallel_decoding as decoding
from tpn.images.opening import open_images
if len(sys.argv) > 3:  # do not go on before this file is there
    decode, go = decoding.decode, Path(sys.argv[3])
    def held(content, size):
        while not go.exists():
            time.sleep(0.01)
        return decode(content, size)
    decoding.decode = held
images = open_images(f"folder:{sys.argv[1]}", 8, cache=Path(sys.argv[2]))
print(images.digest)
"""


def start(own, folder, *options):
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(own), str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def unfinished(folder):
    return [path for path in folder.glob(".*.part") if (path / "train.npy").exists()] if folder.exists() else []


def test_two_processes_that_build_the_same_store_both_end_well(tmp_path):
    own, folder = making.write_folder(tmp_path / "own", as_files(MANY)), tmp_path / "cache"
    first = start(own, folder, str(tmp_path / "go"))
    wait_for(lambda: unfinished(folder))
    second = start(own, folder)
    assert "Waiting for another process" in second.stderr.readline()
    (tmp_path / "go").touch()
    outputs = [process.communicate(timeout=120) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    assert len(stores(folder)) == 1


def children(pid):
    return [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and parent_of(path) == pid
    ]  # fmt: skip


def parent_of(process):
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None


def alive(pid):
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_builder_leaves_no_store_and_no_processes(tmp_path, how):
    own, folder = making.write_folder(tmp_path / "own", as_files(MANY)), tmp_path / "cache"
    builder = start(own, folder, str(tmp_path / "never"))
    wait_for(lambda: unfinished(folder) and len(children(builder.pid)) >= 1)
    workers = children(builder.pid)
    os.kill(builder.pid, how)
    builder.communicate(timeout=120)
    wait_for(lambda: not any(map(alive, workers)))
    assert [path for path in stores(folder) if not path.name.startswith(".")] == []
    images = open_images(f"folder:{own}", 8, cache=folder)
    assert images.info()["train"].images == 200
    assert len(stores(folder)) == 1, "what the killed process left is removed"


def test_a_store_in_a_folder_that_may_not_be_written_is_opened(own, tmp_path):
    open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    for path in [*(tmp_path / "cache").rglob("*"), tmp_path / "cache"]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache").info()["val"].classes == 2
    (tmp_path / "cache").chmod(0o755)
    for path in stores(tmp_path / "cache"):
        path.chmod(0o755)


def test_a_full_disk_is_told_before_and_while_building(own, tmp_path, monkeypatch):
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1))
    with pytest.raises(TPNError, match="need .* MB in .*cache, where 0.0 MB are free"):
        open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    monkeypatch.undo()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(TPNError, match="No space left on device"):
        open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    assert stores(tmp_path / "cache") == []


def test_a_cache_that_is_a_file(own, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TPNError, match="Cannot write"):
        open_images(f"folder:{own}", SIZE, cache=tmp_path / "file")


def test_where_stores_are_kept(monkeypatch, tmp_path):
    monkeypatch.delenv("TPN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(None) == tmp_path / "xdg" / "tpn"
    monkeypatch.setenv("TPN_CACHE", str(tmp_path / "mine"))
    assert cache_folder(None) == tmp_path / "mine"
    assert cache_folder(tmp_path / "given") == tmp_path / "given"
    monkeypatch.delenv("TPN_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder(None) == tmp_path / ".cache" / "tpn"


@pytest.mark.parametrize("size", [0, -1, 1025])
def test_impossible_sizes(own, tmp_path, size):
    with pytest.raises(TPNError, match="image_size must be between 1 and 1024"):
        open_images(f"folder:{own}", size, cache=tmp_path / "cache")


def test_closing_gaps_needs_no_further_room_and_keeps_every_other_image(tmp_path, monkeypatch):
    files = as_files(MANY)
    broken = [0, 1, 50, 99]
    for index in broken:
        files[f"train/cat/{index}.png"] = b"nothing"
    path = making.write_folder(tmp_path / "own", files)
    monkeypatch.setattr("tpn.images.store_builder.BLOCK", 8 * 8 * 3 * 7)
    with pytest.warns(TPNWarning, match="4 images cannot be read"):
        images = open_images(f"folder:{path}", 8, cache=tmp_path / "cache")
    kept = [MANY["train"]["cat"][i] for i in sorted(range(100), key=str) if i not in broken]
    kept += [MANY["train"]["dog"][i] for i in sorted(range(100), key=str)]
    np.testing.assert_array_equal(images.split("train").images, np.stack(kept))


def test_what_other_killed_builders_left_is_removed_too(tmp_path):
    own, folder = making.write_folder(tmp_path / "own", as_files(SOURCE)), tmp_path / "cache"
    left = folder / ".folder-64-0123456789ab-0123456789abcdef-99.part"
    left.mkdir(parents=True)
    open_images(f"folder:{own}", SIZE, cache=folder)
    assert not left.exists()


def test_a_source_that_changes_while_it_is_read_makes_no_store(own, tmp_path, monkeypatch):
    build = store_cache.build

    def changing(*arguments):
        built = build(*arguments)
        making.write_folder(own, {"train/cat/late.png": encode(SOURCE["val"]["cow"][0])})
        return built

    monkeypatch.setattr(store_cache, "build", changing)
    with pytest.raises(TPNError, match="changed while it was being read"):
        open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    assert stores(tmp_path / "cache") == []


def test_images_that_could_not_be_read_for_once_are_read_the_next_time(own, tmp_path):
    image = own / "train/cat/0.png"
    content = image.read_bytes()
    image.write_bytes(b"")
    with pytest.warns(TPNWarning, match="1 image cannot be read"):
        open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache")
    with pytest.warns(TPNWarning, match="1 image cannot be read"):
        open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache", verify=True)
    image.write_bytes(content)
    image.chmod(0o600)
    assert open_images(f"folder:{own}", SIZE, cache=tmp_path / "cache").info()["train"].images == 8
