"""One training step at 84x84x3, 5-way 5-shot 15-query: ours, plain and compiled, against a straightforward version.

Each runs in a process of its own, as it would in use: ours with the allocator setting that `tpn train` makes, the
straightforward one without. Steps are interleaved, so that the load of the machine meets all alike. The ratios are also
given with the same allocator setting for all, so that it can be seen how much of them is the setting. A long training
on a CPU is compiled by default; before there was compilation, all were as the plain one is. `--precision bfloat16` is
faster on processors that compute in it (AVX-512 BF16, AMX); its losses are other ones.
"""

import multiprocessing as mp
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

STEPS, WARM_UP = 20, 3
LOWERED = "tpn compiled, bfloat16"
KINDS = ("straightforward", "tpn", "tpn compiled", LOWERED)


def main() -> None:
    print(f"training step, 84x84x3, 5-way 5-shot 15-query; interleaved medians of {STEPS} steps")
    for name, keep in {
        "as each comes": {kind: kind != "straightforward" for kind in KINDS},
        "all with memory kept": dict.fromkeys(KINDS, True),
    }.items():
        seconds, apart = measure(keep)
        plain, ours, compiled, lowered = (seconds[kind] for kind in KINDS)
        print(f"  {name}: " + ", ".join(f"{kind} {seconds[kind]:.3f} s" for kind in KINDS))
        print(
            f"    compiled is {plain / compiled:.2f} times as fast as straightforward, and "
            f"{ours / compiled:.2f} times as fast as plain, which is {plain / ours:.2f} times as fast as "
            f"straightforward (losses of the first step differ by {apart:.1e}); in bfloat16 it is "
            f"{compiled / lowered:.2f} times as fast again",
            flush=True,
        )


def measure(keep: dict[str, bool]) -> tuple[dict[str, float], float]:
    """Median seconds of each, and by how much the losses of their first steps differ at most."""
    context = mp.get_context("spawn")
    workers = {}
    for kind in KINDS:
        here, there = context.Pipe()
        process = context.Process(target=serve, args=(there, kind, keep[kind]), daemon=True)
        process.start()
        workers[kind] = (process, here)
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    losses: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(WARM_UP + STEPS):
        for kind, (_, connection) in workers.items():
            connection.send("step")
            seconds, loss = connection.recv()
            times[kind].append(seconds)
            losses[kind].append(loss)
    for process, connection in workers.values():
        connection.send("end")
        process.join()
    first = [taken[0] for kind, taken in losses.items() if kind != LOWERED]
    return {kind: statistics.median(taken[WARM_UP:]) for kind, taken in times.items()}, max(first) - min(first)


def serve(connection: Connection, kind: str, keep: bool) -> None:
    """Make a step whenever asked, and tell how long it took."""
    import torch

    from benchmarks.straightforward import Straightforward
    from tpn.allocator import keep_freed_memory
    from tpn.episodes.task import TrainingTask
    from tpn.methods._method import Dimensions
    from tpn.methods.tpn import TPN, TPNConfig

    if keep:
        keep_freed_memory()
    torch.manual_seed(0)
    images = torch.rand(100, 3, 84, 84)
    support, query = torch.arange(5).repeat_interleave(5), torch.arange(5).repeat_interleave(15)
    images += torch.cat([support, query])[:, None, None, None] / 5  # something to learn
    task = TrainingTask(
        inputs=images.contiguous(memory_format=torch.channels_last)[None],
        support_labels=support[None],
        way=5,
        n_query=75,
        query_labels=query[None],
        classes=torch.arange(5)[None],
    )
    ours = TPN(TPNConfig(), Dimensions(3, 84, 5, 5, 64)).train()
    ours.initialise(task)
    if kind.startswith("tpn compiled"):
        ours.compile_backbone()
    if kind == LOWERED:
        ours.lower_precision(torch.bfloat16)
    model: Any = ours
    if kind == "straightforward":
        model = Straightforward(3)
        with torch.no_grad():
            model(images, support, query, 5)  # gives the lazy layer its shape
            model.copy_weights(ours)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    while connection.recv() == "step":
        start = time.perf_counter()
        optimiser.zero_grad()
        if kind == "straightforward":
            loss = model(images, support, query, 5)
            loss.backward()
            value = loss.item()
        else:
            value = ours.learn(task).loss
        optimiser.step()
        connection.send((time.perf_counter() - start, value))


if __name__ == "__main__":
    main()
