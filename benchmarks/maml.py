"""MAML: a step looped, vectorised, and looped with PyTorch's batch normalisation; memory over 500 steps; inner steps
that are computed twice instead of kept.

The ways are interleaved in one process, so that the load of the machine meets all alike. All give the same loss.
"""

import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from resource import RUSAGE_SELF, getrusage

import torch

from benchmarks.memory import own_memory
from tpn.allocator import keep_freed_memory
from tpn.backbones.batch_norm import ElementaryBatchNorm
from tpn.episodes.task import TrainingTask
from tpn.methods import maml
from tpn.methods._method import Dimensions
from tpn.methods.maml import MAML, MAMLConfig
from tpn.methods.maml_transduction import MAMLTransduction, MAMLTransductionConfig

STEPS, WARM_UP = 3, 1
MEMORY_STEPS = 500


def main() -> None:
    keep_freed_memory()
    print(f"MAML, a second-order step on a meta-batch; interleaved medians of {STEPS} steps")
    for size, channels, shot, tasks in ((28, 1, 1, 4), (28, 1, 5, 2), (84, 3, 1, 4)):
        seconds, apart = measure(size, channels, shot, tasks)
        looped = seconds["looped"]
        others = [
            f"{way} {taken:6.3f} s ({taken / looped:4.2f} x)" for way, taken in seconds.items() if way != "looped"
        ]
        print(
            f"  {size}x{size}x{channels}, 5-way {shot}-shot, {tasks} tasks: looped {looped:6.3f} s   "
            f"{'   '.join(others)}   (losses differ by {apart:.1e})",
            flush=True,
        )
    for way, limit, compiled in (
        ("kept", 10**9, False),
        ("computed twice", maml.LARGE_TASK, False),
        ("computed twice, compiled", maml.LARGE_TASK, True),
    ):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:  # its peak of memory is its own
            seconds_of_task, peak, loss = process.submit(large_task, limit, compiled).result()
        print(
            f"  maml-transduction, 84x84x3, 5-way 1-shot, bfloat16, a task with its inner steps {way}: "
            f"{seconds_of_task:.2f} s of CPU, at most {peak / 1e6:.1f} GB   (loss {loss:.6f})",
            flush=True,
        )
    grown = growth()
    print(f"  memory after {MEMORY_STEPS} more steps (28x28x1, 5-way 1-shot, one task): grown by {grown / 1e3:.1f} MB")


def measure(size: int, channels: int, shot: int, tasks: int) -> tuple[dict[str, float], float]:
    """Median seconds of each way, and how far the losses of their first steps are apart."""
    task = random_task(size, channels, shot, tasks)
    ways = {
        "looped": build(size, channels, shot, vectorised=False),
        "vectorised": build(size, channels, shot, vectorised=True),
        "PyTorch's batch norm": with_batch_norm_of_pytorch(build(size, channels, shot, vectorised=False)),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    losses = []
    for _ in range(WARM_UP + STEPS):
        for way, method in ways.items():
            start = time.perf_counter()
            method.zero_grad()
            losses.append(method.learn(task).loss)
            times[way].append(time.perf_counter() - start)
    first = losses[: len(ways)]
    return {way: statistics.median(taken[WARM_UP:]) for way, taken in times.items()}, max(first) - min(first)


def large_task(limit: int, compiled: bool) -> tuple[float, int, float]:
    """Median seconds of a task on one thread, peak memory in kilobytes, and the loss; `limit` as LARGE_TASK."""
    maml.LARGE_TASK = limit
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.manual_seed(0)
    config = MAMLTransductionConfig(backbone="conv4-linear", zero_head=True)
    method = MAMLTransduction(config, Dimensions(3, 84, 5, 1, 64)).train()
    method.lower_precision(torch.bfloat16)
    if compiled:
        method.compile_backbone()
    task, times = random_task(84, 3, 1, 1), []
    for _ in range(WARM_UP + STEPS):
        start = time.process_time()
        method.zero_grad()
        loss = method.learn(task).loss
        times.append(time.process_time() - start)
    return statistics.median(times[WARM_UP:]), getrusage(RUSAGE_SELF).ru_maxrss, loss


def with_batch_norm_of_pytorch(method: MAML) -> MAML:
    """Replace the batch normalisation of MAML, which is made for gradients of gradients, by PyTorch's own."""
    for parent in list(method.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, ElementaryBatchNorm):
                setattr(parent, name, torch.nn.BatchNorm2d(layer.num_features, layer.eps, track_running_stats=False))
    return method


def growth() -> int:
    """Kilobytes by which a training grows in `MEMORY_STEPS` steps, after some to warm up."""
    task, method = random_task(28, 1, 1, 1), build(28, 1, 1, vectorised=False)
    optimiser = torch.optim.Adam(method.parameters())
    taken = []
    for step in range(MEMORY_STEPS + 50):
        optimiser.zero_grad()
        method.learn(task)
        optimiser.step()
        if step in (49, MEMORY_STEPS + 49):
            taken.append(own_memory(os.getpid()) or 0)
    return taken[1] - taken[0]


def build(size: int, channels: int, shot: int, vectorised: bool) -> MAML:
    torch.manual_seed(0)
    return MAML(MAMLConfig(vectorised=vectorised), Dimensions(channels, size, 5, shot, 64)).train()


def random_task(size: int, channels: int, shot: int, tasks: int) -> TrainingTask:
    torch.manual_seed(1)
    support, query = torch.arange(5).repeat_interleave(shot), torch.arange(5).repeat_interleave(15)
    return TrainingTask(
        inputs=torch.rand(tasks, len(support) + len(query), channels, size, size),
        support_labels=support.repeat(tasks, 1),
        way=5,
        n_query=len(query),
        query_labels=query.repeat(tasks, 1),
        classes=torch.arange(5).repeat(tasks, 1),
    )


if __name__ == "__main__":
    main()
