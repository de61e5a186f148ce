"""Test many heads in many settings, on features embedded once."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from tpn.backbones._registry import Network, backbone_name
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode
from tpn.errors import TPNError
from tpn.evaluation.embedded_run import EmbeddedRun, embed_run
from tpn.evaluation.intervals import mean_with_interval
from tpn.evaluation.protocol import evaluate
from tpn.evaluation.test_settings import TestSetting, named_setting, number_of_tasks
from tpn.evaluation.tuning import candidates, trials
from tpn.files import make_folder, read_json, write_json
from tpn.images.split import Images, Split
from tpn.methods._head import Head
from tpn.methods._method import Info
from tpn.methods._registry import all_methods, find_method
from tpn.progress import progress as progress_bar
from tpn.progress import say, showing
from tpn.runs.folder import find_run
from tpn.training.device import computing
from tpn.workflows.benchmark_options import BenchmarkOptions
from tpn.workflows.benchmark_result import BenchmarkResult, Cell
from tpn.workflows.keywords import build, refuse_unknown, takes

TUNED, CELLS, TUNING_SEED = "tuned.json", "cells", 1


@takes(BenchmarkOptions)
def benchmark(
    run: str | os.PathLike[str],
    data: str | Images | None = None,
    *,
    backbone: str | Network | None = None,
    progress: bool = True,
    **options: Any,
) -> BenchmarkResult:
    """Test many heads on the backbone of a run, in several settings, on the same tasks; write a report.

    All images of the test split are embedded once, and the feature maps are kept in the cache folder. Results are
    written to the folder `out` one by one: a benchmark that was stopped continues there.

    Parameters
    ----------
    run : path or str
        A run folder, or `mini-conv4`.
    data : str or Images, optional
        The source of the images, by default that of the run.
    backbone : str, nn.Module or callable, optional
        The network of the run, if it is one of your own.
    progress : bool, default=True
        Show a progress bar.
    {options}

    Returns
    -------
    BenchmarkResult
        Prints as a table; has `cells`, `best()`, `difference()`, and `files`: the report and its tables.
    """
    given = dict(options)
    chosen = build(BenchmarkOptions, given)
    refuse_unknown("benchmark", given, BenchmarkOptions)
    if backbone is not None:
        backbone_name(backbone)
    folder = chosen.out or Path("runs") / f"benchmark-{Path(run).name}"
    infos = _infos(run, chosen)
    with showing(progress), computing(chosen.threads, chosen.device) as device:
        found = find_run(run)

        def embedded(split: str, source: str | Images | None = data) -> EmbeddedRun:
            return embed_run(found, source, split, chosen.cache, backbone, device)

        def check(split: Split) -> None:
            """Refuse tasks that the test classes cannot supply, before anything is embedded, tuned or written."""
            for setting in (setting for setting in chosen.settings if setting != "cross-domain"):
                for shot in chosen.shots:
                    draw_episodes(split, composed(split, setting, shot, chosen), 1, chosen.seed)

        tested = embed_run(found, data, "test", chosen.cache, backbone, device, check)
        make_folder(folder / CELLS)
        tuned = _tune(embedded("val"), infos, chosen, folder) if chosen.tune else {}
        cells: list[Cell] = []
        for setting in chosen.settings:
            on = embedded("test", chosen.cross_data) if setting == "cross-domain" else tested
            for shot in chosen.shots:
                cells += _column(on, setting, shot, infos, tuned.get(str(shot), {}), chosen, folder)
        result = BenchmarkResult(str(run), tested.data, chosen, infos, cells, tuned, folder)
        from tpn.workflows.benchmark_report import write_benchmark

        return BenchmarkResult(**{**vars(result), "files": write_benchmark(result)})


def _infos(run: str | os.PathLike[str], options: BenchmarkOptions) -> dict[str, Info]:
    """Return the heads to test: those that are named, or all and the method of the run."""
    heads = {name: kind.info for name, kind in all_methods().items() if issubclass(kind, Head)}
    own = find_method(find_run(run).read_config().method).info
    if not options.heads:
        return heads if own.name in heads else {own.name: own, **heads}
    for name in options.heads:
        if name != own.name and not find_method(name).info.head:
            raise TPNError(f"{name} has weights of its own, so it cannot be tested on the backbone of {run}.")
    return {name: find_method(name).info for name in options.heads}


def composed(split: Split, setting: TestSetting, shot: int, options: BenchmarkOptions) -> Setting:
    """Return the composition of the tasks of a setting."""
    return named_setting(setting, options.way, shot, options.query, len(split.classes))


def _tune(
    embedded: EmbeddedRun, heads: dict[str, Info], options: BenchmarkOptions, folder: Path
) -> dict[str, dict[str, dict[str, Any]]]:
    """Choose the settings of each head on validation classes; keep the choice, and all trials, in tuned.json."""
    file = folder / TUNED
    identity = {"of": embedded.digest, "tasks": options.tune_tasks, "way": options.way, "query": options.query}
    stored: dict[str, Any] = read_json(file) if file.is_file() else {}
    if {name: stored.get(name) for name in identity} != identity:
        stored = {**identity, "chosen": {}, "trials": {}}
    for shot in map(str, options.shots):
        chosen, tried = stored["chosen"].setdefault(shot, {}), stored["trials"].setdefault(shot, {})
        tests = [
            draw_episodes(
                embedded.split,
                composed(embedded.split, name, int(shot), options),
                options.tune_tasks,
                TUNING_SEED,
            )
            for name in ("balanced", "dirichlet")
        ]
        for head in heads:
            # the same settings must be among those that are tried, or the head has changed
            if not candidates(head) or [one["settings"] for one in tried.get(head, [])] == candidates(head):
                continue
            with progress_bar(f"tuning {head}, {shot}-shot", len(candidates(head)), "settings") as advance:
                made = list(trials(embedded, head, tests, advance))
            chosen[head] = max(made, key=lambda trial: trial.accuracy).settings
            tried[head] = [{"settings": one.settings, "accuracies": list(one.accuracies)} for one in made]
            write_json(file, stored)
    named = {shot: {head: stored["chosen"][shot].get(head, {}) for head in heads} for shot in map(str, options.shots)}
    return {shot: {head: settings for head, settings in of.items() if settings} for shot, of in named.items()}


def _column(
    embedded: EmbeddedRun,
    setting: TestSetting,
    shot: int,
    heads: dict[str, Info],
    tuned: dict[str, dict[str, Any]],
    options: BenchmarkOptions,
    folder: Path,
) -> list[Cell]:
    """Test every head in one setting, or read the results that are there."""
    composition = composed(embedded.split, setting, shot, options)
    tasks = number_of_tasks(setting, options.tasks)
    episodes: list[Episode] = []
    cells = []
    for head in heads:
        settings = tuned.get(head, {})
        identity = {
            "of": embedded.digest,
            "episodes": str(composition),
            "tasks": tasks,
            "seed": options.seed,
            "settings": _all_settings(embedded, head, settings),
        }
        file = folder / CELLS / f"{setting}-{shot}shot-{head}.json"
        stored = read_json(file) if file.is_file() else {}
        if any(stored.get(name) != value for name, value in identity.items()):
            episodes = episodes or draw_episodes(embedded.split, composition, tasks, options.seed)
            stored = {**identity, **_test(embedded, head, settings, episodes)}
            write_json(file, stored)
            say(f"{setting}, {shot}-shot: {head} {_shown(stored)}")
        aurocs = None if stored.get("aurocs") is None else np.array(stored["aurocs"])
        accuracies = np.array(stored["accuracies"], np.float64)
        cells.append(Cell(head, setting, shot, accuracies, stored["seconds"], aurocs, stored.get("refused", "")))
    return cells


def _all_settings(embedded: EmbeddedRun, head: str, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a head, defaults included, so that a result with other defaults is not taken for it."""
    own = embedded.config.settings if head == embedded.config.method else find_method(head).Config()
    settings: dict[str, Any] = json.loads(json.dumps(asdict(replace(own, **chosen))))
    return settings


def _test(embedded: EmbeddedRun, head: str, settings: dict[str, Any], episodes: list[Episode]) -> dict[str, Any]:
    try:
        outcome = evaluate(embedded.method(head, settings), embedded.split, episodes)
    except TPNError as refusal:
        return {"accuracies": [], "seconds": 0.0, "refused": str(refusal)}
    aurocs = None if outcome.aurocs is None else [round(float(one), 6) for one in outcome.aurocs]
    return {
        "accuracies": [round(float(one), 6) for one in outcome.accuracies],
        "seconds": round(outcome.seconds, 3),
        "aurocs": aurocs,
    }


def _shown(stored: dict[str, Any]) -> str:
    if stored.get("refused"):
        return f"not tested: {stored['refused']}"
    return f"{mean_with_interval(np.array(stored['accuracies'], np.float64))} in {stored['seconds']:.1f} s"
