"""Make the pictures of the studio: screenshots for the docs, and a short recording for the README.

    python -m scripts.record_studio [--out docs/images]

needs playwright and chromium. A folder of the drawings that ship with the package is labelled by keyboard.
"""

import argparse
import io
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import tpn
from tpn.images.opening import open_images

CLASSES, EACH, LABELS = 8, 40, 24
WIDTH, HEIGHT, GIF_WIDTH = 1280, 800, 880
LARGEST_GIF = 3_000_000


def write_drawings(folder: Path) -> dict[str, str]:
    """Write drawings, dark on white, as PNG files in any order; return the class of each."""
    split = open_images("quickdraw").split("test")
    folder.mkdir()
    order = np.random.default_rng(0).permutation(CLASSES * EACH)
    truth = {}
    for number, place in enumerate(order):
        class_, row = divmod(int(place), EACH)
        pixels = 255 - np.asarray(split.images[int(split.starts[class_]) + row]).squeeze()
        name = f"drawing-{number:03}.png"
        canvas = Image.new("L", (36, 36), 255)
        canvas.paste(Image.fromarray(pixels), (4, 4))
        canvas.resize((216, 216), Image.Resampling.BICUBIC).save(folder / name)
        truth[name] = split.classes[class_]
    return truth


class Film:
    """Frames of a recording, and how long each is shown."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.times: list[int] = []

    def shoot(self, milliseconds: int) -> None:
        """Take a frame."""
        shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        self.frames.append(shot.resize((GIF_WIDTH, GIF_WIDTH * HEIGHT // WIDTH), Image.Resampling.LANCZOS))
        self.times.append(milliseconds)

    def save(self, file: Path) -> None:
        """Write a GIF that is small enough, with fewer colours if need be."""
        for colours in (96, 64, 48, 32):
            palette = self.frames[-1].quantize(colours)
            frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames]
            frames[0].save(
                file, save_all=True, append_images=frames[1:], duration=self.times, loop=0, optimize=True, disposal=1
            )
            if file.stat().st_size <= LARGEST_GIF:
                return


def until(page: Any, script: str, seconds: float = 600.0) -> None:
    """Wait until a script in the page says yes."""
    end = time.monotonic() + seconds
    while not page.evaluate(script):
        if time.monotonic() > end:
            raise TimeoutError(script)
        time.sleep(0.05)


def record(url: str, truth: dict[str, str], out: Path) -> None:
    """Label by keyboard, and take pictures."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(url)
        page.wait_for_selector(".tile", timeout=120_000)
        until(page, "studio.state.progress.done === studio.state.progress.total && studio.next.length > 0")
        time.sleep(2)
        film = Film(page)
        film.shoot(1200)
        for number in range(LABELS):
            name = truth[page.evaluate("studio.names[studio.focus]")]
            known = name in page.evaluate("studio.state.classes.map((c) => c.name)")
            page.keyboard.type(name[:4] if known else name)
            time.sleep(0.1)
            if number < 8:
                film.shoot(450)
            before = page.evaluate("studio.state.revision")
            page.keyboard.press("Enter")
            until(page, f"studio.state.revision > {before}")
            until(page, "studio.state.classes.length < 2 || studio.guessRevision === studio.state.revision")
            time.sleep(0.6)
            film.shoot(700 if number < 8 else 260)
        until(page, "studio.state.map && !!studio.map")
        time.sleep(3)
        page.screenshot(path=out / "studio-light.png")
        page.locator(".class .entry").first.click()
        time.sleep(1)
        film.shoot(1600)
        page.keyboard.press("#")
        time.sleep(1)
        film.shoot(2200)
        film.save(out / "studio.gif")
        page.locator("#theme").click()
        page.locator("[data-view=doubtful]").click()
        time.sleep(1)
        page.screenshot(path=out / "studio-map.png")
        browser.close()


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory() as place:
        truth = write_drawings(Path(place) / "drawings")
        with tpn.studio(Path(place) / "drawings", no_browser=True) as opened:
            record(opened.url, truth, out)
    for file in sorted(out.glob("studio*")):
        print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
