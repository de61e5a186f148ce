"""Loading from arrays; and the store of miniImageNet: building it, opening it, drawing episodes, training at 84x84.

With TPN_MINI_IMAGENET naming a copy of miniImageNet, that is used; otherwise a zip of as many made-up images.
"""

import io
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

STEPS, WARM_UP = 12, 2
CLASSES = {"train": 64, "val": 16, "test": 20}
IMAGES = 600


def main() -> None:
    arrays()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = os.environ.get("TPN_MINI_IMAGENET")
        print("images:", "the real miniImageNet" if source else "60,000 made-up images as a zip", flush=True)
        spec = f"mini-imagenet:{source or make(folder / 'made-up.zip')}"
        cache = folder / "cache"
        seconds, memory = watched([sys.executable, "-m", "tpn", "data", "prepare", spec, "--cache", str(cache)])
        print(f"  building the store at 84x84: {seconds:.1f} s, at most {memory / 2**20:.0f} MiB in all its processes")
        seconds = min(opened(spec, cache) for _ in range(3))
        print(f"  opening it again and drawing the first episode, torch being loaded: {seconds:.3f} s", flush=True)
        draw, step = compared(spec, cache)
        print(
            f"  drawing an episode {1000 * draw:.1f} ms, a training step {1000 * step:.0f} ms: {draw / step:.1%}",
            flush=True,
        )
        run = [sys.executable, "-m", "tpn", "train", "tpn", "--data", spec, "--cache", str(cache), "--episodes", "60"]
        seconds, memory = watched([*run, "--validate-every", "30", "--out", str(folder / "run")])
        print(f"  training for 60 episodes with three validations: at most {memory / 2**20:.0f} MiB resident")


def arrays() -> None:
    """`Split.load` beside the plain expression for one array, in every layout; and how fast images_from reads."""
    import numpy as np
    import torch

    from tpn.images.images_from import images_from

    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6400, 84, 84, 3), dtype=np.uint8)
    labels, rows = np.arange(6400) // 100, rng.integers(0, 6400, 80)
    channels_first = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    forms = {
        "channels last, grouped by class": (pixels, labels),
        "channels last, in any order": (pixels, labels[rng.permutation(6400)]),
        "channels first": (channels_first, labels),
        "float32": (pixels.astype(np.float32) / 255, labels),
        "640 features": (rng.random((6400, 640), dtype=np.float32), labels),
    }
    print("loading 80 images of 84x84 from an array, as a multiple of the plain expression:", flush=True)
    for name, data in forms.items():
        split = images_from(train=data).split("train")
        plain, load = [], []
        for _ in range(200):
            start = time.perf_counter()
            torch.from_numpy(pixels[rows]).permute(0, 3, 1, 2).to(torch.float32).div_(255)
            plain.append(time.perf_counter() - start)
            start = time.perf_counter()
            split.load(rows)
            load.append(time.perf_counter() - start)
        ratio = statistics.median(load) / statistics.median(plain)
        print(f"  {name}: {1000 * statistics.median(load):.2f} ms, {ratio:.2f}x", flush=True)
    start = time.perf_counter()
    images_from(train=(pixels, labels))
    print(f"  images_from: {(time.perf_counter() - start) / pixels.nbytes * 2**30:.1f} s per GiB", flush=True)


def make(path: Path) -> Path:
    """Write a zip in the Ravi layout with as many images as miniImageNet has."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as archive:
        for split, classes in CLASSES.items():
            rows = ["filename,label"]
            for class_ in range(classes):
                for image in range(IMAGES):
                    name, stream = f"{split}{class_:03}{image:08}.jpg", io.BytesIO()
                    coarse = rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)
                    Image.fromarray(coarse).resize((84, 84)).save(stream, "JPEG")
                    archive.writestr(f"images/{name}", stream.getvalue())
                    rows.append(f"{name},{split}{class_:03}")
            archive.writestr(f"{split}.csv", "\n".join(rows))
    return path


def watched(command: list[str]) -> tuple[float, int]:
    """Run a command; returns its seconds, and the most bytes that it and its children had resident at once."""
    start, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = threading.Event()
    threading.Thread(target=_wait, args=(process, ended), daemon=True).start()
    while not ended.wait(0.1):
        peak = max(peak, resident(process.pid))
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - start, peak


def _wait(process: subprocess.Popen[bytes], ended: threading.Event) -> None:
    process.wait()
    ended.set()


def resident(root: int) -> int:
    """The memory of a process and its children, pages that they share counted once (the proportional set size)."""
    total, parents = 0, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    for pid in family:
        try:
            facts = (Path("/proc") / str(pid) / "smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in facts.splitlines() if line.startswith("Pss:"))
    return total


OPEN = """
import sys, time
from pathlib import Path
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.images.opening import open_images
start = time.perf_counter()
split = open_images(sys.argv[1], cache=Path(sys.argv[2])).split("train")
split.load(EpisodeSampler(split, Setting(), 0).draw().images)
print(time.perf_counter() - start)
"""


def opened(spec: str, cache: Path) -> float:
    """Seconds to open the store in a new process and draw the first episode."""
    return float(subprocess.run([sys.executable, "-c", OPEN, spec, str(cache)], capture_output=True, check=True).stdout)


def compared(spec: str, cache: Path) -> tuple[float, float]:
    """Median seconds of drawing an episode as normalised tensors, and of a whole training step with it."""
    import torch

    from tpn.allocator import keep_freed_memory
    from tpn.episodes.episode_sampler import EpisodeSampler
    from tpn.episodes.setting import Setting
    from tpn.images.opening import open_images
    from tpn.methods._method import Dimensions
    from tpn.methods.tpn import TPN, TPNConfig
    from tpn.training.setup import draw_step

    keep_freed_memory()
    images = open_images(spec, cache=cache)
    method = TPN(TPNConfig(), Dimensions(3, 84, 5, 5, 64, images.mean, images.std)).train()
    optimiser = torch.optim.Adam(method.parameters())
    sampler = EpisodeSampler(images.split("train"), Setting(), 0)

    def draw_task() -> Any:
        return draw_step(sampler, 1, torch.device("cpu"))

    method.initialise(draw_task())
    drawing, steps = [], []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        method.backbone.normalise(draw_task().inputs[0])
        drawing.append(time.perf_counter() - start)
        start = time.perf_counter()
        optimiser.zero_grad()
        method.learn(draw_task())
        optimiser.step()
        steps.append(time.perf_counter() - start)
    return statistics.median(drawing[WARM_UP:]), statistics.median(steps[WARM_UP:])


if __name__ == "__main__":
    main()
