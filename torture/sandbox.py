"""Running a piece of work in a process of its own, with limits on time and memory, and watching what it does."""

import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
)
"""What reading a file must never do: Python reports these before they happen."""
GIGABYTE = 2**30
WAITING = 20
"""How many times its processor time a command may take by the clock."""


@dataclass
class Ended:
    """How a piece of work ended."""

    code: int
    """The exit code; negative for a signal."""
    result: Any = None
    traceback: str = ""
    forbidden: list[str] = field(default_factory=list)
    seconds: float = 0.0
    """Of processor time: the machine may be busy with other things."""
    memory: int = 0
    """Bytes beyond what the process had before."""


def forked(work: Callable[[], Any], most_seconds: float = 60.0) -> Ended:
    """Do some work, whose result must be JSON, in a fork of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _work(work, writer, most_seconds)
    os.close(writer)
    with open(reader, "rb") as stream:
        content = stream.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return Ended(**json.loads(content)) if content else Ended(code)


def _work(work: Callable[[], Any], writer: int, most_seconds: float) -> None:
    """Do the work, report and end this process."""
    ended = Ended(0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(most_seconds) + 1, int(most_seconds) + 2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def watch(event: str, _: tuple[Any, ...]) -> None:
        if event in FORBIDDEN:
            ended.forbidden.append(event)

    sys.addaudithook(watch)
    start = time.process_time()
    try:
        ended.result = work()
    except BaseException as failure:
        ended.code = 1
        ended.traceback = "".join(traceback.format_exception(failure))[-2000:]
    ended.seconds = time.process_time() - start
    ended.memory = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    with os.fdopen(writer, "wb") as stream:
        stream.write(json.dumps(vars(ended)).encode())
    os._exit(0)


def call(
    command: Callable[[list[str]], int],
    arguments: list[str],
    kill_after: float | None = None,
    most_seconds: int | None = None,
) -> tuple[int, str]:
    """Call the command line in a fork, with a limit on its processor time.

    Returns the exit code (negative: the signal that ended it) and what it printed as errors.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            if most_seconds is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds + 1))
                signal.alarm(WAITING * most_seconds)  # it may wait for processes of its own
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(writer, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            code = _exit_code(command, arguments)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(writer)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    with open(reader, "rb") as stream:
        printed = stream.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), printed


def die_at(how: str, left: int, before: bool) -> None:
    """Let this process be killed before or after one of its next system calls."""
    original = getattr(os, how)

    def wrapped(*values: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*values, **options)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(os, how, wrapped)


def _exit_code(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    try:
        return command(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
