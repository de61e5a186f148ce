"""The report of a benchmark of heads: one HTML page, a Markdown file with its plots, a CSV and a JSON file."""

import csv
import io
from pathlib import Path

from matplotlib.figure import Figure

from tpn.evaluation.intervals import Mean
from tpn.evaluation.plots.figure import FAINT, INK, new_figure, tidy
from tpn.evaluation.test_settings import DESCRIPTIONS, TestSetting
from tpn.files import replacing, write_json, write_text
from tpn.paper.report.charts import image
from tpn.paper.report.document import Command, Document, Entry, Grid, Heading, Image, Paragraph, Part
from tpn.paper.report.writing import to_html, to_markdown
from tpn.workflows.benchmark_result import BenchmarkResult
from tpn.workflows.evaluate import CLASS_BALANCE

BASELINE = "simple-shot"
COLOURS = {"unknown": "#2f6fde", "estimated": "#15936a", "equal": "#e07b00"}


def write_benchmark(result: BenchmarkResult) -> list[Path]:
    """Write the report into the folder of the benchmark; return its files."""
    folder, document = result.folder, compose(result)
    files = {folder / "benchmark.html": to_html(document), folder / "benchmark.md": to_markdown(document)}
    files[folder / "benchmark.csv"] = _csv(result)
    for path, text in files.items():
        write_text(path, text)
    images = {folder / f"{part.name}.png": part.png for part in document.parts if isinstance(part, Image)}
    for path, png in images.items():
        with replacing(path) as stream:
            stream.write(png)
    write_json(folder / "benchmark.json", result.to_dict())
    return [*files, folder / "benchmark.json", *images]


def columns(result: BenchmarkResult) -> list[tuple[TestSetting, int]]:
    """Return the settings and shots of the benchmark, in order."""
    return [(setting, shot) for setting in result.options.settings for shot in result.options.shots]


def compose(result: BenchmarkResult) -> Document:
    """Return the report."""
    options, places = result.options, columns(result)
    named = dict.fromkeys(setting for setting, _ in places)
    parts: list[Part] = [
        Paragraph(
            f"{len(result.infos)} heads on the same features of {result.data}, embedded once by the backbone of "
            f"{result.run}, and on the same {options.tasks:,} tasks in each setting: {options.way}-way, "
            f"{options.query} queries of each class, seed {options.seed}. Mean accuracy in %, with 95 % intervals. "
            "Marked: the best head of a column, and those whose paired difference to it is within its 95 % interval. "
            "Class balance: what a head knows of the class proportions of the queries."
        ),
        Paragraph(_tuning(result)),
        Grid(("setting", "queries"), tuple((name, DESCRIPTIONS[name]) for name in named)),
        Heading("Accuracy"),
        _accuracies(result, places),
    ]
    if any(cell.aurocs is not None for cell in result.cells):
        parts += [
            Heading("Open set: queries of no class"),
            Paragraph(
                "Area under the ROC curve of the confidence (the probability of the best class): 50 is chance, 100 "
                "separates queries of the classes from all others."
            ),
            _aurocs(result, places),
        ]
    if BASELINE in result.infos:
        parts += [
            Heading("Differences from the nearest class mean"),
            Paragraph(f"Paired differences in accuracy from {BASELINE}, the nearest class mean, in percentage points."),
            _differences(result, places),
        ]
    first = places[0]
    parts += [Heading("Accuracy and time")]
    parts += [image(f"time-{first[0]}-{first[1]}shot", _caption(*first), draw_times(result, *first))]
    if result.chosen:
        parts += [Heading("Settings chosen on the validation classes"), _settings(result)]
    parts += [Heading("How this was made"), Command(command(result))]
    return Document(f"Heads on {result.run}", tuple(parts))


def command(result: BenchmarkResult) -> str:
    """Return the command that makes this report."""
    options = result.options
    flags = [f"--settings {' '.join(options.settings)}", f"--shots {' '.join(map(str, options.shots))}"]
    flags += [f"--tasks {options.tasks}"]
    flags += [f"--heads {' '.join(options.heads)}"] if options.heads else []
    flags += [f"--cross-data {options.cross_data}"] if options.cross_data else []
    flags += [f"--tune --tune-tasks {options.tune_tasks}"] if options.tune else []
    return f"tpn benchmark {result.run} --data {result.data} {' '.join(flags)}"


def text_table(result: BenchmarkResult) -> str:
    """Return the accuracies as a table of text."""
    places, width = columns(result), max(map(len, result.infos))
    lines = [
        f"{result.data}: {result.options.tasks:,} tasks in each setting; *: the best, and those within chance of it"
    ]
    lines.append(" " * (width + 2) + "  ".join(f"{f'{setting} {shot}-shot':>17}" for setting, shot in places))
    for head in result.infos:
        shown = []
        for place in places:
            cell = result.column(*place).get(head)
            mark = "*" if cell is not None and head in result.best(*place) else " "
            shown.append(f"{'-' if cell is None else f'{_points(cell.accuracy)}{mark}':>17}")
        lines.append(f"{head:<{width}}  {'  '.join(shown)}")
    return "\n".join([*lines, f"report: {result.folder / 'benchmark.html'}"])


