"""What one process does for an experiment: a training, and all tests of it.

    python -m tpn.paper.job     takes a job as a line of JSON on standard input, and does it

A job ends with the process that started it: when standard input is closed. What was trained until the last validation,
and every test that was made, is kept, and the same job goes on from there.
"""

import json
import os
import platform
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tpn.allocator import keep_freed_memory
from tpn.episodes import Sampler, Setting
from tpn.errors import TPNError
from tpn.evaluation.protocol import (
    BatchNorm,
    check_setting,
    draw_episodes,
    evaluate_each,
    pictures_to_represent,
    transduction,
)
from tpn.files import make_folder, read_json, write_text
from tpn.images import Images, open_images
from tpn.methods import build_method, find_method
from tpn.paper.recipe import Test
from tpn.progress import progress
from tpn.training.initial import weights_digest
from tpn.training.machine import Machine, Precision, find_device
from tpn.training.run import Run, RunConfig, circumstances, load, settings_for
from tpn.training.settings import from_json
from tpn.training.start import carry_out, check
from tpn.training.tensors import read_tensors

FORMAT = 1
TEST_SEED = 0
"""Which episodes a test has: the same for every system, and those of `tpn evaluate`."""


@dataclass(frozen=True)
class Computing:
    """On what to compute."""

    threads: int = 1
    device: str = "auto"
    precision: Precision = "auto"
    compile: bool = False
    cache: str | None = None
    """Where prepared pictures are kept."""

    def prepare(self) -> Machine:
        """Prepare this process for heavy work, and find the device."""
        keep_freed_memory()
        torch.set_num_threads(self.threads)
        torch.backends.cudnn.allow_tf32 = False  # what is to be float32 is
        return Machine(find_device(self.device)).computing(self.precision, self.compile)


@dataclass(frozen=True)
class Job:
    """A training, and all tests of it that an experiment asks for."""

    name: str
    out: str
    """The folder of the experiment."""
    config: RunConfig
    tests: tuple[Test, ...]
    test_episodes: int
    computing: Computing = Computing()

    @property
    def run(self) -> Run:
        """Where it trains."""
        return Run(Path(self.out, "runs", self.name))

    @property
    def result_file(self) -> Path:
        return Path(self.out, "results", f"{self.name}.json")

    @property
    def log_file(self) -> Path:
        return Path(self.out, "logs", f"{self.name}.log")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        content = json.loads(text)
        config = content["config"]
        config["settings"] = from_json(find_method(config["method"]).Config, config["settings"])
        config["episode"] = from_json(Setting, config["episode"])
        content["config"] = from_json(RunConfig, config)
        content["tests"] = tuple(
            from_json(Test, {**test, "episode": from_json(Setting, test["episode"])}) for test in content["tests"]
        )
        content["computing"] = from_json(Computing, content["computing"])
        return cls(**content)


def described(job: Job, test: Test) -> dict[str, Any]:
    """What a test is, as its result says it."""
    return {
        "method": test.as_method or job.config.method,
        "batch_norm": test.batch_norm,
        "episode": json.loads(json.dumps(asdict(test.episode))),
        "episodes": job.test_episodes,
        "seed": TEST_SEED,
    }


def read_result(job: Job) -> dict[str, Any] | None:
    """What is known of a job already, if it is of the weights that are there now."""
    if not job.result_file.is_file():
        return None
    result = read_json(job.result_file)
    tests, trained = result.get("tests"), result.get("trained")
    whole = isinstance(trained, dict) and isinstance(tests, list) and all(isinstance(test, dict) for test in tests)
    if result.get("format") != FORMAT or not whole:
        raise TPNError(f"{job.result_file} is not a result of this version of tpn: remove it.")
    return result


def find_test(job: Job, test: Test, result: dict[str, Any] | None) -> dict[str, Any] | None:
    """The result of a test, if it has been made."""
    wanted = described(job, test)
    made = [] if result is None else result["tests"]
    return next((one for one in made if wanted.items() <= one.items()), None)


def finished(job: Job) -> bool:
    """Are all tests of it made?"""
    result = read_result(job)
    return all(find_test(job, test, result) is not None for test in job.tests)


