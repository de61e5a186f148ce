"""One training step at 84x84x3, 5-way 5-shot 15-query: ours against a straightforward version.

Each runs in a process of its own, as it would in use: ours with the allocator setting that `tpn train` makes, the other
without. Steps are interleaved, so that the load of the machine meets both alike. The ratio is also given with the same
allocator setting for both, so that it can be seen how much of it is the setting.
"""

import multiprocessing as mp
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

STEPS, WARM_UP = 20, 2


def main() -> None:
    print(f"training step, 84x84x3, 5-way 5-shot 15-query; interleaved medians of {STEPS} steps")
    runs = {
        "as each comes": (("straightforward", False), ("tpn", True)),
        "both with memory kept": (("straightforward", True), ("tpn", True)),
        "neither with memory kept": (("straightforward", False), ("tpn", False)),
    }
    for name, (plain, ours) in runs.items():
        theirs, mine, apart = measure(plain, ours)
        print(
            f"  {name:<25} straightforward {theirs:6.3f} s   tpn {mine:6.3f} s   {theirs / mine:4.2f} times as fast"
            f"   (losses differ by {apart:.1e})",
            flush=True,
        )


def measure(plain: tuple[str, bool], ours: tuple[str, bool]) -> tuple[float, float, float]:
    """Median seconds of each, and by how much the losses of their first steps differ."""
    context = mp.get_context("spawn")
    workers = []
    for kind, keep in (plain, ours):
        here, there = context.Pipe()
        process = context.Process(target=serve, args=(there, kind, keep), daemon=True)
        process.start()
        workers.append((process, here))
    times: list[list[float]] = [[], []]
    losses: list[list[float]] = [[], []]
    for _ in range(WARM_UP + STEPS):
        for index, (_, connection) in enumerate(workers):
            connection.send("step")
            seconds, loss = connection.recv()
            times[index].append(seconds)
            losses[index].append(loss)
    for process, connection in workers:
        connection.send("end")
        process.join()
    theirs, mine = (statistics.median(taken[WARM_UP:]) for taken in times)
    return theirs, mine, abs(losses[0][0] - losses[1][0])


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
