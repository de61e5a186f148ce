"""Reproduce the paper: `tpn.reproduce` and `tpn.list_experiments`, behind `tpn paper`.

What needs torch is imported once an experiment really starts: the list, and a wrong name, need none of it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpn.errors import TPNError
from tpn.files import holding, make_folder, sweep
from tpn.paper.budget import BUDGETS
from tpn.paper.experiments import EXPERIMENTS, find_experiment
from tpn.progress import say, showing
from tpn.results import Result
from tpn.text import counted
from tpn.workflows.keywords import build, refuse_unknown, takes
from tpn.workflows.paper_options import PaperOptions

if TYPE_CHECKING:
    from tpn.paper.job import Computing


@dataclass(frozen=True)
class PaperResult(Result):
    """The results of an experiment of the paper, beside the published numbers."""

    experiment: str
    data: str
    budget: str
    cells: tuple[dict[str, Any], ...]
    """Each number of the table or figure: how it was trained and tested, and the accuracies in percent."""
    table: str
    """The main table as text."""
    warnings: tuple[str, ...]
    """What makes the numbers incomplete, or not comparable with the published ones."""
    failures: dict[str, str]
    """Why each failed training failed."""
    stopped_by: int | None
    """The signal that stopped it, if one did. The same call continues, and writes the report at the end."""
    files: tuple[Path, ...]
    """The report: HTML, Markdown, CSV, and the charts as PNG."""
    command: str
    """The command line with the same options."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the table as plain Python data."""
        return {
            "experiment": self.experiment,
            "data": self.data,
            "budget": self.budget,
            "cells": self.rows(),
            "warnings": list(self.warnings),
            "failures": dict(self.failures),
            "stopped_by": self.stopped_by,
            "files": list(map(str, self.files)),
            "command": self.command,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each number, with the columns of the CSV file; None where it has none."""
        return [dict(cell) for cell in self.cells]

    def summary(self) -> str:
        """Return the main table."""
        return self.table


@dataclass(frozen=True)
class ExperimentList(Result):
    """The experiments of the paper."""

    experiments: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the experiments as plain Python data."""
        return {"experiments": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each experiment."""
        return [dict(one) for one in self.experiments]

    def summary(self) -> str:
        """Return the experiments as a table."""
        width = max(map(len, EXPERIMENTS))
        lines = [f"{'experiment':<{width}}  cells  trainings  on               what"]
        for one in self.experiments:
            times = f"{one['trainings']} x {one['partitions']}" if one["partitions"] > 1 else str(one["trainings"])
            lines.append(f"{one['name']:<{width}}  {one['cells']:>5}  {times:>9}  {one['data']:<15}  {one['title']}")
        return "\n".join(lines)


def list_experiments() -> ExperimentList:
    """List the experiments of the paper that `reproduce` can run.

    Returns
    -------
    ExperimentList
        Name, title, place in the paper, dataset, number of cells and of trainings of each experiment. Each training
        is repeated on `partitions` partitions into labelled and unlabelled images.
    """
    return ExperimentList(
        tuple(
            {
                "name": name,
                "title": experiment.title,
                "where": experiment.where,
                "data": experiment.data,
                "cells": len(experiment.cells),
                "trainings": len(experiment.trainings),
                "partitions": BUDGETS["full"].splits if experiment.over_partitions else 1,
                "methods": experiment.methods,
            }
            for name, experiment in EXPERIMENTS.items()
        )
    )


@takes(PaperOptions)
def reproduce(name: str, data: str = "quickdraw", *, progress: bool = True, **options: Any) -> PaperResult:
    """Run an experiment of the paper, and compare the results with the published numbers.

    Everything is kept in `out`, and the same call continues there after any interruption: trainings from their last
    validation, and each test runs once. Experiments with the same `out` share trainings. The report is written as
    HTML, Markdown and CSV. A training that fails is named in the result and does not stop the others.

    Ctrl-C (SIGINT) and SIGTERM save and return what there is so far, with `stopped_by` set.

    Parameters
    ----------
    name : str
        The experiment: one of `list_experiments()`.
    data : str, default='quickdraw'
        Where the images come from: 'quickdraw', 'mini-imagenet:PATH', 'tiered-imagenet:PATH' or 'folder:PATH'.
    progress : bool, default=True
        Show progress and remarks on standard error.
    {options}

    Returns
    -------
    PaperResult
        The numbers beside the published ones, the files of the report, and what failed.

    Examples
    --------
    >>> result = tpn.reproduce("table1", budget="quick", methods=("tpn", "protonet"))  # doctest: +SKIP
    >>> result.to_dataframe()[["row", "column", "accuracy", "published"]]  # doctest: +SKIP
    """
    if not isinstance(data, str):
        raise TPNError("--data must be the name of a source such as folder:PATH: every worker process opens it again.")
    if (budget := options.get("budget", "full")) not in BUDGETS:
        raise TPNError(f"--budget must be one of {', '.join(BUDGETS)}, not {budget!r}.")
    methods = options.get("methods", ())
    options |= {"data": data, "methods": (methods,) if isinstance(methods, str) else tuple(methods)}
    chosen = build(PaperOptions, options)
    refuse_unknown("reproduce", options, PaperOptions)
    find_experiment(name, chosen.methods)
    with showing(progress):
        return _reproduce(name, chosen)


def _reproduce(name: str, options: PaperOptions) -> PaperResult:
    from tpn.backbones._registry import check_backbone
    from tpn.images.opening import open_images
    from tpn.paper.measured import collect
    from tpn.paper.plan import plan
    from tpn.paper.report.content import warnings
    from tpn.paper.report.numbers import as_text, main_table
    from tpn.paper.report.report import Report
    from tpn.paper.report.spreadsheet import row
    from tpn.paper.report.writing import write_report
    from tpn.paper.workers import LocalWorkers, Outcome, RayWorkers, Workers, do_jobs

    experiment, out = find_experiment(name, options.methods), options.out
    budget = BUDGETS[options.budget].override(options)
    if budget.resnet is not None:
        check_backbone(budget.resnet)
    computing = _computing(options)
    images = open_images(
        options.data, budget.image_size, cache=options.cache, strict=options.strict, class_seed=options.class_seed
    )
    planned = plan(experiment, budget, images, out, options.seed, options.class_seed, computing)
    _check_out(out, images.spec)
    collect(planned)  # refuses damaged results before anything starts
    workers: Workers = (
        LocalWorkers() if options.ray is None else RayWorkers(options.ray, computing.threads, computing.device)
    )
    make_folder(out)
    outcome, files = Outcome(), list[Path]()
    with holding(out, f"Another `tpn paper` is at work in {out}: wait for it, or choose another --out."):
        if not options.report_only:
            sweep(out / "results")
            say(
                f"{experiment.where}: {counted(len(experiment.cells), 'cells')} from "
                f"{counted(len(planned.jobs), 'trainings')} on {images.spec}, "
                f"{options.budget} budget, in {out}; logs are in {out / 'logs'}"
            )
            outcome = do_jobs(planned.first, workers, options.at_once, "first stage") if planned.first else outcome
            if outcome.stopped_by is None and not outcome.failures:
                outcome = do_jobs(planned.jobs, workers, options.at_once, experiment.name)
        report = Report(
            experiment=experiment,
            budget=budget,
            budget_name=options.budget,
            source=images.spec,
            image_size=images.image_size,
            plan=planned,
            results=collect(planned),
            failures=outcome.failures,
            command=options.command(name),
        )
        if outcome.stopped_by is None:
            files = write_report(report, out)
    result = PaperResult(
        experiment=name,
        data=images.spec,
        budget=report.budget_title,
        cells=tuple(row(report, cell) for cell in experiment.cells),
        table=as_text(main_table(report)),
        warnings=tuple(warning.text for warning in warnings(report)),
        failures=outcome.failures,
        stopped_by=outcome.stopped_by,
        files=tuple(files),
        command=report.command,
    )
    _explain(result, len(planned.jobs))
    return result


def _explain(result: PaperResult, trainings: int) -> None:
    """Say what keeps the numbers from being comparable, where the report is, and what failed."""
    if result.stopped_by is not None:
        say(f"Stopped and saved. Continue with the same call, or: {result.command}")
        return
    for warning in result.warnings:
        say(warning)
    page, *others = (path for path in result.files if path.suffix != ".png")
    say(f"The report is in {page} (and as {', '.join(path.suffix[1:] for path in others)}).")
    if result.failures:
        say(f"{len(result.failures)} of {trainings} trainings failed:")
        for name, reason in result.failures.items():
            cells = [f"{cell['row']}, {cell['column']}" for cell in result.cells if name in cell["runs"].split()]
            say(f"  {name} (for {'; '.join(cells)}): {reason}")


def _computing(options: PaperOptions) -> "Computing":
    """Check where to compute, and return it for the workers: this process computes nothing."""
    import torch

    from tpn.paper.job import Computing
    from tpn.training.device import Execution, check_compiler, computing
    from tpn.training.distributed import find_processes

    with computing(options.threads, options.device if options.ray is None else "cpu") as device:
        Execution(device, processes=find_processes()).check_alone("tpn paper")
        if options.compile and options.ray is None:
            check_compiler(device)
    threads = options.threads or max(1, torch.get_num_threads() // options.at_once)
    cache = None if options.cache is None else str(options.cache.resolve())
    return Computing(threads, options.device, options.precision, options.compile, options.no_compile, cache)


def _check_out(out: Path, source: str) -> None:
    """Refuse a folder for the results that has another purpose."""
    _, colon, path = source.partition(":")
    if colon and out.resolve().is_relative_to(path):
        raise TPNError(f"{out} lies among the images of {source}: choose another --out.")
    if out.exists() and not out.is_dir():
        raise TPNError(f"{out} is a file: choose another --out.")
    if (out / "config.json").exists():
        raise TPNError(f"{out} is the folder of a single run: choose another --out.")
