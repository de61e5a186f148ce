"""The page, the Markdown and the CSV agree with the result files, explain themselves, and need nothing else."""

import csv
import io
import json
import math
import re
import shutil
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.paper import BUDGET, do, one_cell, planned, semi_supervised, table
from tpn.paper import timing
from tpn.paper.budget import BUDGETS
from tpn.paper.experiments import EXPERIMENTS
from tpn.paper.measured import collect
from tpn.paper.report.content import key, warnings
from tpn.paper.report.numbers import as_text, main_table
from tpn.paper.report.report import Report
from tpn.paper.report.writing import write_report

COMMAND = "tpn paper tiny --data '<b>&amp; \"here\"'"
VOID = {"meta", "br", "hr", "img", "input", "link"}


@pytest.fixture(scope="module")
def out(images, tmp_path_factory):
    """Both experiments, finished."""
    folder = tmp_path_factory.mktemp("report")
    for experiment in (table(), semi_supervised()):
        do(planned(experiment, images, folder).jobs)
    return folder


def report_on(experiment, images, out, /, **changes):
    plan = changes.pop("plan", None) or planned(experiment, images, out)
    made = Report(experiment, BUDGET, "quick", images.spec, images.image_size, plan, collect(plan), {}, COMMAND)
    return replace(made, **changes)


MINI_IMAGENET = "mini-imagenet:/data/mini"


