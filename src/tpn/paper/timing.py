"""How long propagation takes: in closed form, and by iterations, side by side on the graphs of a trained TPN."""

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from tpn.episodes.task import as_task
from tpn.errors import TPNError
from tpn.evaluation.protocol import draw_episodes, embed_rows
from tpn.files import make_folder, read_json, write_text
from tpn.images.split import Images
from tpn.methods.tpn import Propagating
from tpn.paper.job import Job
from tpn.paper.recipe import Test
from tpn.propagation.graph import normalise
from tpn.propagation.solvers import label_matrix, propagate, propagate_stepwise
from tpn.runs.folder import load
from tpn.training.splits import TEST_SEED

EPISODES, ROUNDS, STEPS = 32, 21, 10


def timing(job: Job, test: Test, images: Images) -> dict[str, Any] | None:
    """Milliseconds per episode of both solvers, without and with gradients; measured once (None without weights)."""
    file = Path(job.out, "results", f"{job.name}-{test.episode.shot}shot-timing.json")
    if not file.is_file():
        if not job.run.model_file.is_file():
            return None
        make_folder(file.parent)
        write_text(file, json.dumps(measure(job, test, images)) + "\n")
    return read_json(file)


def measure(job: Job, test: Test, images: Images) -> dict[str, Any]:
    """Both solvers in turn, again and again; the median of each."""
    method = load(job.run.folder)
    if not isinstance(method, Propagating):
        raise TPNError(f"{job.name} does not propagate labels.")
    split = images.split("test")
    episodes = draw_episodes(split, test.episode, EPISODES, TEST_SEED)
    features = torch.stack([embed_rows(method, split, episode.images) for episode in episodes])
    task = as_task(episodes, features)
    with torch.no_grad():
        graph = method.graph(task)
        assert graph is not None
        S = normalise(graph)
    Y = label_matrix(task.support_labels, task.way, S.shape[-1], like=S)
    alpha = method.config.alpha
    solvers = {
        "closed": partial(propagate, S, Y, alpha),
        "iterative": partial(propagate_stepwise, S, Y, alpha, STEPS),
    }
    learning = S.clone().requires_grad_()
    with_gradients = {
        "closed": partial(propagate, learning, Y, alpha),
        "iterative": partial(propagate_stepwise, learning, Y, alpha, STEPS),
    }
    return {
        "nodes": S.shape[-1],
        "episodes_at_once": EPISODES,
        "rounds": ROUNDS,
        "steps": STEPS,
        "threads": torch.get_num_threads(),
        "testing": side_by_side(solvers),
        "training": side_by_side({name: partial(descend, solve) for name, solve in with_gradients.items()}),
    }


def descend(solve: Callable[[], Tensor]) -> None:
    """Propagate, and take the gradient through it."""
    solve().sum().backward()  # type: ignore[no-untyped-call]


def side_by_side(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The median time of each, in milliseconds per episode; all in turn, so that whatever else runs slows down all."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS + 1):  # the first is for warming up
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: 1000 * median(times[1:]) / EPISODES for name, times in seconds.items()}
