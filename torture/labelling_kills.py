"""SIGKILL in the middle of a labelling session: labels, undo, exports and features, all in one folder."""

import csv
import json
import os
import random
import select
import shutil
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import tpn
from torture.campaign import Campaign, Case
from torture.making import files_of, load_everything, unfinished, write_photos
from torture.sandbox import die_at
from tpn.labelling.journal import Journal
from tpn.labelling.session import Session

KILLS, FEW_KILLS = 10, 2
"""Of one session, one after the other; and of the first case, which the tests run too."""
CALLS = ("fsync", "write", "replace", "rename", "mkdir", "open", "unlink")
"""The system calls, as functions of `os`, at which the process is killed."""
CLASSES = ("red", "green", "blue", "grey")
LONGEST = 40.0
Labels = dict[str, str]
Step = dict[str, Any]


class LabellingKills(Campaign):
    """Kill a process that labels, undoes, exports and embeds; compare what is on disk with what it had reported."""

    name, wanted, slice = "labelling", 100, 1

    def prepare(self) -> None:
        warnings.simplefilter("ignore")
        load_everything()
        self.photos = self.workspace / "photos"
        if not self.photos.is_dir():
            write_photos(self.photos)
        self.names = sorted(path.relative_to(self.photos).as_posix() for path in self.photos.rglob("*.png"))
        self.expected: dict[str, bytes] = {}

    def run(self, number: int, chance: random.Random) -> Case:
        folder = self.workspace / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        witness, hows = Witness(self.photos, self.names, folder), []
        kills = KILLS if number else FEW_KILLS
        case = Case("", kills, evidence=[folder])
        for kill in range(kills):
            how = chance.choice(("moment", "moment", *CALLS))
            hows.append(how)
            witness.hear(self.session_until_killed(folder, f"{number} {kill}", how, chance))
            case.failures += witness.compare()
        self.finish(folder)
        shards = {name: content for name, content in files_of(folder / "shards").items() if name.endswith(".npy")}
        self.expected = self.expected or self.undisturbed()
        if shards != self.expected:
            case.failures.append("the features are not those of an undisturbed call")
        if left := unfinished(folder):
            case.failures.append(f"left behind: {', '.join(left)}")
        case.what = f"{len(witness.acknowledged)} actions acknowledged, killed at {', '.join(hows)}"
        return case

    def session_until_killed(self, folder: Path, seed: str, how: str, chance: random.Random) -> Iterator[Step]:
        """Work in a child process until it is killed; yield what it reports before and after each step."""
        reader, writer = os.pipe()
        left, before = chance.randint(1, 25), chance.random() < 0.5
        end = time.monotonic() + (chance.expovariate(1 / 2.0) if how == "moment" else LONGEST)
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                reports = os.dup(writer)
                if how != "moment":
                    die_at(how, left, before)
                work(self.photos, self.names, folder, random.Random(seed), reports)
            finally:
                os._exit(1)
        os.close(writer)
        content = b""
        try:
            while (rest := end - time.monotonic()) > 0 and select.select([reader], [], [], rest)[0]:
                if not (more := os.read(reader, 65536)):
                    break
                content += more
        finally:
            os.kill(child, signal.SIGKILL)
            while more := os.read(reader, 65536):
                content += more
            os.close(reader)
            _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the session ended by itself"
        yield from (json.loads(line) for line in content.split(b"\n")[:-1])

    def finish(self, folder: Path) -> None:
        """Do everything once more, undisturbed, in a process of its own."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                export(self.photos, folder, new_folder(folder))
                embed(self.photos, folder)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0, "the session cannot be finished"

    def undisturbed(self) -> dict[str, bytes]:
        folder = self.workspace / "undisturbed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with Session(folder / "session") as session:
            session.take({self.names[0]: "red", self.names[1]: "green"}, "the test")
        self.finish(folder)
        return {name: content for name, content in files_of(folder / "shards").items() if name.endswith(".npy")}


def work(photos: Path, names: list[str], folder: Path, chance: random.Random, reports: int) -> None:
    """Label, undo, export and embed without an end, and report every step before and after it."""
    write = os.write  # `os.write` itself may be where the process dies

    def report(**step: Any) -> None:
        write(reports, json.dumps(step).encode() + b"\n")

    with Session(folder / "session") as session:
        if session.revision == 0:
            known = {name: name.partition("/")[0] for name in names if not name.startswith("unlabelled/")}
            session.take(known, "the folders")
    while True:
        what = chance.choice(("label", "label", "label", "undo", "export", "embed"))
        with Session(folder / "session") as session:
            what = "label" if what == "undo" and len(session.state.done) < 2 else what
            if what in ("label", "undo"):
                identity = f"{chance.getrandbits(64):016x}"
                paths, to = chance.sample(names, chance.choice((1, 1, 5))), chance.choice(CLASSES)
                action: Step = {"do": what, "id": identity}
                if what == "label":
                    action["changes"] = [{"to": "label", "label": to, "paths": paths}]
                report(begin=what, id=identity)
                session.act(action)
                report(done=what, id=identity, labels=session.labels)
                continue
            labels = session.labels
        name = new_folder(folder)
        report(begin=what, id=name, labels=labels)
        if what == "export":
            export(photos, folder, name)
        else:
            embed(photos, folder)
        report(done=what, id=name, labels=labels)


def new_folder(folder: Path) -> str:
    """Return a name for the next exported folder: that of an export that was killed, if there is one."""
    return f"export {len(list(folder.glob('export *')))}"


def export(photos: Path, folder: Path, name: str) -> None:
    """Label the folder by its session, and export that: one file again and again, and a new folder."""
    tpn.label_folder(
        photos, session=True, session_folder=folder / "session", backbone="mini-conv4", cache=folder / "cache",
        export=[f"label-studio:{folder / 'labels.json'}", f"imagefolder:{folder / name}"], out=folder / "labels.csv",
        no_page=True, force=True, threads=1, progress=False,
    )  # fmt: skip


def embed(photos: Path, folder: Path) -> None:
    """Embed the folder into shards, or go on with it."""
    tpn.embed_images(photos, folder / "shards", backbone="mini-conv4", shard_size=5, threads=1, progress=False)


class Witness:
    """Has heard what a process reported, and knows what must be on disk."""

    def __init__(self, photos: Path, names: list[str], folder: Path) -> None:
        self.photos, self.names, self.folder = photos, names, folder
        self.acknowledged: list[str] = []
        """The ids of actions."""
        self.labels: Labels | None = None
        """After the last of them; None as long as the first labels may not have been taken."""
        self.exported: list[Labels] = []
        """The given labels of the last acknowledged export, and of those that were begun after it."""
        self.has_exported = False
        self.open: Step = {}
        """A step that was begun, and not ended."""

    def hear(self, steps: Iterator[Step]) -> None:
        """Take the reports of a process that is dead."""
        self.open = {}
        for step in steps:
            self.open = step if "begin" in step else {}
            if step.get("done") in ("label", "undo"):
                self.acknowledged.append(step["id"])
                self.labels = step["labels"]
            elif step.get("begin") == "export":
                self.exported.append(step["labels"])
            elif step.get("done") == "export":
                self.exported, self.has_exported = [step["labels"]], True

    def compare(self) -> list[str]:
        """Return what is wrong on disk. A step that was not acknowledged may be there or not, but not half of it."""
        return [*self._journal(), *self._tables(), *self._folders()]

    def _journal(self) -> Iterator[str]:
        journal = Journal(self.folder / "session")
        found = [str(action["id"]) for action in journal.actions][1:]  # the first labels have an id of their own
        journal.close()
        with Session(self.folder / "session") as session:
            labels = session.labels
        if found == [*self.acknowledged, self.open.get("id")] and self.open["begin"] in ("label", "undo"):
            self.acknowledged, self.labels = found, labels
        elif found != self.acknowledged:
            yield f"{len(set(self.acknowledged) - set(found))} acknowledged actions are lost, or the order differs"
        elif self.labels is not None and labels != self.labels:
            yield "the labels are not those that were acknowledged"

    def _tables(self) -> Iterator[str]:
        """Files that are written anew by each export: the old one or the new one, complete."""
        tables = ((self.folder / "labels.csv", given_in_csv), (self.folder / "labels.json", given_in_label_studio))
        for file, read in tables:
            if not file.exists():
                if self.has_exported:
                    yield f"{file.name}, which was acknowledged, is lost"
                continue
            try:
                given = read(file, self.names)
            except (ValueError, KeyError, AssertionError) as failure:
                yield f"{file.name} is not complete: {failure}"
                continue
            if given not in self.exported:
                yield f"{file.name} has other labels than those that were to be exported"

    def _folders(self) -> Iterator[str]:
        for folder in self.folder.glob("*/metadata.csv"):
            rows = list(csv.DictReader(folder.read_text().splitlines()))
            copies = {row["file_name"]: (folder.parent / row["file_name"]).read_bytes() for row in rows}
            if copies != {f"images/{name}": (self.photos / name).read_bytes() for name in self.names}:
                yield f"the exported folder {folder.parent.name} is not complete"
        for folder in self.folder.iterdir():
            if folder.name.startswith("export ") and not (folder / "metadata.csv").is_file():
                yield f"the exported folder {folder.name} is half-written"


def given_in_csv(file: Path, names: list[str]) -> Labels:
    """Return the given labels of a complete table."""
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert [row["path"] for row in rows] == names, "images are missing"
    return {row["path"]: row["label"] for row in rows if row["source"] == "given"}


def given_in_label_studio(file: Path, names: list[str]) -> Labels:
    """Return the given labels of a complete file of Label Studio."""
    tasks = {unquote(task["data"]["image"].partition("?d=")[2]): task for task in json.loads(file.read_text())}
    assert sorted(tasks) == names, "images are missing"
    return {
        name: task["annotations"][0]["result"][0]["value"]["choices"][0]
        for name, task in tasks.items()
        if "annotations" in task
    }
