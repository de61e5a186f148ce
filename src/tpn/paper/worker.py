"""One process of an experiment: it does one job, a training and all its tests.

    python -m tpn.paper.worker     reads a job as a line of JSON from standard input, and does it

On the line `stop` it saves and exits. When standard input is closed, because the process that started it has ended, it
exits at once. The training up to its last validation and every finished test are kept, and the same job continues from
there.
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import TEST_SEED, BatchNorm
from tpn.errors import TPNError
from tpn.evaluation.subject import Subject
from tpn.files import make_folder, read_json
from tpn.images.opening import open_images
from tpn.images.split import Images
from tpn.methods._method import check_way_and_shot
from tpn.methods._registry import find_method
from tpn.paper.job import FORMAT, Job, describe_test, find_test, lacks_timing, read_result, write_result
from tpn.paper.recipe import Test
from tpn.paper.timing import time_solvers
from tpn.runs.folder import Run
from tpn.runs.loading import load_run, weights_digest
from tpn.runs.tensors import read_tensors
from tpn.training.device import Execution
from tpn.training.preflight import check, train_in_folder
from tpn.training.setup import Training

STOP = "stop"


def perform(job: Job) -> int | None:
    """Do what is missing of a job. Returns the signal that stopped it, if one did."""
    execution = job.computing.prepare(job.config)
    job = as_it_began(with_initial_weights(job))
    config, cache = job.config, job.computing.cache
    images = open_images(
        config.data, config.image_size, cache=None if cache is None else Path(cache), class_seed=config.class_seed
    )
    if images.digest != config.data_digest:
        raise TPNError(f"The images of {config.data} changed while the experiment was running.")
    check(job.run, config, execution, resume=True)
    impossible = {test: why for test in job.tests if (why := impossibility(job, test, images)) is not None}
    possible = replace(job, tests=tuple(test for test in job.tests if test not in impossible))
    if possible.tests:
        stopped_by = train_in_folder(Training.build(job.run, config, images, execution)).stopped_by
        if stopped_by is not None:
            return stopped_by
        with job.run.claimed():
            run_tests(possible, images, execution)
    if impossible:
        raise TPNError(" ".join(dict.fromkeys(impossible.values())))
    return None


def with_initial_weights(job: Job) -> Job:
    """Return the job with the digest of the weights that its training starts with, now that they exist."""
    config = job.config
    if config.init is None or config.init_weights:
        return job
    return replace(job, config=replace(config, init_weights=weights_digest(Run(config.init))))


def as_it_began(job: Job) -> Job:
    """Return the job with the digest of its run, which an earlier version with fewer settings may have begun."""
    if not job.run.exists:
        return job
    return replace(job, config=replace(job.config, began_as=job.run.read_config().began_as))


def impossibility(job: Job, test: Test, images: Images) -> str | None:
    """Return why a test is impossible with these images, if it is: a training takes days, so check before."""
    name = test.as_method or job.config.method
    try:
        setting = test.episode
        check_way_and_shot(find_method(name).info, job.config.dimensions, setting.way, [setting.shot])
        EpisodeSampler(images.split("test"), test.episode, TEST_SEED)
    except TPNError as failure:
        return f"Cannot test {test.episode}: {failure.command_line_text}"
    return None


def run_tests(job: Job, images: Images, execution: Execution) -> None:
    """Run the missing tests and measurements, and store the result of each at once."""
    result, weights = read_result(job), weights_digest(job.run)
    if result is None or result["weights"] != weights:
        result = {**describe_training(job), "weights": weights, "tests": []}
    split = images.split("test")
    missing: dict[tuple[str | None, BatchNorm, bool], list[Test]] = {}
    for test in job.tests:
        if find_test(job, test, result) is None:
            missing.setdefault((test.as_method, test.batch_norm, test.flip), []).append(test)
    for (as_method, batch_norm, flip), tests in missing.items():
        settings = {"test_flip": True} if flip else None
        method = load_run(job.run, job.config, as_method, settings=settings)
        execution.prepare_test(method)
        subject = Subject(method, images.spec, split, job.config)
        made = subject.test([test.episode for test in tests], job.test_episodes, TEST_SEED, batch_norm)
        for test, evaluation in zip(tests, made, strict=True):
            result["tests"].append(
                {
                    **describe_test(job, test),
                    "transduction": subject.transduction(batch_norm),
                    "precision": execution.precision_of_test(method),
                    "accuracy": evaluation.mean.value,
                    "ci95": evaluation.mean.ci95,
                    "seconds": evaluation.seconds,
                    "accuracies": [round(accuracy, 6) for accuracy in evaluation.accuracies.tolist()],
                }
            )
            write_result(job.result_file, result)
    for test in job.tests:
        if lacks_timing(job, test):
            write_result(job.timing_file(test), time_solvers(load_run(job.run, job.config), split, test.episode))


def describe_training(job: Job) -> dict[str, Any]:
    """Return the settings, the circumstances and the course of a training."""
    config = replace(job.config, data=job.config.data.partition(":")[0], init=None)
    state = read_tensors(job.run.checkpoint_file)[1]["state"]
    return {
        "format": FORMAT,
        "name": job.name,
        "config": asdict(config),
        "start": None if job.config.init is None else Path(job.config.init).name,
        "written_with": read_json(job.run.config_file)["written_with"],
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
    """Return the processor, cores, GPUs and system of this computer, as far as they are known."""
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
def printing_to(path: Path) -> Iterator[None]:
    """Append everything printed inside this block to a file."""
    make_folder(path.parent)
    with open(path, "a", encoding="utf-8", buffering=1) as log, redirect_stdout(log), redirect_stderr(log):
        yield


def perform_logged(text: str) -> dict[str, Any]:
    """Do a job given as JSON. Returns `failure` or `stopped_by`, or an empty dictionary if all went well."""
    job = Job.from_json(text)
    with printing_to(job.log_file):
        try:
            stopped_by = perform(job)
            return {} if stopped_by is None else {"stopped_by": signal.Signals(stopped_by).name}
        except TPNError as failure:
            print(failure.command_line_text)
            return {"failure": in_one_line(failure.command_line_text)}
        except Exception as failure:  # whatever it is, the other jobs continue
            traceback.print_exc()
            return {"failure": in_one_line(f"{type(failure).__name__}: {failure} (see {job.log_file})")}


def in_one_line(text: str) -> str:
    """Return the text without line breaks."""
    return " ".join(text.split())


def watch_parent() -> None:
    """Save and exit when the parent process asks for it; exit at once when it has ended."""

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == STOP:
                signal.raise_signal(signal.SIGINT)
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()


def main() -> None:
    text = sys.stdin.readline()
    watch_parent()
    print(json.dumps(perform_logged(text)), flush=True)


if __name__ == "__main__":
    main()
