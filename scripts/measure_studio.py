"""Measure the studio: from a keystroke to new guesses in the page, first pictures, scrolling, and a simulated user.

    python -m scripts.measure_studio latency --images 10000
    python -m scripts.measure_studio scroll --images 100000
    python -m scripts.measure_studio first --images 10000
    python -m scripts.measure_studio user --features FEATURES.npy --labels TRUTH.npy

The first three make up a folder of small images, 20 classes, and features (none for `first`, which is cold), and drive
the page in chromium, which must be installed. The last needs no browser: it answers what the studio asks by the truth.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import tpn
from tpn.labelling.folder_graph import FolderGraph
from tpn.studio_server.guessing import Guessing

CLASSES, DIMENSIONS = 20, 256


def make_folder(folder: Path, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Write images of 20 colours, and return features of overlapping classes and the classes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(CLASSES, size=number)
    folder.mkdir()
    tones = rng.integers(0, 256, (CLASSES, 3))
    variants = [[_image(folder.parent / f"{c}-{k}.jpg", tones[c], rng) for k in range(10)] for c in range(CLASSES)]
    for index, class_ in enumerate(truth):
        shutil.copyfile(variants[class_][index % 10], folder / f"{index:06}.jpg")
    centres = rng.normal(0, 1, (CLASSES, DIMENSIONS))
    return (centres[truth] + rng.normal(0, 1.6, (number, DIMENSIONS))).astype(np.float32), truth


def _image(file: Path, tone: np.ndarray, rng: np.random.Generator) -> Path:
    pixels = np.clip(tone + rng.integers(-40, 40, (96, 96, 3)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(file)
    return file


def until(page: Any, script: str, seconds: float = 600.0) -> None:
    """Wait until a script in the page says yes."""
    end = time.monotonic() + seconds
    while not page.evaluate(script):
        if time.monotonic() > end:
            raise TimeoutError(script)
        time.sleep(0.005)


def launched(playwright: Any) -> Any:
    """Start a browser."""
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])


def opened_page(browser: Any, url: str) -> Any:
    """Open the studio in a new tab."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(url)
    page.wait_for_selector(".tile", timeout=300_000)
    return page


LABEL = """async ({ image, name }) => {
  const { focus } = await import("/page/grid.js"), { give } = await import("/page/keys.js");
  const frame = () => new Promise(requestAnimationFrame);
  focus(image);
  await frame();
  const before = studio.guessRevision, start = performance.now();
  let last = start, longest = 0;
  give(name); // what a key does
  const typed = performance.now() - start;
  do {
    await frame();
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  } while (studio.guessRevision <= before);
  await frame();
  return [performance.now() - start, typed, Math.max(longest, performance.now() - last)];
}"""


def latency(url: str, truth: np.ndarray, labels: int) -> None:
    """From the label to all guesses updated in the page; and how long the page was busy at once meanwhile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        page = opened_page(launched(playwright), url)
        until(page, "studio.next.length > 0", 1800)
        times = []
        for number in range(labels + CLASSES):
            image = page.evaluate("studio.focus")
            if number < CLASSES:  # first one label of each class
                image = int(np.flatnonzero(truth == number)[0])
            seconds = page.evaluate(LABEL, {"image": image, "name": f"class {truth[image]:02}"})
            if number >= CLASSES:
                times.append(seconds)
            time.sleep(0.3)  # a quick user
        took, typed, frame = np.array(times).T / 1000
        print(
            f"{len(truth):,} images, {CLASSES} classes, {labels} labels: median {np.median(took):.2f} s, "
            f"95th percentile {np.quantile(took, 0.95):.2f} s; the key itself at most {1000 * typed.max():.0f} ms, "
            f"the longest frame {1000 * frame.max():.0f} ms"
        )


def scroll(url: str, seconds: float = 20.0) -> None:
    """Scroll through everything: the longest frame, and the memory of the tab."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        page = opened_page(launched(playwright), url)
        until(page, "studio.next.length > 0", 1800)  # the server has no other work any more
        page.locator("[data-view=all]").click()
        time.sleep(2)
        page.evaluate(SCROLL, seconds * 1000)
        time.sleep(seconds + 2)
        frames = np.array(page.evaluate("window.frames_"))
        client = page.context.new_cdp_session(page)
        client.send("Performance.enable")
        metrics = {one["name"]: one["value"] for one in client.send("Performance.getMetrics")["metrics"]}
        print(
            f"{len(frames)} frames: longest {frames.max():.0f} ms, 99th percentile {np.quantile(frames, 0.99):.0f} ms; "
            f"JavaScript heap {metrics['JSHeapUsedSize'] / 1e6:.0f} MB, the tab's process "
            f"{renderer_megabytes():.0f} MB, {metrics['Nodes']:.0f} nodes"
        )


