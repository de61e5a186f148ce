"""Combine the reports of experiments into one page: docs/results.md.

    python -m scripts.results_page docs/results docs/results.md

The folder is the --out of `tpn paper`. The page opens with the picture of our Table 1 beside the paper's and with what
differences.md in that folder says, which is written by hand. Then it has the beginning of each Markdown report, up to
its learning curves, in the order of `tpn paper list`, with the command that made it and a link to the full report.
"""

import argparse
import os
import posixpath
import re
from pathlib import Path

from tpn.files import write_text
from tpn.paper.experiments import EXPERIMENTS

INTRODUCTION = """# What we measured

Every table below was made by the `tpn paper` command above it, from real trainings and tests: accuracies on classes
not seen in training, with their uncertainty. The accuracy of each test episode is in the files in
`FOLDER/results`. [Reproduce the paper](how-to/reproduce-the-paper.md) describes budgets and differences from the paper.
"""
UNTIL = "## Learning curves"
DIFFERENCES = "differences.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the --out of tpn paper")
    parser.add_argument("page", type=Path, help="the page to write")
    options = parser.parse_args()
    folder: Path = options.folder
    order = list(EXPERIMENTS)
    found = [file for file in folder.glob("*.md") if file.name != DIFFERENCES]
    reports = sorted(found, key=lambda report: (order.index(experiment_of(report)), report.name))
    if not reports:
        parser.error(f"no reports in {folder}")
    beside = Path(os.path.relpath(folder.resolve(), options.page.resolve().parent))
    pictures = sorted(folder.glob("table1-mini-imagenet-*-paper.png"))[:1]
    sections = [section(report, beside, pictures) for report in reports]
    if (folder / DIFFERENCES).is_file():
        sections.insert(0, seen_from_above((folder / DIFFERENCES).read_text(encoding="utf-8").strip(), beside))
    sections[:0] = [f"![Table 1, ours and the paper's]({(beside / one.name).as_posix()})" for one in pictures]
    write_text(options.page, "\n\n".join([INTRODUCTION.strip().replace("FOLDER", folder.as_posix()), *sections]) + "\n")


def experiment_of(report: Path) -> str:
    """Return the experiment that a report is named after: the longest name, since one may begin with another."""
    return max((name for name in EXPERIMENTS if report.name.startswith(f"{name}-")), key=len)


def seen_from_above(text: str, beside: Path) -> str:
    """Return a text of the folder with its relative links as the page needs them."""

    def link(found: re.Match[str]) -> str:
        return f"]({posixpath.normpath(posixpath.join(beside.as_posix(), found[1]))})"

    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", link, text)


def section(report: Path, beside: Path, shown: list[Path]) -> str:
    """Return the beginning of a report, without pictures that are shown already."""
    text = report.read_text(encoding="utf-8")
    command = re.search(r"^    tpn paper .*$", text, re.MULTILINE)
    title, _, rest = text.partition(UNTIL)[0].strip().partition("\n")
    rest = re.sub(r"^## ", "### ", rest, flags=re.MULTILINE)
    for picture in shown:
        rest = re.sub(rf"^!\[[^\]]*\]\({re.escape(picture.name)}\)\n+", "", rest, flags=re.MULTILINE)
    rest = re.sub(r"\]\(([^)]+\.png)\)", rf"]({beside.as_posix()}/\1)", rest)
    made = f"{command.group()}\n\n" if command else ""
    return f"#{title}\n\n{made}{rest.strip()}\n\n[Full report]({beside.as_posix()}/{report.name})"


if __name__ == "__main__":
    main()
