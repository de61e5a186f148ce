"""Train, killing the process again and again, and resume each time until the training has ended.

    python -m tests.training.kill_and_resume moments|writes FOLDER SEED -- ARGUMENTS OF tpn train

`moments` kills after random times; `writes` kills at random steps of writing files, before or after each of them. The
processes are forked from one that has loaded torch but not used it, so that a hundred of them take seconds.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch._dynamo  # the optimisers would load it, slowly, in each process
import torch.utils.tensorboard  # noqa: F401

import tpn.cli
import tpn.workflows.train  # what the command would load, slowly, in each process

MOST_KILLS = 60


def fork(train: Callable[[], int]) -> int:
    """Start a training in a process of its own."""
    if child := os.fork():
        return child
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = train()
    finally:
        os._exit(code)


def killed_at_a_moment(train: Callable[[], int], chance: random.Random, kills: int) -> int:
    child = fork(train)
    time.sleep(chance.uniform(0, 0.7 * 1.04**kills))  # ever later, so that there is an end on a slow machine too
    os.kill(child, signal.SIGKILL)
    return child


def killed_at_a_write(train: Callable[[], int], chance: random.Random, kills: int) -> int:
    """Let the process die at one of its next calls that make a file appear or reach the disk."""
    left, before = chance.randint(1, 12 + kills), chance.random() < 0.5

    def dying(call):
        def wrapped(*arguments, **options):
            nonlocal left
            left -= 1
            if left == 0 and before:
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*arguments, **options)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    def train_and_die() -> int:
        os.fsync, os.replace = dying(os.fsync), dying(os.replace)
        return train()

    return fork(train_and_die)


def main() -> int:
    kind, folder, seed = sys.argv[1:4]
    arguments = [*sys.argv[sys.argv.index("--") + 1 :], "--out", folder, "--resume", "--threads", "1"]
    chance = random.Random(int(seed))
    start = killed_at_a_moment if kind == "moments" else killed_at_a_write

    def train() -> int:
        return tpn.cli.main(["train", *arguments])

    half_written = 0
    for kills in range(MOST_KILLS):
        _, status = os.waitpid(start(train, chance, kills), 0)
        code = os.waitstatus_to_exitcode(status)
        half_written += any(Path(folder).glob(".*.part"))
        if code != -signal.SIGKILL:
            print(kills, half_written)
            return code
    return 1


if __name__ == "__main__":
    sys.exit(main())
