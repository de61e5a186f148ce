"""Jobs in processes: whatever ends them, nothing is lost, no process is left behind, and no failure is silent."""

import os
import shlex
import signal
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tests.paper import BUDGET, TINY, do, planned, quick, tiny
from tests.processes import Running, command
from tpn.cli import main
from tpn.cli.paper import Paper
from tpn.cli.parsing import parse
from tpn.episodes.setting import Setting
from tpn.paper import recipe
from tpn.paper.experiments import find_experiment
from tpn.paper.job import finished, read_result
from tpn.paper.workers import LocalWorkers, do_jobs

RESNET = ["paper", "resnet", "--methods", "tpn", *TINY, "--resnet", "conv4"]
"""Two trainings, 1-shot and 5-shot."""
PATIENCE = 300
"""Seconds until something that should happen has failed to."""


def of_resnet(images, out):
    return planned(find_experiment("resnet", ("tpn",)), images, out, quick(resnet="conv4"))


def until(condition, *arguments):
    end = time.monotonic() + PATIENCE
    while not condition(*arguments):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def workers_in(out):
    """The processes that work on jobs of this folder: those whose log is open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            opened = [os.readlink(handle) for handle in (process / "fd").iterdir()]
            working = b"tpn.paper.worker" in (process / "cmdline").read_bytes()
        except OSError:  # it has ended, or is somebody else's
            continue
        if working and any(name.startswith(str(out)) for name in opened):
            found.append(int(process.name))
    return found


def numbers(jobs):
    return {
        (name, str(test["episode"]), test["method"]): test["accuracies"]
        for name, job in jobs.items()
        for test in read_result(job)["tests"]
    }


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks for processes in /proc")
def test_interrupted_then_killed_the_same_command_ends_where_an_unbroken_one_does(images, tmp_path):
    unbroken = of_resnet(images, tmp_path / "unbroken")
    do(unbroken.jobs)
    out = tmp_path / "a folder, with spaces"
    jobs = of_resnet(images, out).jobs
    first, second = jobs.values()
    arguments = [*RESNET, "--out", str(out)]

    process = Running(command, arguments)
    until(first.run.checkpoint_file.exists)
    process.send(signal.SIGINT)
    ended = process.wait(PATIENCE)
    assert ended.code == 130, ended.error
    assert ended.out == ""
    [again] = [line.partition("tpn paper ")[2] for line in ended.error.splitlines() if "saved" in line]
    assert parse(Paper, "tpn paper", shlex.split(again)) == parse(Paper, "tpn paper", arguments[1:])
    assert "Traceback" not in ended.error
    until(lambda: not workers_in(out))
    assert not list(out.glob("*.html")), "there is nothing to report yet"

    process = Running(command, arguments)
    until(second.run.checkpoint_file.exists)
    assert workers_in(out)
    process.send(signal.SIGKILL)
    assert process.wait(PATIENCE).code == -signal.SIGKILL
    until(lambda: not workers_in(out))
    assert finished(first)
    kept = [first.result_file, first.run.model_file, first.run.checkpoint_file]
    before = [path.stat().st_mtime_ns for path in kept]

    assert main(arguments) == 0
    assert [path.stat().st_mtime_ns for path in kept] == before, "what was finished is not done again"
    assert numbers(jobs) == numbers(unbroken.jobs)
    for job in jobs.values():
        log = job.log_file.read_text()
        assert "Traceback" not in log
        assert "Fatal" not in log
        metrics = [Path(one.out, "runs", job.name, "metrics.jsonl") for one in (job, unbroken.jobs[job.name])]
        assert len({path.read_text() for path in metrics}) == 1
    assert len(list(out.glob("*.html"))) == 1
    assert not list(out.rglob("*.part"))


class Accidents(LocalWorkers):
    """Processes that something else ends: one is killed at once, one is asked to end while it trains."""

    def start(self, job):
        super().start(job)
        _, process = self._running[job.name]
        if job.config.episode.shot == 1:
            process.kill()
        else:
            until(job.run.checkpoint_file.exists)
            process.terminate()


def test_a_job_whose_process_was_ended_from_outside_has_failed(images, tmp_path):
    """Whoever kills it — the system that needs its memory, an administrator —, it is not passed over in silence."""
    cells = [
        recipe.Cell("PROTO NET", f"{shot}-shot", tiny("protonet", shot), recipe.Test(Setting(2, shot, 2)))
        for shot in (1, 2)
    ]
    experiment = recipe.Experiment("two", "Two", "Table 0", "mini-imagenet", tuple(cells))
    jobs = planned(experiment, images, tmp_path, replace(BUDGET, episodes=100_000)).jobs
    outcome = do_jobs(jobs, Accidents(), at_once=2, what="two")
    killed, terminated = jobs
    assert "exit code -9" in outcome.failures[killed]
    assert outcome.stopped_by is None, "nobody asked for all of it to end"
    assert terminated in outcome.failures


def test_ray_gives_the_same_numbers(images, tmp_path, capsys):
    pytest.importorskip("ray", exc_type=ImportError)
    here, there = (
        planned(find_experiment("mini-conv4"), images, tmp_path / name, quick()).jobs for name in ("here", "there")
    )
    do(here)
    command = ["paper", "mini-conv4", *TINY, "--out", str(tmp_path / "there")]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray\..*")
        warnings.filterwarnings("ignore", category=ResourceWarning)  # of its processes, which it leaves to be collected
        assert main([*command, "--ray", "local"]) == 0
    assert numbers(there) == numbers(here)
    assert capsys.readouterr().out.splitlines()[1].startswith("TPN, two stages, 5-way 5-shot  yes")
