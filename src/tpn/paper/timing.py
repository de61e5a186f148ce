"""The time of label propagation in closed form and by iterations, side by side on the graphs of a trained TPN."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import TEST_SEED, Setting
from tpn.episodes.task import as_task
from tpn.errors import TPNError
from tpn.evaluation.protocol import embed_rows
from tpn.images.split import Split
from tpn.methods._method import Method
from tpn.methods._propagating import Propagating
from tpn.propagation.graph import normalise
from tpn.propagation.solvers import label_matrix, propagate, propagate_stepwise

EPISODES, ROUNDS, STEPS = 32, 21, 10


def time_solvers(method: Method, split: Split, setting: Setting) -> dict[str, Any]:
    """Measure the milliseconds per episode of both solvers, without gradients (testing) and with them (training)."""
    if not isinstance(method, Propagating):
        raise TPNError(f"{method.info.name} does not propagate labels: its solvers cannot be timed.")
    episodes = draw_episodes(split, setting, EPISODES, TEST_SEED)
    features = torch.stack([embed_rows(method, split, episode.images) for episode in episodes])
    task = as_task(episodes, features)
    with torch.no_grad():
        graph = method.graph(task)
        assert graph is not None
        S = normalise(graph)
    labels = F.pad(task.support_labels, (0, S.shape[-1] - task.n_support), value=-1)
    Y = label_matrix(labels, task.way, like=S)

    def solvers(S: Tensor) -> dict[str, Callable[[], Tensor]]:
        alpha = method.config.alpha
        return {
            "closed": partial(propagate, S, Y, alpha),
            "iterative": partial(propagate_stepwise, S, Y, alpha, STEPS),
        }

    with_gradients = solvers(S.clone().requires_grad_())
    return {
        "nodes": S.shape[-1],
        "episodes_at_once": EPISODES,
        "rounds": ROUNDS,
        "steps": STEPS,
        "threads": torch.get_num_threads(),
        "testing": side_by_side(solvers(S)),
        "training": side_by_side({name: partial(descend, solve) for name, solve in with_gradients.items()}),
    }


def descend(solve: Callable[[], Tensor]) -> None:
    """Propagate, and compute the gradient."""
    solve().sum().backward()  # type: ignore[no-untyped-call]


def side_by_side(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the median time of each call in milliseconds per episode.

    The calls take turns, so that whatever else runs on the machine slows down all of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS + 1):  # the first round is a warm-up
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: 1000 * median(times[1:]) / EPISODES for name, times in seconds.items()}