def draw_times(result: BenchmarkResult, setting: TestSetting, shot: int) -> Figure:
    """Draw the accuracy of each head against the time that it takes."""
    figure = new_figure(9, 5.2)
    axes = figure.subplots()
    seen = set()
    cells = sorted(result.column(setting, shot).values(), key=lambda cell: cell.accuracy.value)
    for number, cell in enumerate(cells):
        info, x, y = result.infos[cell.head], cell.seconds_per_thousand, 100 * cell.accuracy.value
        label = None if info.class_balance in seen else f"class balance {CLASS_BALANCE[info.class_balance]}"
        seen.add(info.class_balance)
        colour, marker = COLOURS[info.class_balance], "o" if info.transduction != "no" else "s"
        error = 100 * (cell.accuracy.ci95 or 0)
        axes.errorbar(x, y, yerr=error, color=colour, marker=marker, ms=6, lw=1, capsize=2, label=label)
        right = number % 2 == 0
        axes.annotate(
            cell.head,
            (x, y),
            textcoords="offset points",
            xytext=(8 if right else -8, -3),
            ha="left" if right else "right",
            fontsize=8,
            color=INK,
        )
    axes.set_xscale("log")
    axes.margins(x=0.18)
    axes.set_xlabel("seconds for 1,000 tasks, given the features", color=INK)
    axes.set_ylabel("accuracy in %", color=INK)
    axes.set_title(f"{setting}, {shot}-shot (squares: inductive)", color=FAINT, fontsize=9)
    axes.legend(frameon=False, fontsize=8)
    tidy(axes)
    return figure


def _caption(setting: TestSetting, shot: int) -> str:
    return f"Accuracy against time: {setting}, {shot}-shot."


def _points(mean: Mean, sign: str = "") -> str:
    interval = "" if mean.ci95 is None else f" ± {100 * mean.ci95:.2f}"
    return f"{100 * mean.value:{sign}.2f}{interval}"


def _title(setting: TestSetting, shot: int) -> str:
    return f"{setting}, {shot}-shot"


def _accuracies(result: BenchmarkResult, places: list[tuple[TestSetting, int]]) -> Grid:
    rows: list[tuple[str | Entry, ...]] = []
    for head, info in result.infos.items():
        cells = [result.column(*place).get(head) for place in places]
        times = [cell.seconds_per_thousand for cell in cells if cell is not None and cell.setting != "whole"]
        row: list[str | Entry] = [head, info.transduction, CLASS_BALANCE[info.class_balance]]
        for place, cell in zip(places, cells, strict=True):
            if cell is None:
                row.append(Entry("–"))
                continue
            row.append(Entry(_points(cell.accuracy), best=head in result.best(*place)))
        row.append(Entry(f"{sum(times) / len(times):.1f} s" if times else "–"))
        rows.append(tuple(row))
    header = ("head", "transduction", "class balance", *(_title(*place) for place in places), "1,000 tasks")
    return Grid(header, tuple(rows))


def _aurocs(result: BenchmarkResult, places: list[tuple[TestSetting, int]]) -> Grid:
    open_places = [place for place in places if any(cell.aurocs is not None for cell in result.column(*place).values())]
    rows: list[tuple[str | Entry, ...]] = []
    for head in result.infos:
        found = [result.column(*place).get(head) for place in open_places]
        means = [None if cell is None else cell.auroc for cell in found]
        top = [
            max(cell.auroc.value for cell in result.column(*place).values() if cell.auroc is not None)
            for place in open_places
        ]
        entries = [
            Entry("–") if mean is None else Entry(_points(mean), best=mean.value == best)
            for mean, best in zip(means, top, strict=True)
        ]
        rows.append((head, *entries))
    return Grid(("head", *(_title(*place) for place in open_places)), tuple(rows))


def _differences(result: BenchmarkResult, places: list[tuple[TestSetting, int]]) -> Grid:
    rows: list[tuple[str | Entry, ...]] = []
    for head in result.infos:
        differences = [result.difference(head, BASELINE, *place) for place in places]
        rows.append((head, *(Entry("–" if one is None else _points(one, "+")) for one in differences)))
    return Grid(("head", *(_title(*place) for place in places)), tuple(row for row in rows if row[0] != BASELINE))


def _settings(result: BenchmarkResult) -> Grid:
    rows: list[tuple[str | Entry, ...]] = []
    for head in result.infos:
        chosen = [result.chosen[str(shot)].get(head) for shot in result.options.shots]
        if any(chosen):
            shown = [", ".join(f"{name} {value}" for name, value in (one or {}).items()) for one in chosen]
            rows.append((head, *shown))
    return Grid(("head", *(f"{shot}-shot" for shot in result.options.shots)), tuple(rows))


def _tuning(result: BenchmarkResult) -> str:
    if not result.chosen:
        return "All heads have their default settings, which are those of their papers unless stated otherwise."
    return (
        "The settings of each head were chosen on the validation classes, never on these: those of the largest mean "
        f"accuracy over balanced and Dirichlet(2) queries, {result.options.tune_tasks} tasks each. No head is told "
        "which setting it is tested in."
    )


def _csv(result: BenchmarkResult) -> str:
    rows, stream = result.rows(), io.StringIO()
    writer = csv.DictWriter(stream, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
