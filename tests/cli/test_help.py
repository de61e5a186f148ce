"""`--help` teaches, and answers at once."""

import json
import os
import subprocess
import sys
from contextlib import suppress

import pytest

from tpn.cli import COMMANDS, main
from tpn.methods._registry import list_methods

HELP = [
    *([name, "--help"] for name in COMMANDS),
    *(["data", name, "--help"] for name in ("info", "prepare", "show")),
    ["backbones", "get", "--help"],
    *(["train", name, "--help"] for name in list_methods()),
    ["splits", "tpn-semi", "--help"],
    ["evaluate", "RUN", "--as", "tim", "--help"],
]


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_every_option_is_explained_and_lines_fit(arguments, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with suppress(SystemExit):
        main(arguments)
    text = capsys.readouterr().out
    assert text.startswith("usage: tpn")
    assert "None" not in text, "neither {None} among the choices nor (default: None)"
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("usage:") and arguments[0] != "data")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("  --"):
            assert len(line.split("  ")) > 2 or following.startswith(" " * 10), f"{line} is not explained"


def test_help_of_a_method_has_its_own_settings(capsys):
    with pytest.raises(SystemExit):
        main(["train", "label-propagation", "--help"])
    text = capsys.readouterr().out
    assert "--sigma FLOAT|median" in text
    assert "--mutual, --no-mutual" in text
    assert "--query-dirichlet FLOAT" in text


ERRORS = [
    ["no-such"],
    ["train", "no-such"],
    ["train", "tpn", "--no-such"],
    ["train", "tpn", "--episodes", "many"],
    ["train", "tpn", "--lr", "-1"],
    ["splits", "tpn-semi", "--lr", "-1"],
    ["evaluate", "nowhere"],
    ["label", "nowhere"],
    ["studio", "nowhere"],
    ["embed", "nowhere", "--out", "x"],
    *([*command, "folder:nowhere"] for command in (["data", "info"], ["data", "prepare"])),
    *([*command, "--data", "folder:nowhere"] for command in (["train", "tpn"], ["pretrain"], ["paper", "table1"])),
    *([command, "mini-conv4", "--data", "folder:nowhere"] for command in ("evaluate", "benchmark")),
    ["evaluate", "x", "--no-such"],
    ["compare", "a", "b"],
    ["plot", "a"],
    ["predict", "a", "b.png", "--support", "c"],
    ["data", "info", "no-such:x"],
    ["paper", "no-such"],
]
CODE = """
import json, sys
from tpn.cli import main
for call in json.loads(sys.argv[1]):
    try:
        code = main(call)
    except SystemExit as end:
        code = end.code
    assert code in (0, 2), (call, code)
    assert "torch" not in sys.modules, call
"""


def test_help_and_common_errors_load_no_torch(tmp_path):
    """All in one process, since Python itself takes longer to start than each of them."""
    environment = os.environ | {"TPN_CACHE": str(tmp_path)}  # no images are prepared there
    calls = json.dumps([*HELP, *ERRORS])
    subprocess.run([sys.executable, "-c", CODE, calls], check=True, capture_output=True, env=environment)


QUICK = [
    ["label", "--help"],
    ["train", "tpn", "--help"],
    ["evaluate", "--help"],
    ["evaluate", "nowhere", "--shot", "many"],
    ["train", "tpn", "--lr", "-1"],
    ["train", "tpn", "--data", "folder:nowhere"],
    ["label", "nowhere"],
]


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_help_and_wrong_values_take_little_cpu_time(arguments, tmp_path, monkeypatch):
    """The least of three, since a busy machine makes everything slower."""
    monkeypatch.setenv("TPN_CACHE", str(tmp_path))
    times = []
    for _ in range(3):
        before = os.times()
        ended = subprocess.run([sys.executable, "-m", "tpn", *arguments], check=False, capture_output=True)
        assert ended.returncode == (0 if "--help" in arguments else 2)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(times) <= 0.6
