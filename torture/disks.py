"""Full, read-only and vanishing disks: nothing half-written is left, and the command goes on when there is room."""

import ctypes
import os
import random
import resource
import shutil
import signal
import subprocess
import warnings
from pathlib import Path
from typing import Any

from torture.campaign import Campaign, Case
from torture.kills import Command, Kills
from torture.making import unfinished
from torture.sandbox import call, forked
from tpn.cli import main

NEW_MOUNTS = 0x00020000
KINDS = ("full", "limited", "read-only", "vanishing")


class Disks(Campaign):
    """Run a command on a small disk, or one that cannot be written or goes away; make room, and run it again.

    It needs the right to mount; without it, only limits on the size of files stand for full disks.
    """

    name, wanted, slice = "disks", 100, 1

    def prepare(self) -> None:
        warnings.simplefilter("ignore")
        self.kills = Kills(self.workspace, self.seed)
        self.kills.prepare()
        self.expected: dict[str, dict[str, bytes]] = {}
        self.can_mount = forked(lambda: _private_disk(self.workspace, "64k")).traceback == ""

    def run(self, number: int, chance: random.Random) -> Case:
        commands = ("train tpn", "train maml", "pretrain", "prepare", "label", "copy", "paper")
        kind, command = KINDS[number % len(KINDS)], commands[(number // len(KINDS)) % len(commands)]
        if not self.can_mount:
            kind = "limited"
        if command not in self.expected:
            self.expected[command] = self.kills.undisturbed(command)
        folder = self.workspace / "disk"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(folder.with_name("gone"), ignore_errors=True)
        folder.mkdir()
        size = chance.randrange(4, 900)
        attack = {"full": self._full, "limited": self._limited, "read-only": self._read_only}.get(kind, self._vanishing)
        ended = forked(lambda: attack(command, folder, size, chance), 300.0)
        case = Case(f"{command} on a {kind} disk ({size} KB)", evidence=[folder])
        case.failures = ended.result if ended.result is not None else [ended.traceback or f"died ({ended.code})"]
        return case

    def _full(self, name: str, folder: Path, size: int, chance: random.Random) -> list[str]:
        _private_disk(folder, f"{size}k")
        command = self.kills.command(name, folder)
        failures = _refused_or_done(call(main, command.arguments))
        failures += [f"left behind: {part}" for part in unfinished(folder)]
        subprocess.run(["mount", "-o", "remount,size=512m", folder], check=True)
        return [*failures, *self._goes_on(name, command, folder)]

    def _limited(self, name: str, folder: Path, size: int, chance: random.Random) -> list[str]:
        command = self.kills.command(name, folder)

        def limited(arguments: list[str]) -> int:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * size, resource.RLIM_INFINITY))
            return main(arguments)

        failures = _refused_or_done(call(limited, command.arguments))
        failures += [f"left behind: {part}" for part in unfinished(folder)]
        return [*failures, *self._goes_on(name, command, folder)]

    def _read_only(self, name: str, folder: Path, size: int, chance: random.Random) -> list[str]:
        """A read-only disk refuses; one that holds the finished work, too, or does nothing."""
        _private_disk(folder, "512m")
        command = self.kills.command(name, folder)
        finished = chance.random() < 0.5
        if finished:
            code, printed = call(main, command.arguments)
            if code:
                return [f"ended with code {code}: {printed[-300:]}"]
            if name == "copy":
                shutil.rmtree(folder / "sorted")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        failures = _refused_or_done(call(main, command.arguments))
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        return [*failures, *self._goes_on(name, command, folder)]

    def _vanishing(self, name: str, folder: Path, size: int, chance: random.Random) -> list[str]:
        """The folder goes away while the command works."""
        command = self.kills.command(name, folder)
        after = chance.uniform(0.05, 1.5)
        child = os.fork()
        if child == 0:
            import time

            time.sleep(after)
            os.rename(folder, folder.with_name("gone"))
            os._exit(0)
        failures = _refused_or_done(call(main, command.arguments))
        os.waitpid(child, 0)
        gone = folder.with_name("gone")
        if gone.exists():  # it comes back
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(gone, folder)
        return [*failures, *self._goes_on(name, command, folder)]

    def _goes_on(self, name: str, command: Command, folder: Path) -> list[str]:
        """Run the command again, and compare what it leaves with an undisturbed call."""
        if name == "copy":
            shutil.rmtree(folder / "sorted", ignore_errors=True)
        code, printed = call(main, command.arguments)
        if code != 0:
            return [f"with room it ended with code {code}: {printed[-300:]}"]
        found = command.results(folder)
        expected = self.expected[name]
        differing = sorted(one for one in {*found, *expected} if found.get(one) != expected.get(one))
        failures = [f"with room not the same: {', '.join(differing)}"] if differing else []
        return failures + [f"left behind at the end: {part}" for part in unfinished(folder)]


def _refused_or_done(ended: tuple[int, str]) -> list[str]:
    code, printed = ended
    if code not in (0, 1, 2) or "Traceback" in printed:
        return [f"ended with code {code}: {printed[-400:]}"]
    return []


def _private_disk(folder: Path, size: str) -> Any:
    """Mount a small disk that only this process and its children see, and that goes away with them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "cannot make private mounts")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
