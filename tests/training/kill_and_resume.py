"""Train, killing the process again and again, and resume each time until the training has ended.

The processes are forked from one that has loaded torch but not used it (`tests.processes`), so that many of them take
seconds.
"""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

from tests.processes import command

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
    """Let the system end the process when it has computed for some time, ever longer, however busy the machine is."""
    seconds = chance.uniform(0.01, 0.7 * 1.04**kills)

    def train_and_die() -> int:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        return train()

    return fork(train_and_die)


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


def kill_and_resume(kind: str, folder: Path, seed: int, arguments: list[str]) -> int:
    """Train until the training ends by itself; print how often it was killed, and how often while writing a file.

    `moments` kills after random times; `writes` kills at random steps of writing files, before or after each of them.
    """
    chance = random.Random(seed)
    start = killed_at_a_moment if kind == "moments" else killed_at_a_write

    def train() -> int:
        return command(["train", *arguments, "--out", str(folder), "--resume"])

    half_written = 0
    for kills in range(MOST_KILLS):
        _, status = os.waitpid(start(train, chance, kills), 0)
        code = os.waitstatus_to_exitcode(status)
        half_written += any(folder.glob(".*.part"))
        if code not in (-signal.SIGKILL, -signal.SIGPROF):
            print(kills, half_written)
            return code
    return 1
