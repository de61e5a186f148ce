"""A second `tpn label` on 10,000 pictures whose features are known: seconds of the whole command, and processor time.

    python -m benchmarks second-call

Made-up pictures of 84 pixels and made-up features of 20 classes, two labels of each; `--suggest 20`. The first call
finds the features in the cache and builds the graph, the others find that too.
"""

import io
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from tpn.labelling.feature_cache import FeatureCache, digest, facts_of
from tpn.labelling.network_choice import published_key

IMAGES, CLASSES, WIDTH, LABELS = 10_000, 20, 1280, 2
NETWORK = "efficientnet-lite0"
CALLS = 4


def main(images: int = IMAGES) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make(place, images)
        print(f"tpn label on {images:,} pictures with known features, all included", flush=True)
        for number in range(CALLS):
            seconds, spent = label(place)
            what = "the graph is built" if number == 0 else "the graph was kept"
            print(f"  {what}: {seconds:.2f} s, {spent:.2f} s of processor time", flush=True)


def make(place: Path, images: int) -> None:
    """Write pictures, a list of a few labels, and a cache that knows the features."""
    (place / "photos").mkdir()
    chance = np.random.default_rng(0)
    middles = chance.gamma(0.3, 1, (CLASSES, WIDTH)).astype(np.float32)
    features, files, labels = [], [], ["path,label"]
    for index in range(images):
        file, class_, stream = place / "photos" / f"{index:05}.jpg", index % CLASSES, io.BytesIO()
        coarse = chance.integers(0, 256, (10, 10, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((84, 84)).save(stream, "JPEG")
        file.write_bytes(stream.getvalue())
        content = digest(stream.getvalue())
        noise = chance.gamma(2, 0.5, WIDTH), chance.gamma(0.3, 0.5, WIDTH)
        features.append((content, (middles[class_] * noise[0] + noise[1]).astype(np.float32)))
        files.append((file, facts_of(file) or "", content))
        labels += [f"{file.name},class {class_}"] if index < LABELS * CLASSES else []
    (place / "few.csv").write_text("\n".join(labels) + "\n")
    with FeatureCache(place / "cache") as cache:
        cache.put_features(published_key(NETWORK) or "", features)
        cache.put_files(files)


def label(place: Path) -> tuple[float, float]:
    """Run the command; return its seconds and its processor time."""
    options = ["--labels", "few.csv", "--suggest", "20", "--backbone", NETWORK, "--cache", "cache", "--force"]
    before, start = processor_time(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "tpn", "label", "photos", *options], check=True, cwd=place, capture_output=True
    )
    return time.perf_counter() - start, processor_time() - before


def processor_time() -> float:
    """The processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