def perform(job: Job) -> int | None:
    """Do what is not yet done of a job. Returns the signal that stopped it, if one did."""
    machine = job.computing.prepare()
    config, cache = job.config, job.computing.cache
    images = open_images(
        config.data, config.image_size, cache=None if cache is None else Path(cache), class_seed=config.class_seed
    )
    if images.digest != config.pictures:
        raise TPNError(f"The pictures of {config.data} have changed while the experiment was running.")
    check(job.run, config, True, images, machine)
    check_tests(job, images)
    stopped_by = carry_out(job.run, config, images, machine).stopped_by
    if stopped_by is None:
        with job.run.claimed():
            run_tests(job, images, machine)
    return stopped_by


def check_tests(job: Job, images: Images) -> None:
    """Refuse, before any training, what could not be tested after it."""
    for test in job.tests:
        name = test.as_method or job.config.method
        check_setting(build_method(name, settings_for(name, job.config.settings), job.config.dimensions), test.episode)
        Sampler(images.split("test"), test.episode, TEST_SEED)


def run_tests(job: Job, images: Images, machine: Machine) -> None:
    """Make the tests that are missing, each stored as soon as it is made."""
    result, weights = read_result(job), weights_digest(job.run.folder)
    if result is None or result["weights"] != weights:
        result = {**describe_training(job, machine), "weights": weights, "tests": []}
    split = images.split("test")
    missing: dict[tuple[str | None, BatchNorm], list[Test]] = {}
    for test in job.tests:
        if find_test(job, test, result) is None:
            missing.setdefault((test.as_method, test.batch_norm), []).append(test)
    for (as_method, batch_norm), tests in missing.items():
        method = load(job.run.folder, as_method).to(machine.device)
        episodes = [draw_episodes(split, test.episode, job.test_episodes, TEST_SEED) for test in tests]
        total = pictures_to_represent(method, [episode for drawn in episodes for episode in drawn], batch_norm)
        with progress("testing", total, "pictures") as advance:
            made = evaluate_each(method, split, episodes, batch_norm, advance)
            for test, evaluation in zip(tests, made, strict=True):
                result["tests"].append(
                    {
                        **described(job, test),
                        "transduction": transduction(method, batch_norm),
                        "accuracy": evaluation.mean.value,
                        "ci95": evaluation.mean.ci95,
                        "seconds": evaluation.seconds,
                        "accuracies": [round(accuracy, 6) for accuracy in evaluation.accuracies.tolist()],
                    }
                )
                write_result(job, result)


def write_result(job: Job, result: dict[str, Any]) -> None:
    make_folder(job.result_file.parent)
    write_text(job.result_file, json.dumps(result) + "\n")


def describe_training(job: Job, machine: Machine) -> dict[str, Any]:
    """What was trained, with what, and how it went."""
    config = replace(job.config, data=job.config.data.partition(":")[0], init=None)
    state = read_tensors(job.run.checkpoint_file)[1]["state"]
    return {
        "format": FORMAT,
        "name": job.name,
        "config": asdict(config),
        "written_with": circumstances(machine),
        "machine": describe_machine(),
        "trained": {
            "episodes": state["episode"],
            "seconds": state["seconds"],
            "best_accuracy": state["best_accuracy"],
            "best_episode": state["best_episode"],
            "validations": job.run.read_metrics(),
        },
    }


def describe_machine() -> dict[str, Any]:
    """The machine at hand, as far as it says so."""
    names = [
        line.partition(":")[2].strip()
        for line in (Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else [])
        if line.startswith("model name")
    ]
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "gpus": gpus,
        "system": f"{platform.system()} {platform.machine()}",
    }


@contextmanager
def logging(path: Path) -> Iterator[None]:
    """Let everything that is said go to a file."""
    make_folder(path.parent)
    with open(path, "a", encoding="utf-8", buffering=1) as log, redirect_stdout(log), redirect_stderr(log):
        yield


def perform_logged(text: str) -> dict[str, Any]:
    """Do a job given as JSON. Returns how it ended: nothing said of a failure or a signal means well."""
    job = Job.from_json(text)
    with logging(job.log_file):
        try:
            stopped_by = perform(job)
            return {} if stopped_by is None else {"stopped_by": signal.Signals(stopped_by).name}
        except TPNError as failure:
            print(failure)
            return {"failure": in_one_line(str(failure))}
        except Exception as failure:  # whatever it is, the other jobs go on
            traceback.print_exc()
            return {"failure": in_one_line(f"{type(failure).__name__}: {failure} (see {job.log_file})")}


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def end_with_parent() -> None:
    """End when standard input is closed: the process that started this one is gone."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    text = sys.stdin.readline()
    end_with_parent()
    print(json.dumps(perform_logged(text)), flush=True)


if __name__ == "__main__":
    main()
