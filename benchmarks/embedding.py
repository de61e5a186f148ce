"""Embedding photographs with EfficientNet-Lite0 into an empty cache: images a second, processor time, and the features.

    python -m benchmarks embedding

Photographs of 300 to 4,000 pixels. With TPN_MINI_IMAGENET naming a copy of miniImageNet they are images of it, enlarged
and with grain, so that they take as many bytes as photographs do; otherwise noise of all scales. The features are
compared with those that are made in the straightforward way: every pixel decoded, Pillow's resizing, PyTorch's network.
"""

import io
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from tpn.allocator import keep_freed_memory
from tpn.backbones._onnx_files import has_onnxruntime
from tpn.backbones.efficientnet_lite import EfficientNetLite0
from tpn.images.dataset_index import Problems
from tpn.labelling import embedding_pipeline
from tpn.labelling.embedding import embed
from tpn.labelling.labelled_folder import find_images
from tpn.labelling.networks import LazyNetwork, find_network
from tpn.progress import showing

NAME, SIZE = "efficientnet-lite0", 224
SETS = {(350, 500): 400, (300, 300): 200, (1000, 1000): 80, (2000, 2000): 30, (4000, 4000): 12}
"""Shortest and longest side, and how many photographs."""
ROUNDS = 3
COMPARED = 32
"""The photographs whose features are compared."""
AT_ONCE = (1, 2, 4, 8, 16)
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Measured:
    """One cold call."""

    per_second: float
    milliseconds: float
    """Of processor time for each image."""
    features: np.ndarray


def main() -> None:
    keep_freed_memory()  # as the commands of tpn do
    loaded = find_network(NAME, CPU).load()
    network = LazyNetwork("benchmark", lambda: loaded)
    straight = EfficientNetLite0().eval().requires_grad_(False)
    by = "onnxruntime" if has_onnxruntime() else "PyTorch"
    print(f"{NAME} by {by}, {torch.get_num_threads()} threads, empty cache; medians of {ROUNDS}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        for sides, number in SETS.items():
            folder = write_photographs(Path(name) / f"{sides[0]}-{sides[1]}", sides, number)
            calls = [cold(folder, network) for _ in range(ROUNDS)]
            speed, spent = (float(np.median([getattr(one, what) for one in calls])) for what in FIGURES)
            print(
                f"  {sides[0]:>4} to {sides[1]:>4} pixels: {speed:6.1f} images/s, {spent:6.1f} ms of processor time "
                f"per image; {difference(folder, calls[0].features, straight)}",
                flush=True,
            )
        folder, number = Path(name) / "350-500", SETS[350, 500]
        for at_once in AT_ONCE if by == "PyTorch" else ():  # onnxruntime gets one image at a time
            with embedded_at_once(at_once):
                calls = [cold(folder, network) for _ in range(ROUNDS)]
            speed, spent = (float(np.median([getattr(one, what) for one in calls])) for what in FIGURES)
            print(f"  {at_once:>4} at once: {speed:6.1f} images/s, {spent:5.1f} ms per image", flush=True)
        seconds = min(whole_command(folder, Path(name)) for _ in range(ROUNDS))
        print(f"  `tpn embed` on 350 to 500 pixels, its start included: {number / seconds:.1f} images/s", flush=True)


FIGURES = ("per_second", "milliseconds")


def cold(folder: Path, network: LazyNetwork) -> Measured:
    """Embed a folder into an empty cache, with a network that is loaded."""
    names = find_images(folder).names
    with tempfile.TemporaryDirectory() as cache, showing(False):
        start, before = time.perf_counter(), processor_time()
        _, features = embed(folder, names, network, Path(cache), CPU, Problems())
        seconds, spent = time.perf_counter() - start, processor_time() - before
    return Measured(len(names) / seconds, 1000 * spent / len(names), features)


def processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def embedded_at_once(number: int) -> Iterator[None]:
    """Let each thread embed this number of images together."""
    usual, embedding_pipeline.EMBEDDED_AT_ONCE = embedding_pipeline.EMBEDDED_AT_ONCE, number
    try:
        yield
    finally:
        embedding_pipeline.EMBEDDED_AT_ONCE = usual


def difference(folder: Path, features: np.ndarray, network: EfficientNetLite0) -> str:
    """Say how far features are from those made in the straightforward way, relative to their length."""
    names = find_images(folder).names[:COMPARED]
    apart = []
    for name, ours in zip(names, features, strict=False):
        with Image.open(folder / name) as image:
            pixels = np.asarray(image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR))
        with torch.inference_mode():
            theirs = network.features(torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() / 255)[0].numpy()
        apart.append(float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)))
    return f"features differ by {max(apart):.1e} of their length at most, {np.mean(apart):.1e} on average"


def whole_command(folder: Path, place: Path) -> float:
    """Seconds that the command takes, all included."""
    with tempfile.TemporaryDirectory(dir=place) as out:
        command = [sys.executable, "-m", "tpn", "embed", str(folder), "--out", f"{out}/shards", "--backbone", NAME]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - start


def write_photographs(folder: Path, sides: tuple[int, int], number: int) -> Path:
    """Write stand-ins for photographs, with sides between these lengths."""
    folder.mkdir()
    chance = np.random.default_rng(sides)
    source = images(chance)
    for index in range(number):
        width, height = (int(chance.integers(sides[0], sides[1] + 1)) for _ in range(2))
        image = next(source).resize((width, height), Image.Resampling.LANCZOS)
        grain = chance.normal(0, 6, (height, width, 1)).astype(np.float32)
        pixels = np.clip(np.asarray(image, np.float32) + grain, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:04}.jpg", quality=90)
    return folder


def images(chance: np.random.Generator) -> Iterator[Image.Image]:
    """Yield small images without an end."""
    if source := os.environ.get("TPN_MINI_IMAGENET"):
        with zipfile.ZipFile(source) as archive:
            names = [name for name in archive.namelist() if name.endswith(".jpg")]
            while True:
                content = archive.read(names[int(chance.integers(len(names)))])
                yield Image.open(io.BytesIO(content)).convert("RGB")
    while True:
        layers = [chance.integers(0, 256, (2**level, 2**level, 3)) for level in range(1, 7)]
        grown = [
            np.asarray(Image.fromarray(layer.astype(np.uint8)).resize((84, 84)), np.float32) / 2**place
            for place, layer in enumerate(layers)
        ]
        yield Image.fromarray(np.clip(np.sum(grown, 0) / 2, 0, 255).astype(np.uint8))


if __name__ == "__main__":
    main()
