"""The Python of the README and of docs/python.md is run as it stands."""

import re
from pathlib import Path

import pytest

from tpn.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.filterwarnings("ignore:.*GetPrototypeFromModule")
@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_the_examples_in_python_run(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tiny = ["--episodes", "3", "--validation-episodes", "2", "--query", "3", "--shot", "1"]
    assert main(["train", "tpn", *tiny, "--out", "runs/quickdraw", "--threads", "1"]) == 0
    capsys.readouterr()
    examples = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, document, "exec"), {"__name__": "example"})
    assert re.search(r"\d\d\.\d\d ± \d\.\d\d %", capsys.readouterr().out)


def test_the_commands_it_shows_exist():
    shown = set(re.findall(r"^    (?:\$ )?tpn (\w+)", README, re.MULTILINE)) - {"on"}  # output: tpn on quickdraw
    assert {"train", "evaluate", "compare", "plot"} <= shown <= set(COMMANDS)


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md"))])
def test_the_images_and_files_it_shows_exist(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text()):
        assert (ROOT / document).parent.joinpath(target).exists(), target
