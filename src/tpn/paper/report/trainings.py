"""The tables of a report about the trainings: the course of each, and the circumstances."""

from dataclasses import asdict
from typing import Any

from tpn.episodes.setting import TEST_SEED
from tpn.paper.report.document import Entry, Grid
from tpn.paper.report.report import NOT_YET, Report
from tpn.progress import clock


def trainings_table(report: Report) -> Grid:
    """Return the table of trainings: settings, time and best validation."""
    rows = []
    for name, job in report.plan.jobs.items():
        result = report.results.trainings.get(name)
        trained = result["trained"] if result else None
        settings = job.config.settings
        rows.append(
            (
                name,
                str(job.config.episode),
                settings.backbone,
                f"{trained['episodes']:,}" if trained else f"of {settings.episodes:,}",
                f"{settings.lr:g}, {settings.schedule}",
                f"{100 * trained['best_accuracy']:.2f} at {trained['best_episode']:,}" if trained else NOT_YET,
                clock(trained["seconds"]) if trained else NOT_YET,
            )
        )
    header = ("run", "training episodes", "backbone", "episodes", "learning rate", "best validation in %", "time")
    return Grid(header, tuple(rows), folded=True)


def settings_table(report: Report) -> Grid:
    """Return the table of circumstances: budget, seeds, versions, hardware and time."""
    results = list(report.results.trainings.values())
    seeds = sorted({job.config.seed for job in report.plan.jobs.values()})
    rows: list[tuple[str | Entry, ...]] = [
        ("images", f"{report.data_title}, {report.image_size}×{report.image_size}"),
        ("training seed", ", ".join(map(str, seeds))),
        ("test", f"{report.budget.test_episodes} episodes of the test classes, seed {TEST_SEED}"),
        ("budget", report.budget_title),
    ]
    rows += [
        (f"budget: {name.replace('_', ' ')}", "as in the paper" if value is None else str(value))
        for name, value in asdict(report.budget).items()
    ]
    rows += circumstances(results).items()
    tests = sum(measured.seconds for measured in report.results.cells.values() if measured is not None)
    rows.append(("total time of the tests", clock(tests)))
    return Grid(("what", ""), tuple(rows))


def circumstances(results: list[dict[str, Any]]) -> dict[str, str]:
    """Return the hardware and versions of the trainings, and their total time."""
    if not results:
        return {}
    found: dict[str, list[str]] = {}
    for result in results:
        machine, versions = result["machine"], result["written_with"]
        gpus = f", {', '.join(machine['gpus'])}" if machine["gpus"] else ""
        facts = {
            "hardware": f"{machine['processor']}, {machine['cores']} cores{gpus}, {machine['system']}",
            "versions": f"tpn {versions['tpn']}, torch {versions['torch']}, Python {versions['python']}",
            "computed on": f"{versions['device']}, {versions['threads']} threads, {versions['precision']}",
        }
        for name, value in facts.items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    seconds = sum(result["trained"]["seconds"] for result in results)
    return {name: "; ".join(values) for name, values in found.items()} | {
        "total time of the trainings": clock(seconds),
    }
