"""Bit flips and other damage to what tpn has written: each is refused, mended, or changes nothing that is read."""

import hashlib
import json
import random
import shutil
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import tpn
from torture.campaign import Campaign, Case
from torture.making import TINY, files_of, write_images, write_photos
from torture.mutations import MUTATIONS, flip_bit
from tpn.errors import TPNError
from tpn.runs.folder import Run
from tpn.runs.tensors import read_tensors

SLOW = 10
"""Every so many-th case is one of the slow ones."""


class Flips(Campaign):
    """Damage one file of a run folder, a store or a cache of features, and read all of it again."""

    name, wanted, slice = "flips", 2000, 25

    def prepare(self) -> None:
        warnings.simplefilter("ignore")
        run, photos = self.workspace / "run", self.workspace / "photos"
        self.images = self.workspace / "images"
        if not (run / "model.safetensors").is_file():
            shutil.rmtree(run, ignore_errors=True)
            write_images(self.images)
            write_photos(photos)
            cache = self.workspace / "cache"
            tpn.train("protonet", f"folder:{self.images}", out=run, cache=cache, progress=False, **TINY)
        self.whole = {"run": run, "store": self.workspace / "store", "features": self.workspace / "features"}
        self.readers: dict[str, Callable[[Path], str]] = {
            "run": read_run,
            "store": lambda folder: read_store(self.images, folder),
            "features": lambda folder: read_labels(photos, run, folder),
        }
        self.expected = {kind: read(self.whole[kind]) for kind, read in self.readers.items()}

    def run(self, number: int, chance: random.Random) -> Case:
        kind = "features" if number % SLOW == 0 else chance.choice(("run", "run", "store"))
        folder = self.workspace / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.whole[kind], folder, ignore=shutil.ignore_patterns("tensorboard"))
        names = [name for name, content in files_of(folder).items() if content]
        name = chance.choice(names)
        mutation = flip_bit if chance.random() < 0.7 else chance.choice(MUTATIONS)
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(mutation(content, chance))
        case = Case(f"{mutation.__name__} in {name} of a {kind}", evidence=[folder])
        try:
            found = self.readers[kind](folder)
        except TPNError:
            return case
        if found != self.expected[kind]:
            case.failures.append("silently different")
        return case


def read_run(folder: Path) -> str:
    """Read everything in a run folder, and return a digest of it."""
    run = Run(folder)
    config = run.read_config()
    digest = hashlib.sha256(json.dumps([asdict(config), run.read_metrics()]).encode())
    for name, tensor in sorted(tpn.load(folder).state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    tensors, facts = read_tensors(run.checkpoint_file)
    if facts.get("run") != config.digest:
        raise TPNError("another run")
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    digest.update(json.dumps(facts, sort_keys=True).encode())
    return digest.hexdigest()


def read_store(images: Path, cache: Path) -> str:
    """Open prepared images, and return a digest of their pixels, classes and statistics."""
    opened = tpn.open_images(f"folder:{images}", 16, cache=cache)
    digest = hashlib.sha256(f"{opened.mean} {opened.std} {opened.digest}".encode())
    for split in opened.info():
        part = opened.split(split)
        digest.update(f"{split} {part.classes} {part.starts.tolist()}".encode() + part.images.tobytes())
    return digest.hexdigest()


def read_labels(photos: Path, run: Path, cache: Path) -> str:
    """Label a folder with the features of a cache, and return a digest of labels and confidences."""
    found = tpn.label_folder(photos, backbone=str(run), cache=cache, progress=False, threads=1)
    return hashlib.sha256(f"{found.paths} {found.labels} {found.confidence.round(6).tolist()}".encode()).hexdigest()
