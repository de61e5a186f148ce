"""Many jobs, several at once, in processes on this computer or on a Ray cluster."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tpn.errors import TPNError
from tpn.files import make_folder
from tpn.paper.job import Job, finished
from tpn.paper.worker import STOP, perform_logged
from tpn.progress import progress
from tpn.training.ray_cluster import connect
from tpn.training.stopping import listening

SECONDS_BETWEEN_LOOKS = 0.2
RETRIES = 1
"""How often Ray repeats a job whose node has failed."""


@dataclass
class Outcome:
    """How the jobs of an experiment ended."""

    failures: dict[str, str] = field(default_factory=dict)
    """Why each failed job failed."""
    stopped_by: int | None = None
    """The signal that stopped the experiment, if one did."""


@runtime_checkable
class Workers(Protocol):
    """Processes that do jobs."""

    def start(self, job: Job) -> None:
        """Start a job."""

    def ended(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the jobs that have ended since the last call, and what they returned."""

    def stop(self) -> None:
        """Ask all jobs to save and exit."""

    def close(self) -> None:
        """End all processes that are left."""


class LocalWorkers:
    """Processes on this computer. They end with this one, whatever ends it."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[Job, subprocess.Popen[str]]] = {}

    def start(self, job: Job) -> None:
        make_folder(job.log_file.parent)
        with open(job.log_file, "a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tpn.paper.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # only this process receives Ctrl-C, and passes it on
                env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ},  # as the command line does; see tpn.cli
            )
        assert process.stdin is not None
        process.stdin.write(job.to_json() + "\n")
        process.stdin.flush()
        self._running[job.name] = job, process

    def ended(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, (job, process) in list(self._running.items()):
            if process.poll() is not None:
                del self._running[name]
                yield name, _answer(job, process)

    def stop(self) -> None:
        for _, process in self._running.values():
            with suppress(OSError):  # it has already ended
                assert process.stdin is not None
                process.stdin.write(f"{STOP}\n")
                process.stdin.flush()

    def close(self) -> None:
        for _, process in self._running.values():
            process.kill()
            process.communicate()


def _answer(job: Job, process: "subprocess.Popen[str]") -> dict[str, Any]:
    lines = process.communicate()[0].splitlines()
    try:
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer
    except (IndexError, ValueError):
        return {"failure": f"its process ended with exit code {process.returncode} (see {job.log_file})"}


class RayWorkers:
    """The nodes of a Ray cluster, which must see the same files."""

    def __init__(self, address: str, threads: int, device: str) -> None:
        self._ray = ray = connect(address)
        gpus = int(device != "cpu" and ray.cluster_resources().get("GPU", 0) > 0)
        wanted = {"CPU": threads, "GPU": gpus}
        if not any(
            all(node["Resources"].get(kind, 0) >= number for kind, number in wanted.items()) for node in ray.nodes()
        ):
            raise TPNError(f"No node of the Ray cluster has {threads} CPU cores, as --threads asks for.")
        options = {"num_cpus": threads, "num_gpus": gpus, "max_calls": 1, "max_retries": RETRIES}
        self._perform = ray.remote(**options)(perform_logged)
        self._running: dict[Any, Job] = {}

    def start(self, job: Job) -> None:
        self._running[self._perform.remote(job.to_json())] = job

    def ended(self) -> Iterator[tuple[str, dict[str, Any]]]:
        done, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        for reference in done:
            job = self._running.pop(reference)
            try:
                yield job.name, self._ray.get(reference)
            except self._ray.exceptions.RayError as failure:
                yield job.name, {"failure": f"{' '.join(str(failure).split())} (see {job.log_file})"}

    def stop(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference)

    def close(self) -> None:
        self._ray.shutdown()


def do_jobs(jobs: dict[str, Job], workers: Workers, at_once: int, what: str) -> Outcome:
    """Do what is missing of these jobs, `at_once` at a time. The failure of one does not stop the others."""
    waiting = [job for job in jobs.values() if not finished(job)]
    outcome, running = Outcome(), 0
    try:
        with listening() as request, progress(what, len(jobs), "trainings", len(jobs) - len(waiting)) as advance:
            while running or (waiting and request.signal is None):
                while waiting and running < at_once and request.signal is None:
                    workers.start(waiting.pop(0))
                    running += 1
                if request.signal is not None and outcome.stopped_by is None:
                    outcome.stopped_by = request.signal
                    workers.stop()
                time.sleep(SECONDS_BETWEEN_LOOKS)
                for name, answer in workers.ended():
                    running -= 1
                    advance(1)
                    if answer and outcome.stopped_by is None:
                        outcome.failures[name] = answer.get("failure") or f"it was stopped by {answer['stopped_by']}"
            outcome.stopped_by = request.signal
    finally:
        workers.close()
    return outcome
