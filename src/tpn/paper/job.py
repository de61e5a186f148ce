"""A training, and all tests of it: what an experiment is divided into, and what is known of each part."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tpn.allocator import keep_freed_memory
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.files import make_folder, read_json, write_text
from tpn.methods._registry import find_method
from tpn.paper.recipe import Test
from tpn.runs.folder import Run, RunConfig
from tpn.runs.settings_json import from_json
from tpn.training.device import Machine, Precision, find_device
from tpn.training.splits import TEST_SEED

FORMAT = 1


@dataclass(frozen=True)
class Computing:
    """On what to compute."""

    threads: int = 1
    device: str = "auto"
    precision: Precision = "auto"
    compile: bool = False
    cache: str | None = None
    """Where prepared images are kept."""

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
    """What is known of a job already, whatever has become of its run."""
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


def write_result(job: Job, result: dict[str, Any]) -> None:
    make_folder(job.result_file.parent)
    write_text(job.result_file, json.dumps(result) + "\n")
