"""Processes of their own for what is to be killed, stopped or limited.

They are forked from one that has loaded torch but not used it: loading it takes seconds, which each `python -m tpn`
would spend again. Every worker of the tests starts one such server, the first time it needs it.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

LOADED = ["torch._dynamo", "torch.utils.tensorboard", "tpn.cli.train", "tpn.workflows.train", "tyro"]
"""What is loaded before forking; the optimisers would load the first of them."""
PATIENCE = 300.0

_forking = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
_forking.set_forkserver_preload(LOADED)


class Ended(NamedTuple):
    """How a process ended, and what it said."""

    code: int
    out: str
    error: str


class Running:
    """A process that calls a function, which must be that of a module, and ends with the code it returns."""

    def __init__(self, function: Callable[..., int], *arguments: object, **environment: str) -> None:
        self._said = tempfile.TemporaryDirectory()
        self._files = [Path(self._said.name, name) for name in ("out", "error")]
        for file in self._files:
            file.touch()
        known = {**os.environ, **environment}
        self._process = _forking.Process(target=_call, args=(function, arguments, known, *map(str, self._files)))
        self._process.start()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it has not ended yet."""
        if self.alive:
            with suppress(ProcessLookupError):  # it was quicker
                os.kill(self._process.pid or 0, number)

    def wait(self, seconds: float = PATIENCE) -> Ended:
        """Wait until it has ended; kill it if that takes too long."""
        self._process.join(seconds)
        if late := self.alive:
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        said = [file.read_text(errors="replace") for file in self._files]
        self._process.close()
        self._said.cleanup()
        assert not late, f"it did not end within {seconds:g} seconds; it said: {said}"
        assert code is not None
        return Ended(code, *said)


def run(function: Callable[..., int], *arguments: object, **environment: str) -> Ended:
    """Call a function in a process of its own."""
    return Running(function, *arguments, **environment).wait()


def command(arguments: list[str], room: int | None = None) -> int:
    """Run the command line, as `python -m tpn` does; no file may become larger than there is `room`, in bytes."""
    from tpn.cli import main

    if room is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    return main(arguments)


def _call(
    function: Callable[..., int], arguments: tuple[object, ...], environment: dict[str, str], out: str, error: str
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, file in ((1, out), (2, error)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    sys.exit(function(*arguments))
