"""The unit of work of an experiment, one training and all its tests, and the files with its results."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tpn.allocator import keep_freed_memory
from tpn.digests import check_digest, with_digest
from tpn.episodes.setting import TEST_SEED, Setting
from tpn.errors import TPNError
from tpn.files import make_folder, read_json, write_text
from tpn.methods._registry import find_method
from tpn.paper.recipe import Test
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run
from tpn.runs.settings_json import from_json
from tpn.training.device import Execution, Precision, can_compile, compilation_pays, find_device

FORMAT = 1
OF_ALL = {"flip": False}
"""What was the same in all tests, and not stored, when a result was written."""


@dataclass(frozen=True)
class Computing:
    """Where and how a job is computed."""

    threads: int = 1
    device: str = "auto"
    precision: Precision = "auto"
    compile: bool = False
    no_compile: bool = False
    cache: str | None = None
    """The folder for prepared images."""

    def prepare(self, config: RunConfig) -> Execution:
        """Prepare this process for a training with these settings, and find the device."""
        keep_freed_memory()
        torch.set_num_threads(self.threads)
        torch.backends.cudnn.allow_tf32 = False  # float32 means float32
        device, kind = find_device(self.device), find_method(config.method)
        compile = self.compile and can_compile(kind, config.settings.backbone, device)  # there are methods of all kinds
        execution = Execution(device).with_precision(self.precision, compile)
        if not self.compile and not self.no_compile and compilation_pays(config, execution):
            return replace(execution, compile=True)
        return execution


@dataclass(frozen=True)
class Job:
    """A training, and all the tests of it that an experiment needs."""

    name: str
    out: str
    """The folder of the experiment."""
    config: RunConfig
    tests: tuple[Test, ...]
    test_episodes: int
    computing: Computing = Computing()

    @property
    def run(self) -> Run:
        """The run folder of the training."""
        return Run(Path(self.out, "runs", self.name))

    @property
    def result_file(self) -> Path:
        """The file with the results of the training and its tests."""
        return Path(self.out, "results", f"{self.name}.json")

    @property
    def log_file(self) -> Path:
        """The file for what the worker prints."""
        return Path(self.out, "logs", f"{self.name}.log")

    def timing_file(self, test: Test) -> Path:
        """Return the file with the times of the solvers on the episodes of a test."""
        return Path(self.out, "results", f"{self.name}-{test.episode.shot}shot-timing.json")

    def to_json(self) -> str:
        """Return the job as a line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """Return the job that `to_json` wrote."""
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


def describe_test(job: Job, test: Test) -> dict[str, Any]:
    """Return what identifies a test among the results."""
    return {
        "method": test.as_method or job.config.method,
        "batch_norm": test.batch_norm,
        "flip": test.flip,
        "episode": json.loads(json.dumps(asdict(test.episode))),
        "episodes": job.test_episodes,
        "seed": TEST_SEED,
    }


def read_result(job: Job) -> dict[str, Any] | None:
    """Return the results of a job so far, whether or not its run still exists."""
    if not job.result_file.is_file():
        return None
    result = check_digest(read_json(job.result_file), job.result_file)
    tests, trained = result.get("tests"), result.get("trained")
    whole = isinstance(trained, dict) and isinstance(tests, list) and all(isinstance(test, dict) for test in tests)
    if result.get("format") != FORMAT or not whole:
        raise TPNError(f"{job.result_file} was not written by this version of tpn: remove it.")
    if differences := _differences(result.get("config"), job.config):
        raise TPNError(f"{job.result_file} comes from another training: {'; '.join(differences)}. Remove it.")
    return result


def _differences(stored: Any, config: RunConfig) -> list[str]:
    """Describe the settings in which a stored training differs; it may lack those that did not exist at its time."""
    wanted = json.loads(json.dumps(asdict(config)))
    parts = [(stored.get(part), wanted[part]) for part in ("settings", "episode")] if isinstance(stored, dict) else []
    return [
        f"{name} is {before[name]}, not {now[name]}"
        for before, now in parts
        if isinstance(before, dict)
        for name in before.keys() & now.keys()
        if before[name] != now[name]
    ]


def find_test(job: Job, test: Test, result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the result of a test, or None if it is missing."""
    wanted = describe_test(job, test)
    made = [] if result is None else result["tests"]
    return next((one for one in made if wanted.items() <= {**OF_ALL, **one}.items()), None)


def read_timing(job: Job, test: Test) -> dict[str, Any] | None:
    """Return the times of the solvers on the episodes of a test, or None if they were not measured."""
    file = job.timing_file(test)
    return check_digest(read_json(file), file) if test.time_solvers and file.is_file() else None


def lacks_timing(job: Job, test: Test) -> bool:
    """Return whether the times of the solvers are still to be measured, which needs the weights."""
    return test.time_solvers and not job.timing_file(test).is_file() and job.run.model_file.is_file()


def finished(job: Job) -> bool:
    """Return whether all results of a job exist."""
    result = read_result(job)
    return all(find_test(job, test, result) is not None and not lacks_timing(job, test) for test in job.tests)


def write_result(file: Path, result: dict[str, Any]) -> None:
    """Write the results of a job, or the times of the solvers, as JSON."""
    make_folder(file.parent)
    write_text(file, json.dumps(with_digest(result)) + "\n")
