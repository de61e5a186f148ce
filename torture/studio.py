"""SIGKILL of the studio's server at random moments and at chosen system calls: no acknowledged action is lost."""

import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from torture.campaign import Campaign, Case
from torture.making import write_photos
from torture.sandbox import die_at
from tpn.cli import main
from tpn.labelling.journal import Journal
from tpn.labelling.session import Session

KILLS = 3
"""Of one session, one after the other."""
CALLS = ("fsync", "write")
"""The system calls of the journal, as functions of `os`, at which the server is killed."""
CLASSES = ("red", "green", "blue", "grey")
Labels = dict[str, str]


class StudioKills(Campaign):
    """Label in a session as a page does, kill the server, and compare what is on disk with what was acknowledged."""

    name, wanted, slice = "studio", 50, 1

    def prepare(self) -> None:
        warnings.simplefilter("ignore")
        self.photos = self.workspace / "photos"
        if not self.photos.is_dir():
            write_photos(self.photos)
        self.names = sorted(path.relative_to(self.photos).as_posix() for path in self.photos.rglob("*.png"))
        self.features = self.workspace / "features.npy"
        np.save(self.features, np.random.default_rng(0).normal(0, 1, (len(self.names), 40)))

    def run(self, number: int, chance: random.Random) -> Case:
        folder = self.workspace / "session"
        shutil.rmtree(folder, ignore_errors=True)
        user, hows = User(self.names, chance), []
        case = Case("", KILLS, evidence=[folder])
        for _ in range(KILLS):
            how = chance.choice(("moment", "moment", *CALLS))
            hows.append(how)
            arguments = [
                "studio", str(self.photos), "--no-browser", "--features", str(self.features), "--session-folder",
                str(folder), "--cache", str(self.workspace / "cache"), "--threads", "1",
            ]  # fmt: skip
            case.failures += self.label_until_killed(arguments, how, user, chance)
            case.failures += user.compare(folder)
        case.what = f"{len(user.confirmed)} actions acknowledged, killed at {', '.join(hows)}"
        return case

    def label_until_killed(self, arguments: list[str], how: str, user: "User", chance: random.Random) -> list[str]:
        """Start a server, label in it, and end when it is dead. Returns what went wrong before it was killed."""
        reader, writer = os.pipe()
        left, before = chance.randint(1, 20), chance.random() < 0.5
        after = chance.expovariate(1 / 1.0) if how == "moment" else 60.0
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                os.dup2(writer, 1)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
                if how != "moment":
                    die_at(how, left, before)
                main(arguments)
            finally:
                os._exit(1)
        os.close(writer)
        killer = threading.Timer(after, os.kill, (child, signal.SIGKILL))
        url = ""
        try:
            with open(reader) as stream:
                url = stream.readline().strip()
                killer.start()
                if url:
                    user.label(url)
        finally:
            killer.cancel()
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if killer.is_alive():
                killer.join()
        code = os.waitstatus_to_exitcode(status)
        if code != -signal.SIGKILL:
            return [f"the server ended by itself, with code {code}"]
        return [] if url or how != "moment" else ["the server printed no address"]


class User:
    """Sends actions, and knows by itself which labels must be there."""

    def __init__(self, names: list[str], chance: random.Random) -> None:
        self.names, self.chance = names, chance
        self.confirmed: list[str] = []
        """The ids of acknowledged actions."""
        self.states: list[Labels] = []
        """The labels before each action that can be undone, and last the present ones."""
        self.open: tuple[str, Labels] | None = None
        """An action that was sent and not answered, and the labels after it."""

    def label(self, url: str) -> None:
        """Send actions until the server is dead."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        base, end = url.partition("/?")[0], time.monotonic() + 50
        headers = {"Content-Type": "application/json", "Origin": base}
        try:
            opener.open(url, timeout=30).read()
            if not self.states:  # what the sub-folders say is the first action
                self.confirmed = [self.first_id(opener, base)]  # the server may die here, and nothing is known yet
                self.states = [{}, {name: name.partition("/")[0] for name in self.names if self.is_in_class(name)}]
            while time.monotonic() < end:
                action, labels = self.next_action()
                self.open = action["id"], labels
                content = json.dumps(action).encode()
                opener.open(urllib.request.Request(f"{base}/api/act", content, headers), timeout=30).read()
                self.confirm()
        except urllib.error.HTTPError:  # it lives, and refuses what it should take
            raise
        except (urllib.error.URLError, HTTPException, OSError):
            return

    @staticmethod
    def is_in_class(name: str) -> bool:
        return not name.startswith("unlabelled/")

    def first_id(self, opener: urllib.request.OpenerDirector, base: str) -> str:
        """Return a stand-in for the id of the action that the server made itself."""
        revision = json.loads(opener.open(f"{base}/api/state", timeout=30).read())["revision"]
        assert revision == 1, f"a new session begins with the labels of folders, not at revision {revision}"
        return ""

    def next_action(self) -> tuple[dict[str, Any], Labels]:
        """Return an action, and the labels that there will be."""
        identity = f"{self.chance.getrandbits(64):016x}"
        if len(self.states) > 2 and self.chance.random() < 0.2:
            return {"do": "undo", "id": identity}, self.states[-2]
        images = self.chance.sample(range(len(self.names)), self.chance.choice((1, 1, 1, 5)))
        labels = dict(self.states[-1])
        to = self.chance.choice((*CLASSES, "clear"))
        for image in images:
            labels.pop(self.names[image], None)
            if to != "clear":
                labels[self.names[image]] = to
        change = {"to": "clear", "images": images} if to == "clear" else {"to": "label", "label": to, "images": images}
        return {"do": "label", "id": identity, "changes": [change]}, labels

    def confirm(self) -> None:
        """The open action was acknowledged, or was found on disk."""
        assert self.open is not None
        identity, labels = self.open
        self.confirmed.append(identity)
        if labels is self.states[-2]:
            self.states.pop()
        else:
            self.states.append(labels)
        self.open = None

    def compare(self, folder: Path) -> list[str]:
        """Return what is wrong with the session on disk; an action that was not answered may be there or not."""
        if not self.states:
            return []
        journal = Journal(folder)
        found = [str(action["id"]) for action in journal.actions]
        journal.close()
        if self.open is not None and found[1:] == [*self.confirmed[1:], self.open[0]]:
            self.confirm()
        self.open = None
        failures = []
        if found[1:] != self.confirmed[1:]:
            lost = set(self.confirmed[1:]) - set(found)
            failures.append(f"{len(lost)} of {len(self.confirmed)} acknowledged actions are lost, or the order differs")
        with Session(folder) as session:
            if session.labels != self.states[-1]:
                failures.append("the labels are not those that were acknowledged")
        return failures
