"""The README's Python is run as it stands."""

import re
from pathlib import Path

from tests.tiny import tiny
from tpn.cli import COMMANDS, main

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_examples_in_python_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "tpn", *tiny(way=5), "--out", "runs/quickdraw"]) == 0
    capsys.readouterr()
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})
    assert re.search(r"\d\d\.\d\d ± \d\.\d\d %", capsys.readouterr().out)


def test_the_commands_it_shows_exist():
    shown = set(re.findall(r"^    (?:\$ )?tpn (\w+)", README, re.MULTILINE)) - {"on"}  # output: tpn on quickdraw
    assert {"train", "evaluate", "compare", "plot"} <= shown <= set(COMMANDS)


def test_the_images_and_files_it_shows_exist():
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target