class Page(HTMLParser):
    """Checks the nesting, and takes out tables and addresses."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tables, self.addresses, self.tags, self.warnings = [], [], [], set(), []
        self.feed(text)
        self.close()
        assert self.open == [], "all is closed"

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.addresses += [value for name, value in attributes if name.rpartition(":")[2] in ("href", "src")]
        assert not any(name.startswith("on") for name, _ in attributes)
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append([])
        if (tag, dict(attributes).get("class")) == ("p", "warning"):
            self.warnings.append("")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tags = [tag for tag, _ in self.open]
        if {"td", "th"} & set(tags) and data.strip():
            self.tables[-1][-1][-1].append(data)
        if self.open and self.open[-1] == ("p", {"class": "warning"}):
            self.warnings[-1] += data


def read(report, folder):
    """The three files, and the page taken apart."""
    page, markdown, sheet = (path.read_text(encoding="utf-8") for path in write_report(report, folder)[:3])
    return page, markdown, list(csv.DictReader(io.StringIO(sheet))), Page(page)


def markdown_tables(text):
    """Each a list of lines, each a list of cells. An escaped bar is text."""
    blocks = [block for block in text.split("\n\n") if block.startswith("| ")]
    lines = [[re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()] for block in blocks]
    return [[[cell.strip().replace("\\|", "|") for cell in line] for line in block] for block in lines]


def raw(report, cell):
    """The per-episode accuracies of a cell, straight from the files: a list for each job."""
    found = []
    for name in report.plan.of_cell[cell]:
        content = json.loads(Path(report.plan.jobs[name].out, "results", f"{name}.json").read_text())
        for test in content["tests"]:
            same = all(test["episode"][key] == getattr(cell.test.episode, key) for key in ("way", "shot", "query"))
            if same and (test["method"], test["batch_norm"]) == (cell.method, cell.test.batch_norm):
                found.append([100 * accuracy for accuracy in test["accuracies"]])
    assert len(found) == len(report.plan.of_cell[cell])
    return found


def mean_and_error(values):
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def expected(report, cell):
    lists = raw(report, cell)
    if cell.over_partitions:
        return mean_and_error([math.fsum(values) / len(values) for values in lists])
    mean, error = mean_and_error(lists[0])
    return mean, 1.96 * error


def pair(text):
    """'61.50 ± 0.80' -> 61.5, 0.8."""
    value, _, uncertainty = text.removesuffix(" †").partition(" ± ")
    return number(value), float(uncertainty)


def number(text):
    """'−1.25' -> -1.25."""
    return float(text.replace("−", "-"))


@pytest.mark.parametrize("experiment", [table(), semi_supervised()], ids=lambda experiment: experiment.name)
def test_all_three_say_what_the_result_files_say(images, out, experiment, tmp_path):
    report = report_on(experiment, images, out)
    _, markdown, sheet, page = read(report, tmp_path)
    shown, written = page.tables[0], markdown_tables(markdown)[0]
    header = ["system", "transduction", *experiment.columns]
    assert written[0] == header
    assert [cell for [cell] in shown[0]] == header
    assert len(sheet) == len(experiment.cells)
    for cell, line in zip(experiment.cells, sheet, strict=True):
        value, uncertainty = expected(report, cell)
        assert (line["row"], line["column"]) == (cell.row, cell.column)
        assert float(line["accuracy"]) == pytest.approx(value, abs=1e-3)
        assert float(line["uncertainty"]) == pytest.approx(uncertainty, abs=1e-3)
        assert ("standard error" in line["uncertainty_is"]) == cell.over_partitions
        row, column = 1 + experiment.rows.index(cell.row), 2 + experiment.columns.index(cell.column)
        in_markdown = written[row + 1][column].split("<br>")
        in_page = shown[row][column]
        assert pair(in_page[0]) == pytest.approx((value, uncertainty), abs=0.0051)
        assert in_markdown[0].strip("*") == in_page[0]
        assert in_markdown[1:] == in_page[1:] == ([] if cell.published is None else [f"paper {cell.published}"])


def test_the_best_of_a_column_is_marked_once(images, out, tmp_path):
    report = report_on(table(), images, out)
    _, markdown, sheet, _ = read(report, tmp_path)
    _, _, *rows = markdown_tables(markdown)[0]
    for place, column in enumerate(report.experiment.columns, 2):
        accuracies = {line["row"]: float(line["accuracy"]) for line in sheet if line["column"] == column}
        [best] = [row[0] for row in rows if row[place].startswith("**")]
        assert accuracies[best] == max(accuracies.values())


@pytest.mark.parametrize("experiment", [table(), semi_supervised()], ids=lambda experiment: experiment.name)
def test_paired_differences(images, out, experiment, tmp_path):
    report = report_on(experiment, images, out)
    _, markdown, _, page = read(report, tmp_path)
    [differences] = [lines for lines in markdown_tables(markdown) if lines[0][0].endswith(" minus")]
    [in_page] = [lines for lines in page.tables if lines[0][0][0].endswith(" minus")]
    reference = differences[0][0].removesuffix(" minus")
    assert reference == {"tiny": "TPN", "tiny-semi": "TPN-semi"}[experiment.name]
    cells = {(cell.row, cell.column): cell for cell in experiment.cells}
    for number, (row, *entries) in enumerate(differences[2:], 1):
        assert row != reference
        for place, (column, text) in enumerate(zip(experiment.columns, entries, strict=True), 1):
            assert in_page[number][place] == [text.strip("*")]
            if (row, column) not in cells:
                assert text == "—"
                continue
            one, other = raw(report, cells[reference, column]), raw(report, cells[row, column])
            if experiment.name == "tiny-semi":
                one, other = ([[math.fsum(each) / len(each) for each in which]] for which in (one, other))
            mean, error = mean_and_error([a - b for a, b in zip(one[0], other[0], strict=True)])
            factor = 1 if experiment.name == "tiny-semi" else 1.96
            assert pair(text.strip("*")) == pytest.approx((mean, factor * error), abs=0.0051)
            assert text.startswith(("+", "−", "**+", "**−"))
            assert text.startswith("**") == (experiment.name == "tiny" and abs(mean) > 1.96 * error)


def test_a_system_with_fewer_test_episodes_is_compared_on_those(images, out, tmp_path):
    report = report_on(table(), images, out)
    row = next(row for row in report.experiment.rows if row != "TPN")
    cells = {
        cell: measured and replace(measured, accuracies=measured.accuracies[: 2 if cell.row == row else None])
        for cell, measured in report.results.cells.items()
    }
    _, markdown, _, _ = read(replace(report, results=replace(report.results, cells=cells)), tmp_path)
    assert f"test episodes ({row}: 2), ±" in markdown
    assert "on the same episodes (those with fewer, on the first of them)" in markdown
    [differences] = [lines for lines in markdown_tables(markdown) if lines[0][0].endswith(" minus")]
    [entries] = [line[1:] for line in differences if line[0] == row]
    made = {(cell.row, cell.column): measured for cell, measured in cells.items()}
    for column, text in zip(report.experiment.columns, entries, strict=True):
        one, other = (made[which, column].accuracies[:2] for which in ("TPN", row))
        expected = mean_and_error([a - b for a, b in zip(one, other, strict=True)])
        assert pair(text.strip("*")) == pytest.approx((expected[0], 1.96 * expected[1]), abs=0.0051)


def check_page(text, page):
    """Nothing from elsewhere, nothing that runs."""
    assert all(address.startswith("#") for address in page.addresses)
    assert not page.tags & {"script", "link", "iframe", "object", "embed", "img", "base"}
    assert "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)]*)\)", text))
    assert "javascript:" not in text
    assert text.startswith("<!DOCTYPE html>")


def check_markdown(text):
    for lines in markdown_tables(text):
        assert len({len(line) for line in lines}) == 1
        assert set(lines[1]) == {"---"}


def test_the_page_needs_nothing_else_and_text_is_text(images, out, tmp_path):
    failures = {"<i>some</i>": "why & <b>|how"}
    report = report_on(table(), images, out, failures=failures)
    text, markdown, _, page = read(report, tmp_path)
    check_page(text, page)
    check_markdown(markdown)
    assert "svg" in page.tags
    assert not page.tags & {"tiny", "soft", "b", "i"}
    assert "<title>A &lt;tiny&gt; &amp; quick | table" in text
    assert COMMAND in unescape(text)
    assert f"    {COMMAND}\n" in markdown
    assert [["<i>some</i>"], ["why & <b>|how"]] in page.tables[-1]
    for name in re.findall(r"\]\((.*?\.png)\)", markdown):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_failure_of_several_lines_does_not_break_the_table(images, out, tmp_path):
    """As those of torch often are."""
    report = report_on(table(), images, out, failures={"some": "RuntimeError: sizes:\nexpected 3\n\ngot 4"})
    _, markdown, _, _ = read(report, tmp_path)
    check_markdown(markdown)
    assert [line for lines in markdown_tables(markdown) for line in lines if line[0] == "some" and "got 4" in line[1]]


def test_the_same_results_make_the_same_report(images, out, tmp_path):
    report = report_on(table(), images, out)
    for name in ("one", "other"):
        write_report(report, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()


def test_weights_that_never_improved_are_marked_where_their_number_stands(images, out):
    report = report_on(table(), images, out)
    for best, marked in ((2, 0), (0, 2)):
        trained = {name: dict(result) for name, result in report.results.trainings.items()}
        for result in trained.values():
            episode = best if result["config"]["method"] == "tpn" else 2
            result["trained"] = {**result["trained"], "best_episode": episode}
        changed = replace(report, results=replace(report.results, trainings=trained))
        text = as_text(main_table(changed))
        assert text.count("†") == marked, "once for each number of TPN"
        assert ("†" in key(changed)) == bool(marked)


def test_other_data_are_marked_and_not_compared(images, out, tmp_path):
    text, markdown, sheet, page = read(report_on(table(), images, out), tmp_path)
    assert any("miniImageNet" in warning and "QuickDraw" in warning for warning in page.warnings)
    assert "difference +" not in text + markdown
    assert "difference -" not in text + markdown
    assert {line["data"] for line in sheet} == {"quickdraw"}
    names = [re.sub("-[0-9a-f]{6}", "-changed", path.name) for path in sorted(tmp_path.glob("*.*"))]
    assert names == [
        "tiny-quickdraw-quick-changed-learning.png",
        "tiny-quickdraw-quick-changed.csv",
        "tiny-quickdraw-quick-changed.html",
        "tiny-quickdraw-quick-changed.md",
    ]


def test_differences_from_the_paper_on_the_same_data(images, out, tmp_path):
    report = report_on(table(), images, out, source=MINI_IMAGENET)
    _, _, _, page = read(report, tmp_path)
    assert not any("QuickDraw" in warning for warning in page.warnings)
    shown = page.tables[0]
    seen = 0
    for cell in report.experiment.cells:
        entry = shown[1 + report.experiment.rows.index(cell.row)][2 + report.experiment.columns.index(cell.column)]
        if cell.published is None:
            assert len(entry) == 1
            continue
        value, uncertainty = expected(report, cell)
        difference = entry[2].removeprefix("difference ")
        assert number(difference.partition(" ")[0]) == pytest.approx(value - cell.published.value, abs=0.0051)
        both = math.sqrt(uncertainty**2 + (cell.published.uncertainty or 0) ** 2)
        assert pair(difference)[1] == pytest.approx(both, abs=0.0051)
        seen += 1
    assert seen == 3


def test_a_budget_that_is_not_the_papers_is_marked(images, out):
    def said(budget, name):
        report = report_on(table(), images, out, budget=budget, budget_name=name)
        return [paragraph.text for paragraph in warnings(report) if paragraph.warning]

    assert any(warning.startswith("The quick budget: ") for warning in said(BUDGETS["quick"], "quick"))
    assert any(
        warning.startswith("The quick budget, with image size None, init None, episodes 2")
        for warning in said(BUDGET, "quick")
    )
    assert not any("budget" in warning for warning in said(BUDGETS["full"], "full"))
    [shorter] = [text for text in said(replace(BUDGETS["full"], test_episodes=10), "full") if "budget" in text]
    assert shorter.startswith("The full budget, with test episodes 10: ")
    assert "longer" not in shorter
    [quick] = [text for text in said(BUDGETS["quick"], "quick") if "budget" in text]
    assert "longer" in quick, "the trainings of the paper"


def test_missing_and_failed_cells_are_shown(images, out, tmp_path):
    (tmp_path / "results").mkdir()
    experiment = table()
    names = list(planned(experiment, images, tmp_path).jobs)
    done = next(path for path in (out / "results").iterdir() if path.stem == names[0])
    (tmp_path / "results" / done.name).write_bytes(done.read_bytes())
    report = report_on(experiment, images, tmp_path, failures={})
    _, markdown, sheet, page = read(report, tmp_path)
    assert any(warning.startswith("3 of 5 numbers") for warning in page.warnings)
    assert markdown.count("| —<br>paper 55.00 ± 0.60 |") == 1
    assert [line["accuracy"] != "" for line in sheet] == [True, True, False, False, False]
    failed = replace(report, failures={names[1]: "no luck"})
    _, markdown, sheet, page = read(failed, tmp_path)
    assert [entry[0] for entry in page.tables[0][2][2:]] == ["failed", "failed"]
    assert page.tables[-1][1:] == [[[names[1]], ["no luck"]]]
    assert "| failed<br>paper 55.00 ± 0.60 |" in markdown
    check_markdown(markdown)
    assert len(sheet) == 5
    assert "failed" in as_text(main_table(failed))


def test_one_of_several_partitions_that_failed_fails_the_cell(images, out):
    report = report_on(semi_supervised(), images, out)
    names = report.plan.of_cell[report.experiment.cells[0]]
    report.results.cells[report.experiment.cells[0]] = None
    grid = main_table(replace(report, failures={names[2]: "why"}))
    assert [row[2].text == "failed" for row in grid.rows] == [True, False]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_report_before_anything_is_done(images, tmp_path, name):
    """Matplotlib must not warn about empty charts: warnings are errors in the tests."""
    experiment = EXPERIMENTS[name].only((EXPERIMENTS[name].methods[-1],))
    plan = planned(experiment, images, tmp_path, BUDGETS["quick"])
    report = report_on(experiment, images, tmp_path, plan=plan, budget=BUDGETS["quick"])
    text, markdown, sheet, page = read(report, tmp_path)
    check_page(text, page)
    check_markdown(markdown)
    assert len(sheet) == len(experiment.cells)
    assert any(warning.startswith(f"{len(sheet)} of {len(sheet)} numbers") for warning in page.warnings)


def test_a_figure_is_drawn_with_the_published_points_on_the_same_data_only(images, out, tmp_path):
    experiment = replace(table(), figure="ways", cells=tuple(replace(c, column=c.column[0]) for c in table().cells))
    for source, beside in ((images.spec, False), (MINI_IMAGENET, True)):
        text, markdown, _, page = read(report_on(experiment, images, out, source=source), tmp_path)
        assert ("<!-- TPN, paper -->" in text) == beside
        assert "<!-- TPN -->" in text
        assert "-figure.png)" in markdown
        assert not any(lines[0][0][0].endswith(" minus") for lines in page.tables)


def test_one_test_episode_has_no_interval(images, out, tmp_path):
    plan = planned(table(), images, tmp_path, replace(BUDGET, test_episodes=1))
    do(plan.jobs)
    report = report_on(table(), images, tmp_path, plan=plan)
    _, _, sheet, page = read(report, tmp_path)
    assert {line["uncertainty"] for line in sheet} == {""}
    assert "±" not in page.tables[0][1][2][0]


def test_a_report_only_reads(images, tmp_path, monkeypatch):
    """It computes nothing with torch and loads no weights: all that it says was measured before."""
    experiment = one_cell("tpn", time_solvers=True)
    plan = planned(experiment, images, tmp_path)
    monkeypatch.setattr(timing, "ROUNDS", 2)
    do(plan.jobs)
    [job] = plan.jobs.values()
    shutil.rmtree(job.run.folder)

    class NothingToCompute(TorchDispatchMode):
        def __torch_dispatch__(self, function, *_):
            raise AssertionError(f"the report computes {function}")

    with NothingToCompute():
        with pytest.raises(AssertionError, match="computes"):
            torch.ones(2)
        _, markdown, _, page = read(report_on(experiment, images, tmp_path), tmp_path)
    times = json.loads(job.timing_file(job.tests[0]).read_text())
    [shown] = [lines for lines in page.tables if lines[0][1] == ["closed form"]]
    for phase, (name, *numbers) in zip(("testing", "training"), shown[1:], strict=True):
        closed, iterative = times[phase]["closed"], times[phase]["iterative"]
        assert name[0].endswith(f"{times['nodes']} nodes, {phase}")
        assert [float(number) for [number] in numbers] == pytest.approx(
            [closed, iterative, closed / iterative], abs=0.006
        )
    assert "## Time" in markdown
