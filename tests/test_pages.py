"""The examples of the README and of the documentation are run as they stand."""

import re
import urllib.request
from pathlib import Path

import pytest

import tpn
from scripts.example_pictures import write_pictures
from scripts.run_pages import PageError, check_page, differences
from tpn.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SHORTER = ["--episodes 3", "--validation-episodes 2", "--threads 1"]
RUN_ELSEWHERE = {"how-to/own-method.md": "tests/methods/test_adding_a_method.py"}
FRAGMENTS = {"how-to/heads.md", "index.md"}
"""Pages whose python blocks show a call, with data that the reader has."""
PAGES = sorted(
    page
    for page in (file.relative_to(ROOT / "docs").as_posix() for file in (ROOT / "docs").rglob("*.md"))
    if re.search(r"^```(python|console)", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    and page not in {*RUN_ELSEWHERE, *FRAGMENTS}
)


def shorter(example: str) -> str:
    """Return a training or test of the README with few episodes: what it prints is then not compared."""
    if not re.match(r"tpn (train|pretrain|evaluate|compare) ", example):
        return example
    flags = [flag for flag in SHORTER if example.startswith(("tpn train", "tpn pretrain")) or "validation" not in flag]
    return " ".join([re.sub(r"--episodes \d+", "", example), *flags])


@pytest.mark.filterwarnings("ignore:.*GetPrototypeFromModule")
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TPN_CACHE", str(tmp_path / "cache"))
    check_page(ROOT / "docs" / page)


def test_every_tutorial_has_examples():
    written = {f"tutorials/{file.name}" for file in (ROOT / "docs/tutorials").glob("*.md")} - {"tutorials/index.md"}
    assert written <= set(PAGES)


@pytest.mark.filterwarnings("ignore:.*GetPrototypeFromModule")
def test_the_commands_of_the_readme_print_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TPN_CACHE", str(tmp_path / "cache"))
    check_page(ROOT / "README.md", shorter)
    assert {folder.name for folder in Path("sorted").iterdir()} >= {"banana", "bicycle", "giraffe"}
    assert Path("runs/tpn/model.safetensors").is_file()


def test_the_studio_of_the_readme_opens(tmp_path):
    write_pictures(str(tmp_path / "photos"))
    with tpn.studio(tmp_path / "photos", no_browser=True, cache=tmp_path / "cache", backbone="mini-conv4") as opened:
        assert b"<title>" in urllib.request.urlopen(opened.url).read()


def test_commands_and_experiments_that_the_readme_names_exist():
    named = set(re.findall(r"(?:`|^\$ )tpn (\w+)", README, re.MULTILINE))
    assert {"train", "compare", "label", "studio", "predict"} <= named <= set(COMMANDS)
    experiments = {experiment["name"] for experiment in tpn.list_experiments().rows()}
    assert set(re.findall(r"`tpn paper ([\w-]+)`", README)) <= experiments
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", README)) <= targets


def test_the_readme_is_short_and_its_links_lead_somewhere():
    assert len(README.splitlines()) <= 150
    for document in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text()):
            assert (ROOT / target).exists(), f"{document}: {target}"


def test_the_version_is_the_same_everywhere():
    assert f"version = {{{tpn.__version__}}}" in README
    assert f"version: {tpn.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {tpn.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_a_page_that_says_something_else_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text('```python\nprint("three 3")\n```\n\n```text\nthree 4\n```\n')
    check_page(page)
    page.write_text('```python\nprint("three 3")\n```\n\n```text\nfour 3\n```\n')
    with pytest.raises(PageError, match="four 3"):
        check_page(page)
    assert not differences("a 1\n…\nz", "a 22\nb\nc\nz\n")
    assert differences("a\nz", "a\nb\nz\n")
