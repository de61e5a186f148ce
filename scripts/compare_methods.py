"""Train and test every method at the same number of images seen, on the drawings: docs/measurements/methods.md.

    python -m scripts.compare_methods RUNS            trains, tests, and prints the table as Markdown
    python -m scripts.compare_methods RUNS --rows tpn protonet

Whatever is already in the folder RUNS is not done again, so it can be stopped at any time and continued. Two trainings
run side by side, with one thread each.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tpn.allocator import keep_freed_memory
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.evaluation.intervals import percent
from tpn.evaluation.protocol import evaluate
from tpn.images.opening import open_images
from tpn.methods._config import ClassifierConfig, Config
from tpn.methods._method import Dimensions, Method
from tpn.methods._registry import all_methods, build_method, find_method
from tpn.runs.folder import Run
from tpn.runs.loading import load
from tpn.runs.tensors import read_tensors
from tpn.training.setup import Training

IMAGES = 150_000
"""1,500 episodes of 5 ways, 5 shots and 15 queries."""
TEST_SHOTS, TEST_EPISODES, TEST_UNLABELLED = (1, 5), 600, 20
EPISODES_BEFORE = 200
"""Of the test before training: methods that adapt to each task take long."""
COMMON = ["--patience", "0", "--threads", "1", "--resume"]


@dataclass(frozen=True)
class Row:
    """One line of the table: a method with its options, what its weights are also tested as, how often it validates."""

    method: str
    also: tuple[str, ...] = ()
    validate_every: int = 300
    options: tuple[str, ...] = ()

    @property
    def unlabelled(self) -> int:
        return 5 if find_method(self.method).info.unlabelled == "needs" else 0

    @property
    def episodes(self) -> int:
        """Or mini-batches, for those that learn from such."""
        settings = find_method(self.method).Config()
        size = settings.batch_size if isinstance(settings, ClassifierConfig) else 5 * (5 + 15 + self.unlabelled)
        return round(IMAGES / size)


ROWS = {
    "tpn": Row("tpn"),
    "label-propagation": Row("label-propagation"),
    "protonet": Row("protonet"),
    "relation-net": Row("relation-net"),
    "maml": Row("maml"),
    "reptile": Row("reptile", also=("reptile-bn",)),
    "soft-kmeans": Row("soft-kmeans"),
    "soft-kmeans-cluster": Row("soft-kmeans-cluster"),
    "masked-soft-kmeans": Row("masked-soft-kmeans"),
    "tpn-semi": Row("tpn-semi"),
    "maml-transduction": Row("maml-transduction", validate_every=500),
    "snail": Row("snail"),
    "snail-without-attention": Row("snail", options=("--no-attention",)),
    "ada-resnet": Row("ada-resnet"),
    "ada-resnet-without-shift": Row("ada-resnet", options=("--no-shift",)),
    "discriminative-k-shot": Row("discriminative-k-shot"),
    "discriminative-k-shot-without-prior": Row("discriminative-k-shot", options=("--prior", "none")),
    "tadam": Row("tadam"),
    "tadam-without-conditioning": Row("tadam", options=("--no-conditioning",)),
    "classifier-baseline": Row("classifier-baseline"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the folder for runs and results")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="only these")
    parser.add_argument("--do", choices=ROWS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.do:
        do(options.runs, options.do)
        return
    with ThreadPoolExecutor(2) as pool:
        calls = [[sys.executable, "-m", "scripts.compare_methods", options.runs, "--do", name] for name in options.rows]
        done = list(pool.map(lambda call: subprocess.run(call, check=False), calls))
    print(table(options.runs, options.rows))
    if failed := [name for name, call in zip(options.rows, done, strict=True) if call.returncode]:
        sys.exit(f"These rows failed: {', '.join(failed)}. What they said is in their .log files in {options.runs}.")


def do(runs: Path, name: str) -> None:
    """Train and test one row."""
    row, folder = ROWS[name], runs / name
    result_file = runs / f"{name}.json"
    if result_file.is_file():
        return
    call = [sys.executable, "-m", "tpn", "train", row.method, "--out", str(folder), *COMMON]
    call += ["--episodes", str(row.episodes), "--validate-every", str(row.validate_every), *row.options]
    runs.mkdir(parents=True, exist_ok=True)
    with open(runs / f"{name}.log", "a") as log:
        subprocess.run(call, check=True, stdout=log, stderr=log)
    torch.set_num_threads(1)
    keep_freed_memory()
    config = Run(folder).read_config()
    beginning = Training.build(Run(folder / "beginning"), config, open_images("quickdraw"))  # writes nothing
    beginning.restore()
    subjects: dict[str, Method] = {name: load(folder)}
    subjects.update({other: load(folder, other) for other in row.also})
    results = {}
    for label, method in subjects.items():
        before = build_method(method.info.name, method.config, config.dimensions)
        before.load_state_dict(beginning.method.state_dict())
        results[label] = {
            "method": " ".join([method.info.name, *row.options]),
            "transduction": method.info.transduction,
            "trained_on": described(config.settings),
            "seconds": trained_for(folder),
            **{f"{shot}-shot": test(method, before, shot, row.unlabelled > 0) for shot in TEST_SHOTS},
        }
    result_file.write_text(json.dumps(results, indent=1))


def described(settings: Config) -> str:
    """What was trained on."""
    if isinstance(settings, ClassifierConfig):
        return f"{settings.episodes:,} mini-batches of {settings.batch_size}"
    return f"5-way 5-shot, {settings.episodes:,} episodes"


def trained_for(folder: Path) -> float:
    """Seconds."""
    return float(read_tensors(Run(folder).checkpoint_file)[1]["state"]["seconds"])


def test(method: Method, untrained: Method, shot: int, semi_supervised: bool) -> dict[str, Any]:
    """Accuracy, interval and seconds of the test, and accuracy before training."""
    split = open_images("quickdraw").split("test")
    setting = Setting(shot=shot, unlabelled=TEST_UNLABELLED if semi_supervised else 0)
    episodes = draw_episodes(split, setting, TEST_EPISODES, seed=0)
    after, before = evaluate(method, split, episodes), evaluate(untrained, split, episodes[:EPISODES_BEFORE])
    return {
        "accuracy": after.mean.value,
        "ci95": after.mean.ci95,
        "seconds": after.seconds,
        "before": before.mean.value,
        "before_ci95": before.mean.ci95,
    }


def centroid_on_pixels(shot: int) -> str:
    """Nearest centroid on raw pixels, the floor of all."""
    protonet = all_methods()["protonet"]

    class Pixels(protonet):  # type: ignore[misc, valid-type]
        def embed(self, images: torch.Tensor) -> torch.Tensor:
            return images.flatten(1)

    method = Pixels(protonet.Config(), Dimensions(1, 28, 5, shot, 2))
    split = open_images("quickdraw").split("test")
    return str(evaluate(method, split, draw_episodes(split, Setting(shot=shot), TEST_EPISODES, seed=0)).mean)


def table(runs: Path, names: list[str]) -> str:
    """Markdown."""
    lines = [
        "| method | trained on | transduction | 1-shot | before | 5-shot | before | training | test, 1-/5-shot |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        if not (runs / f"{name}.json").is_file():
            continue
        for row in json.loads((runs / f"{name}.json").read_text()).values():
            cells = [
                row["method"],
                row["trained_on"],
                row["transduction"],
            ]
            for shot in TEST_SHOTS:
                result = row[f"{shot}-shot"]
                cells.append(percent(result["accuracy"], result["ci95"]))
                cells.append(percent(result["before"], result["before_ci95"]))
            cells.append(f"{row['seconds']:.0f} s")
            cells.append(f"{row['1-shot']['seconds']:.0f} / {row['5-shot']['seconds']:.0f} s")
            lines.append(f"| {' | '.join(cells)} |")
    pixels = [centroid_on_pixels(shot) for shot in TEST_SHOTS]
    lines.append(f"| nearest centroid on raw pixels | | no | {pixels[0]} | | {pixels[1]} | | | |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
