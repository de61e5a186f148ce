"""tpn paper: the experiments of the paper, each with one command."""

import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import torch
from tyro.conf import Positional, arg

from tpn.cli.device_options import TrainingMachineOptions
from tpn.cli.image_options import ImageOptions
from tpn.cli.parsing import Flag, parse
from tpn.errors import TPNError
from tpn.files import holding, make_folder, sweep
from tpn.images.split import Images
from tpn.paper.budget import BUDGETS, Budget
from tpn.paper.experiments import EXPERIMENTS, find_experiment, select
from tpn.paper.job import Computing
from tpn.paper.plan import plan
from tpn.paper.recipe import Experiment
from tpn.paper.report import Report, write_report
from tpn.paper.report.content import warnings
from tpn.paper.report.numbers import as_text, main_table
from tpn.paper.results import collect
from tpn.paper.workers import LocalWorkers, Outcome, RayWorkers, Workers, do_jobs
from tpn.progress import say

MOST_WORKERS = 256


@dataclass(frozen=True, kw_only=True)
class Paper(Budget, TrainingMachineOptions, ImageOptions):
    """Run an experiment of the paper, and set what comes out beside the published numbers.

    `tpn paper list` shows the experiments. Whatever is done is kept in --out, and the same command goes on from there
    after any interruption: trainings from their last validation, and each test is made once. Experiments with the same
    --out share trainings. A report comes at the end, as a page (HTML), as Markdown and as CSV; cells that failed are
    named, and do not stop the others.
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """The experiment, or `list`."""
    data: str = "quickdraw"
    """Where the images come from: quickdraw (which ships with the package), mini-imagenet:PATH, tiered-imagenet:PATH
    or folder:PATH. `tpn data --help` says more."""
    budget: Literal["full", "quick"] = "full"
    """full: as in the paper, which takes a GPU. quick: small images and few episodes, the same for every system, for
    a processor; its numbers show that everything works, not what the systems can do. Each of its settings can be
    changed by its own flag."""
    methods: tuple[str, ...] = ()
    """Only the cells of these methods; if not given, all."""
    out: Path = Path("paper")
    """The folder for runs, results and reports."""
    workers: int | None = None
    """So many trainings at once, each a process of its own with its share of the processor's cores; if not given, one
    (with --ray, as many as the cluster takes, with --threads 1 if not given)."""
    ray: str | None = None
    """Train on the Ray cluster at this address (auto: the one that this machine belongs to; local: a new one here). Its
    machines must see --out and the images under the same paths. It needs the extra tpn[ray]."""
    seed: int = 0
    """Decides the initial weights and the training episodes. Test episodes are the same for every seed."""
    report_only: Flag = False
    """Train and test nothing: make the report of what there is."""


def main(arguments: list[str]) -> int:
    if not arguments:
        arguments = ["--help"]
    if arguments[0] == "list":
        print(overview())
        return 0
    options: Paper = parse(Paper, "tpn paper", arguments)
    experiment = select(find_experiment(options.name), options.methods)
    budget = BUDGETS[options.budget].changed(**{field.name: getattr(options, field.name) for field in fields(Budget)})
    return run(experiment, budget, options, arguments)


def overview() -> str:
    """The experiments, and what each needs."""
    width = max(map(len, EXPERIMENTS))
    lines = [f"{'experiment':<{width}}  cells  trainings  on               what"]
    for name, experiment in EXPERIMENTS.items():
        trainings = len({cell.training for cell in experiment.cells})
        times = f"{trainings} x {BUDGETS['full'].splits}" if experiment.cells[0].of_splits else str(trainings)
        lines.append(
            f"{name:<{width}}  {len(experiment.cells):>5}  {times:>9}  {experiment.data:<15}  {experiment.title}"
        )
    return "\n".join(lines)


def run(experiment: Experiment, budget: Budget, options: Paper, arguments: list[str]) -> int:
    """Run an experiment, and report."""
    at_once = check_workers(options)
    if not 0 <= options.seed < 2**63:
        raise TPNError(f"--seed must be at least 0 and below 2^63, not {options.seed}.")
    machine = (options if options.ray is None else replace(options, device="cpu")).prepare()
    machine.check_alone("tpn paper")
    images = replace(options, image_size=budget.image_size).open(options.data)
    cores = options.threads or max(1, torch.get_num_threads() // at_once)
    cache = None if options.cache is None else str(options.cache.resolve())
    computing = Computing(cores, options.device, options.precision, options.compile, cache)
    planned = plan(experiment, budget, images, options.out, options.seed, options.class_seed, computing)
    check_out(options.out, images)
    collect(planned)  # refuses what is damaged
    workers: Workers = LocalWorkers() if options.ray is None else RayWorkers(options.ray, cores, options.device)
    make_folder(options.out)
    command = shlex.join(["tpn", "paper", *arguments])
    outcome = Outcome()
    with holding(options.out, f"Another tpn paper is at work in {options.out}: wait for it, or choose another --out."):
        if not options.report_only:
            sweep(options.out / "results")
            say(
                f"{experiment.where}: {len(experiment.cells)} cells from {len(planned.jobs)} trainings on "
                f"{images.spec}, {options.budget} budget, in {options.out}; what each says is in {options.out / 'logs'}"
            )
            outcome = do_jobs(planned.jobs, workers, at_once, experiment.name)
        if outcome.stopped_by is not None:
            say(f"Stopped and saved. Go on with: {command}")
            return 128 + outcome.stopped_by
        report = Report(
            experiment, budget, options.budget, images, planned, collect(planned), outcome.failures, command
        )
        files = write_report(report, options.out)
    for warning in warnings(report):
        say(warning.text)
    print(as_text(main_table(report)))
    say(f"The report is in {files[0]} (and as {', '.join(file.suffix[1:] for file in files[1:])}).")
    if outcome.failures:
        say(f"{len(outcome.failures)} of {len(planned.jobs)} trainings failed:")
        for name, why in outcome.failures.items():
            cells = [f"{cell.row}, {cell.column}" for cell, names in planned.of_cell.items() if name in names]
            say(f"  {name} (for {'; '.join(cells)}): {why}")
    return 1 if outcome.failures else 0


def check_workers(options: Paper) -> int:
    """How many trainings at once."""
    if options.workers is not None and not 1 <= options.workers <= MOST_WORKERS:
        raise TPNError(f"--workers must be at least 1 and at most {MOST_WORKERS}, not {options.workers}.")
    return options.workers or (MOST_WORKERS if options.ray else 1)


def check_out(out: Path, images: Images) -> None:
    """Refuse a folder that is something else."""
    _, colon, path = images.spec.partition(":")
    if colon and out.resolve().is_relative_to(path):
        raise TPNError(f"{out} lies among the images of {images.spec}: choose another --out.")
    if out.exists() and not out.is_dir():
        raise TPNError(f"{out} is a file. Choose another --out.")
    if (out / "config.json").exists():
        raise TPNError(f"{out} is the folder of a single run. Choose another --out.")
