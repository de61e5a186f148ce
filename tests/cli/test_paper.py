"""tpn paper: what it refuses, what happens when a training fails, and what is done only once."""

import csv
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.images.making import as_files, make_images, write_folder
from tests.paper import TINY, do, planned, quick
from tpn.cli import main
from tpn.images.opening import open_images
from tpn.paper.experiments import find_experiment


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """mini-conv4, one training with four tests, finished."""
    out = tmp_path_factory.mktemp("finished") / "out"
    do(planned(find_experiment("mini-conv4"), open_images("quickdraw", 28), out, quick()).jobs)
    return out


def test_alone_it_explains_itself(capsys):
    with pytest.raises(SystemExit) as end:
        main(["paper"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert "usage: tpn paper" in text
    flags = ["--budget", "--methods", "--out", "--workers", "--ray", "--seed", "--report-only", "--data", "--resnet"]
    assert all(flag in text for flag in flags)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tabel1"], "'tabel1'"),
        (["tabel1"], "Did you mean table1?"),
        (["table1", "--methods", "tpn", "snail"], "does not include snail: choose from maml, maml-transduction"),
        (["table1", "--methods", "magic"], "does not include magic"),
        (["table1", "--episodes", "0"], "--episodes must be at least 1"),
        (["table1", "--test-episodes", "-1"], "--test-episodes must be at least 1"),
        (["table1", "--validations", "0"], "--validations must be at least 1"),
        (["table1", "--patience", "-1"], "--patience"),
        (["table3", "--splits", "0"], "--splits must be at least 1"),
        (["table3", "--splits", "1001"], "--splits must be at most 1000"),
        (["table1", "--workers", "0"], "--workers must be"),
        (["table1", "--workers", "257"], "--workers must be"),
        (["table1", "--threads", "0"], "--threads must be"),
        (["table1", "--budget", "huge"], "invalid choice 'huge'"),
        (["table1", "--schedule", "steep"], "invalid choice 'steep'"),
        (["resnet", "--resnet", "resnet13"], "Unknown backbone 'resnet13'"),
        (["table1", "--data", "cifar"], "Unknown data 'cifar'"),
        (["table1", "--device", "abacus"], "abacus"),
        (["table1", "--image-size", "-4"], "--image-size must be between"),
        (["table1", "--ray"], "--ray"),
        (["table1", *TINY, "--ray", "127.0.0.1:1"], "127.0.0.1:1"),
        (["--budget", "quick"], "required"),
    ],
)
def test_wrong_options(refused, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert complaint in refused("paper", *arguments)
    assert os.listdir(tmp_path) == [], "nothing is left behind"


def test_a_wrong_seed_is_refused_before_anything_is_started(refused, tmp_path):
    error = refused("paper", "mini-conv4", *TINY, "--out", tmp_path / "out", "--seed", "-1")
    assert "--seed must be" in error
    assert not (tmp_path / "out").exists()


def test_places_that_are_something_else(refused, runs, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in refused("paper", "mini-conv4", *TINY, "--out", tmp_path / "file")
    assert "Cannot write" in refused("paper", "mini-conv4", *TINY, "--out", tmp_path / "file" / "out")
    before = sorted(os.listdir(runs / "one"))
    error = refused("paper", "mini-conv4", *TINY, "--out", runs / "one")
    assert "single run: choose another --out" in error
    assert sorted(os.listdir(runs / "one")) == before
    if os.path.isdir("/proc/self"):
        assert "Cannot write" in refused("paper", "mini-conv4", *TINY, "--out", "/proc/self/out")


def test_among_the_images_nothing_is_written(refused, tmp_path):
    classes = {split: [f"{split}-{number}" for number in range(5)] for split in ("train", "val", "test")}
    root = write_folder(tmp_path / "images", as_files(make_images(3, 16, classes)))
    data = ["--data", f"folder:{root}", "--image-size", "16", "--cache", tmp_path / "cache"]
    before = sorted(root.rglob("*"))
    error = refused("paper", "mini-conv4", *TINY, *data, "--out", root / "out")
    assert "lies among the images" in error
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("further", [[], ["--report-only"]], ids=["running", "reporting"])
@pytest.mark.parametrize(
    ("content", "complaint"),
    [(200, "damaged"), ({"format": 99}, "does not match its digest")],
    ids=["truncated", "other-format"],
)
def test_a_damaged_result(refused, finished, tmp_path, content, complaint, further):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    [path] = (out / "results").glob("*.json")
    text = path.read_text()
    path.write_text(text[:content] if isinstance(content, int) else json.dumps({**json.loads(text), **content}))
    before = path.read_bytes()
    error = refused("paper", "mini-conv4", *TINY, "--out", out, *further)
    assert complaint in error
    assert str(path) in error
    assert path.read_bytes() == before


def test_what_is_finished_is_only_reported(capsys, finished, tmp_path):
    """No process is started, nothing is trained or tested."""
    out = tmp_path / "moved"
    shutil.copytree(finished, out)
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    assert main(["paper", "mini-conv4", *TINY, "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].split("  ")[0] == "system"
    assert ".html" in captured.err
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert not (out / "logs").exists()
    [sheet], [text] = out.glob("mini-conv4-quickdraw-quick-*.csv"), out.glob("mini-conv4-quickdraw-quick-*.md")
    first = sheet.read_text()
    assert main(["paper", "mini-conv4", *TINY, "--out", str(out), "--report-only"]) == 0
    assert capsys.readouterr().out == captured.out
    assert sheet.read_text() == first
    assert "--report-only" not in text.read_text(), "it names the command that makes the numbers"


def test_a_report_of_nothing_yet_starts_nothing(capsys, tmp_path):
    assert main(["paper", "table1", "--methods", "protonet", *TINY, "--out", str(tmp_path / "o"), "--report-only"]) == 0
    assert capsys.readouterr().out.count("—") == 8
    assert not (tmp_path / "o" / "runs").exists()


def test_the_failure_of_one_training_leaves_the_others_done_and_is_named(capsys, tmp_path):
    """17 images of a class are enough for one shot and 15 queries, not for five."""
    classes = {split: [f"{split}-{number}" for number in range(5)] for split in ("train", "val", "test")}
    root = write_folder(tmp_path / "images", as_files(make_images(17, 16, classes)))
    data = ["--data", f"folder:{root}", "--image-size", "16", "--cache", str(tmp_path / "cache")]
    out = tmp_path / "out"
    command = ["paper", "resnet", "--methods", "tpn", *TINY, *data, "--resnet", "conv4-32", "--out", str(out)]
    assert main([*command, "--workers", "2"]) == 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    header, line, published = captured.out.splitlines()
    assert published.split() == ["paper", "59.46", "paper", "75.65"]
    assert header.split() == ["system", "transduction", "1-shot", "5-shot"]
    assert line.split()[:2] == ["TPN", "yes"]
    assert "±" in line
    assert line.endswith("failed")
    *_, count, why = captured.err.splitlines()
    assert " (for TPN, 5-shot): " in why
    assert count.startswith("1 of 2 trainings")
    assert why.startswith("  tpn-5way-5shot-15query-")
    assert "needs 20 images of each class" in why
    page, markdown, sheet = [
        next(out.glob(f"resnet-folder-images-quick-*-tpn{ending}")).read_text() for ending in (".html", ".md", ".csv")
    ]
    assert ">failed<" in page
    assert "needs 20 images of each class" in page
    assert "| failed<br>paper 75.65 |" in markdown
    one, other = csv.DictReader(sheet.splitlines())
    assert float(one["accuracy"]) > 0
    assert other["accuracy"] == ""
    [log] = (out / "logs").glob("tpn-5way-5shot-*.log")
    assert "needs 20 images of each class" in log.read_text()


NO_TORCH = """
import sys
from tpn.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
assert "torch" not in sys.modules, "torch was loaded"
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--help"], 0), (["list"], 0), (["tabel1"], 2), (["table1", "--methods", "magic"], 2), (["table1", "--ot"], 2)],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_and_wrong_names_do_not_load_torch(arguments, code):
    ended = subprocess.run([sys.executable, "-c", NO_TORCH, "paper", *arguments], capture_output=True, text=True)
    assert ended.returncode == code, ended.stderr