def renderer_megabytes() -> float:
    """Return the resident memory of the largest tab of any chromium on this machine."""
    sizes = [0.0]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" in (folder / "cmdline").read_bytes():
                sizes.append(int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        except OSError:  # it has ended
            continue
    return max(sizes)


SCROLL = """(time) => { window.frames_ = []; const box = document.getElementById("scroller");
const start = performance.now();
let last = start; function step(now) { if (now > last) window.frames_.push(now - last); last = now;
box.scrollTop = (box.scrollHeight - box.clientHeight) * Math.min(1, (now - start) / time);
if (now - start < time) requestAnimationFrame(step); } requestAnimationFrame(step); }"""


def first(folder: Path) -> None:
    """From the start of the command to the first pictures in a browser that is open, nothing in any cache of ours."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as cache:
        browser = launched(playwright)
        browser.new_page()
        began = time.perf_counter()
        command = [sys.executable, "-m", "tpn", "studio", str(folder), "--no-browser", "--cache", cache]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        served = time.perf_counter() - began
        page = opened_page(browser, url)
        until(page, "[...document.querySelectorAll('.tile img')].filter((i) => i.naturalWidth > 0).length >= 10")
        print(f"address after {served:.2f} s, first pictures after {time.perf_counter() - began:.2f} s")
        server.terminate()
        server.wait()


def user(features: np.ndarray, truth: np.ndarray, seeds: int, goal: float = 0.95) -> None:
    """Actions until 95 % are right: in the studio's order, and at random, both with the studio's engine.

    An action gives one picture its class. Seeds shuffle the pictures, which decides between equals, and make the random
    order, which is given up at four times the studio's actions.
    """
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(truth))
        graph = FolderGraph.build(features, order, n_jobs=1, complete=True)
        needed = _actions(graph, truth[order], None, len(truth), goal)
        print(f"seed {seed}: {needed} actions in the studio's order, of {len(truth):,} pictures", flush=True)
        shuffled = np.random.default_rng(1000 + seed).permutation(len(truth))
        chance = _actions(graph, truth[order], shuffled, 4 * needed, goal)
        print(f"seed {seed}: {chance}{' or more' if chance == 4 * needed else ''} actions at random", flush=True)


def _actions(graph: FolderGraph, truth: np.ndarray, order: np.ndarray | None, most: int, goal: float) -> int:
    """Return the actions that are needed in an order, by default that of the studio, or `most`."""
    guessing, codes = Guessing(graph), np.full(len(truth), -1)
    guesses = None
    for actions in range(min(most, len(truth))):
        image = int(guessing.suggest(guesses, codes < 0)[0] if order is None else order[actions])
        codes[image] = truth[image]
        guesses = guessing.guess(codes)
        found = codes if guesses is None else guesses.best[:, 0]
        if (found == truth).mean() >= goal:
            return actions + 1
    return most


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["latency", "scroll", "first", "user"])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--labels", type=Path)
    options = parser.parse_args()
    if options.what == "user":
        user(np.load(options.features), np.load(options.labels), options.seeds)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "images"
        features, truth = make_folder(folder, options.images)
        if options.what == "first":
            first(folder)
            return
        cache = Path(place) / "cache"
        with tpn.studio(folder, features=features, no_browser=True, cache=cache) as opened:
            latency(opened.url, truth, options.count) if options.what == "latency" else scroll(opened.url)


if __name__ == "__main__":
    main()
