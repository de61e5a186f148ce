"""Nonsense that was once accepted, outputs that cannot be written, and messages nobody could read."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.processes import run
from tests.tiny import tiny
from tpn.cli import main
from tpn.text import as_text, shortened


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train", "tpn", "--episodes", "99999999999999"], "--episodes must be at most 1000000000, not 99999999999999"),
        (["train", "tpn", "--validation-episodes", "9999999999"], "--validation-episodes must be at most 100000"),
        (["train", "tpn", "--patience", "9" * 30], "--patience must be at most 1000000000"),
        (["label", ".", "--rounds", "1000000000"], "--rounds must be at most 1000, not 1000000000"),
        (["label", ".", "--neighbours", "9999999999"], "--neighbours must be at most 1000000"),
        (["label", ".", "--labels", "/dev/zero"], "/dev/zero is too large"),
        (["paper", "table1", "--episodes", "99999999999999"], "--episodes must be at most"),
        (["paper", "table1", "--resnet", "x"], "Unknown backbone 'x'"),
        (["pretrain", "--class-seed", "-1000000"], "--class-seed must be at least 0"),
        (["train", "tpn", "--cache", ""], "The value of --cache is empty"),
        (["train", "tpn", "--data="], "The value of --data is empty"),
        (
            ["benchmark", "mini-conv4", "--out", "new", "--tune-tasks", "9" * 40],
            "--tune-tasks must be at least 1",
        ),
        (["benchmark", "mini-conv4", "--data", "quickdraw", "--out", "new", "--way", "9" * 40], "way must be at most"),
        (["evaluate", "mini-conv4", "--as", ""], "The value of --as is empty"),
        (["evaluate", ""], "An argument is empty"),
        (["data", "info", "tiered-imagenet:/"], "tiered-imagenet:/ is the whole disk"),
        (["data", "info", "folder:/usr/.."], "is the whole disk"),
        (["train", "tpn", "--out", "new/..", *tiny()], "holds files and is not a run folder"),
        (["fly" * 40_000], "…"),
        (["evaluate", "x" * 100_000], "…"),
    ],
)
def test_nonsense_is_refused_in_one_paragraph_and_nothing_is_written(
    refused, tmp_path, monkeypatch, arguments, complaint
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photo.png").write_bytes(b"")
    error = refused(*arguments)
    assert complaint in error
    assert len(error) < 5000
    assert os.listdir(tmp_path) == ["photo.png"]


def test_python_callers_are_refused_too(tmp_path, monkeypatch):
    import tpn

    monkeypatch.chdir(tmp_path)
    for call in (
        lambda: tpn.train("tpn", "quickdraw", cache=""),
        lambda: tpn.train("tpn", ""),
        lambda: tpn.evaluate("mini-conv4", as_method=""),
        lambda: tpn.open_images(""),
    ):
        with pytest.raises(tpn.TPNError):
            call()
    assert os.listdir(tmp_path) == []


def log_to_a_full_disk(arguments):
    """Run a command whose standard error is a full disk."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
    return main(arguments)


def test_a_log_on_a_full_disk_does_not_end_a_training(tmp_path):
    settings = tiny(image_size=16, backbone="conv4-32")
    assert run(log_to_a_full_disk, ["train", "protonet", *settings, "--out", str(tmp_path / "run")]).code == 0
    assert (tmp_path / "run" / "model.safetensors").is_file()


@pytest.mark.parametrize(("where", "code"), [("pipe", 141), ("/dev/full", 2)])
def test_output_that_nobody_takes(where, code):
    if where == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(where, os.O_WRONLY)
    call = [sys.executable, "-m", "tpn", "paper", "list"]
    done = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_damaged_headers_of_arrays_are_told(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("features.npy", np.zeros((3, 4), np.float32))
    whole = (tmp_path / "features.npy").read_bytes()
    from tests.images.making import encode

    for name in ("a/1.png", "b/1.png", "unlabelled/2.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(encode(np.zeros((8, 8, 3), np.uint8)))
    for before, after in (
        (b"{'descr", b"('descr"),
        (b"'<f4'", b"'<f4\\"),
        (b"(3, 4)", b"(3, 4("),
        (b"(3, 4)", b"(3,\x004)"),
    ):
        assert before in whole
        (tmp_path / "features.npy").write_bytes(whole.replace(before, after))
        assert "features.npy" in refused("label", "photos", "--features", "features.npy")


def test_long_messages_keep_their_ends():
    assert shortened("short text") == "short text"
    long = shortened(f"Cannot read {'x' * 100_000}: gone.")
    assert len(long) < 300
    assert long.startswith("Cannot read xx")
    assert long.endswith("xx: gone.")
    assert len(shortened("word " * 100_000)) <= 4100


def test_a_name_is_the_same_text_in_every_locale(monkeypatch):
    name = "grüße.png".encode()
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "iso-8859-1")
    monkeypatch.setattr(os, "fsencode", lambda text: text.encode("iso-8859-1", "surrogateescape"))
    assert as_text(name.decode("iso-8859-1")) == "grüße.png"
    assert as_text("日本.png") == "日本.png", "a name that is no file's stays as it is"


def test_the_same_csv_in_every_locale(tmp_path):
    script = (
        "import os, sys, tempfile; from tpn.labelling.folder_labels import FolderLabels; from pathlib import Path\n"
        "import numpy as np; one = np.ones(1)\n"
        "name = os.listdir(sys.argv[1])[0]\n"
        "labels = FolderLabels(\n"
        "    Path(), 't', [name], ['a', 'b'], one.astype(int), one, one > 0, one > 0, one[:0], 0, 'n')\n"
        "labels.write_csv(sys.argv[2])\n"
    )
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "grüße.png").write_bytes(b"")
    written = []
    for locale in ({"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        target = tmp_path / f"{len(written)}.csv"
        subprocess.run(
            [sys.executable, "-c", script, tmp_path / "photos", target], env={**os.environ, **locale}, check=True
        )
        written.append(target.read_bytes())
    assert written[0] == written[1]
    assert "grüße.png".encode() in written[0]
    assert main(["--version"]) == 0
