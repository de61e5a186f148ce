"""Compare recipes of training at equal time, on the validation classes: docs/how-to/two-stages.md.

    python -m scripts.compare_recipes runs/recipes --data mini-imagenet:FILE --minutes 4 --precision bfloat16
    python -m scripts.compare_recipes runs/recipes --data mini-imagenet:FILE --minutes 10 --second-stage --init RUN

Each recipe is the basic one with one thing changed. A step of each is timed first, so that all trainings take the same
processor time, which other work on the machine hardly changes. The test is on the classes of validation, never on those
of the test. The same call continues after a break.
"""

import argparse
import json
import shutil
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import tpn
from tpn.episodes.setting import TEST_SEED, Setting
from tpn.evaluation.subject import open_run
from tpn.files import write_text
from tpn.progress import showing
from tpn.runs.folder import find_run
from tpn.training.device import computing

TIMED, COMPILING = 16, 3
"""Steps of each image size that are timed, and how many of the first are left out: in them the network is compiled."""

FIRST: dict[str, Any] = {
    "backbone": "conv4-linear",
    "classifier": "cosine",
    "augment": ("resized-crop", "flip"),
    "sizes": (42, 63, 84),
    "size_shares": (0.45, 0.25, 0.3),
    "ema": 0.998,
    "warm_up": 100,
}
FIRST_STAGES: dict[str, dict[str, Any]] = {
    "basic": {},
    "a last ReLU": {"backbone": "conv4"},
    "with NCA 0.5": {"nca": 0.5},
    "linear classifier": {"classifier": "linear"},
    "batch 64, lr 0.05": {"batch_size": 64, "lr": 0.05},
    "images of 84x84 only": {"sizes": (), "size_shares": ()},
    "a third of the steps at each size": {"size_shares": (0.34, 0.33, 0.33)},
    "without averaged weights": {"ema": 0.0},
    "shifts instead of resized crops": {"augment": ("crop", "flip")},
    "label smoothing 0.1": {"label_smoothing": 0.1},
    "one-cycle": {"schedule": "one-cycle"},
}
SECOND: dict[str, Any] = {
    "schedule": "cosine",
    "unit_features": True,
    "initial_sharpness": 6.0,
    "tasks_per_episode": 8,
    "base_loss": 0.5,
    "backbone_lr": 0.1,
    "ema": 0.99,
}
SECOND_STAGES: dict[str, dict[str, Any]] = {
    "basic": {},
    "as in the paper": dict.fromkeys(("unit_features",), False)
    | {"initial_sharpness": 1.0, "tasks_per_episode": 1, "base_loss": 0.0, "backbone_lr": 1.0, "ema": 0.0},
    "features of any length": {"unit_features": False},
    "initial sharpness 1": {"initial_sharpness": 1.0},
    "one task per episode": {"tasks_per_episode": 1},
    "without the base-class loss": {"base_loss": 0.0},
    "backbone at the full learning rate": {"backbone_lr": 1.0},
    "four episodes per step": {"episodes_per_step": 4},
    "lr 3e-4": {"lr": 3e-4},
    "resized crops and flips": {"augment": ("resized-crop", "flip")},
    "10-way episodes of 5 shots and 5 queries": {"way": 10, "query": 5},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder for runs and results")
    parser.add_argument("--data", required=True)
    parser.add_argument("--minutes", type=float, default=10, help="processor time of all steps of a training")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--second-stage", action="store_true")
    parser.add_argument("--init", type=Path, help="the first stage, for --second-stage")
    parser.add_argument("--recipes", nargs="*", help="only these (default: all)")
    options = parser.parse_args()
    if options.second_stage and options.init is None:
        parser.error("--second-stage needs --init")
    basic, changes = (SECOND, SECOND_STAGES) if options.second_stage else (FIRST, FIRST_STAGES)
    rows = []
    for name in options.recipes or changes:
        row = trial(name, basic | changes[name], options)
        rows.append(row)
        print(f"{name:<36} {row['steps']:>6} steps  {row['1-shot']}  {row['5-shot']}", flush=True)
    print("\n| recipe | steps | 1-shot | 5-shot |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row['recipe']} | {row['steps']:,} | {row['1-shot']} | {row['5-shot']} |")


def trial(name: str, recipe: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Train a recipe for the given time, and test it on the validation classes; or read what was found before."""
    stage = "second" if options.second_stage else "first"
    folder = options.out / f"{stage}-{name.replace(' ', '-').replace(',', '')}"
    result = folder.with_name(f"{folder.name}.json")
    if result.is_file():
        found: dict[str, Any] = json.loads(result.read_text())
        return found
    common = {**recipe, "threads": options.threads, "progress": False, "compile": True, "seed": 0}
    common |= {"precision": options.precision}
    if options.second_stage:
        common |= {"init": options.init}
    per_step = recipe.get("episodes_per_step", 1)
    steps = int(60 * options.minutes / seconds_per_step(common, options.data, folder))
    train(common | {"episodes": steps * per_step}, options.data, folder)
    row: dict[str, Any] = {"recipe": name, "steps": steps}
    settings = [Setting(5, shot) for shot in (1, 5)]
    with computing(options.threads), showing(False):
        tests = open_run(find_run(folder), split="val").test(settings, 600, TEST_SEED)
        for setting, test in zip(settings, tests, strict=True):
            row[f"{setting.shot}-shot"] = f"{100 * test.mean.value:.2f} ± {100 * (test.mean.ci95 or 0):.2f}"
    write_text(result, json.dumps(row))
    return row


def train(settings: dict[str, Any], data: str, folder: Path) -> tpn.TrainingRun:
    """Train one stage, the first if it has a classifier of the training classes, validated at its end only."""
    whole = {"validate_every": settings["episodes"], "validation_episodes": 40, "resume": True, **settings}
    if "classifier" in settings:
        return tpn.pretrain(data, out=folder, **whole)
    return tpn.train("tpn", data, out=folder, **whole)


def seconds_per_step(settings: dict[str, Any], data: str, folder: Path) -> float:
    """Return the mean processor time of a step: the medians of each image size, in the proportions of the training."""
    times: list[float] = []
    shares, per_step = settings.get("size_shares") or (1.0,), settings.get("episodes_per_step", 1)
    count = TIMED * len(shares)

    def stamp(step: dict[str, Any]) -> None:
        times.append(time.process_time())

    timing = folder.with_name(f"{folder.name}-timing")
    shutil.rmtree(timing, ignore_errors=True)  # one that is finished would make no steps
    equal = {"size_shares": (1 / len(shares),) * len(shares)} if len(shares) > 1 else {}
    train({**settings, **equal, "episodes": count * per_step, "on_step": stamp}, data, timing)
    steps = [after - before for before, after in pairwise(times)]
    medians = [median(steps[first + COMPILING : first + TIMED - 1]) for first in range(0, count, TIMED)]
    return float(sum(share * seconds for share, seconds in zip(shares, medians, strict=True)))


if __name__ == "__main__":
    main()
