"""How much sooner two stages learn than plain TPN: validation accuracy by training time. docs/how-to/two-stages.md.

    python -m scripts.measure_learning_speed runs/learning-speed --data mini-imagenet:FILE --minutes 30

Plain TPN, as in the paper, learns by episodes for the given time; the recipe in two stages for a tenth and a fifth of
it. All are tested on the validation classes. Times are of the processor, in training steps only, so that other work on
the computer hardly changes them. After a break, the same call repeats the training that was interrupted, whose time
would otherwise be unknown, and not those that are finished.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import tpn
from scripts.compare_recipes import FIRST, seconds_per_step, train
from tpn.files import write_text
from tpn.paper.two_stages import KEEP_BACKBONE, WARM_START

PARTS = (10, 5)
"""The recipe in two stages takes the time of plain TPN divided by these."""
FIRST_SHARE = 0.85
"""The part of its time for the first stage."""
SHORT_FIRST: dict[str, Any] = {**FIRST, "ema": 0.99}
"""In so few steps, a longer average of the weights would hold the first ones."""
SECOND: dict[str, Any] = {**KEEP_BACKBONE, **WARM_START["tpn"], "schedule": "cosine"}
"""As at the cpu budget of `tpn paper`."""
VALIDATIONS = {"plain": 8, "first": 1, "second": 3}
"""In each training, on 200 episodes."""


class Clock:
    """Processor time in training steps: that of validations is left out."""

    def __init__(self) -> None:
        self.seconds, self._last, self.curve = 0.0, time.process_time(), list[dict[str, float]]()

    def step(self, step: dict[str, Any]) -> None:
        now = time.process_time()
        self.seconds, self._last = self.seconds + now - self._last, now

    def rest(self) -> None:
        self._last = time.process_time()

    def validation(self, line: dict[str, Any]) -> None:
        self.rest()
        self.curve.append({"minutes": self.seconds / 60, "accuracy": 100 * line["val_accuracy"]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder for runs and results")
    parser.add_argument("--data", required=True)
    parser.add_argument("--minutes", type=float, default=30, help="training time of plain TPN")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="float32", help="of all trainings; tests are in float32")
    options = parser.parse_args()
    rows = [plain(options), *(two_stages(options, part) for part in PARTS)]
    print("| training | steps | processor time | 1-shot | 5-shot |\n|---|---|---|---|---|")
    for row in rows:
        steps = " + ".join(f"{count:,}" for count in row["steps"])
        print(f"| {row['name']} | {steps} | {row['minutes']:.1f} min | {row['1-shot']} | {row['5-shot']} |")
    curve = (f"{point['minutes']:.1f} min {point['accuracy']:.1f} %" for point in rows[0]["curve"])
    print(f"\n{rows[0]['name']}: " + "  ".join(curve))


def plain(options: argparse.Namespace) -> dict[str, Any]:
    """Train TPN by episodes from scratch for the given time."""
    return measured("plain TPN", "plain", options, [({}, options.minutes)])


def two_stages(options: argparse.Namespace, part: int) -> dict[str, Any]:
    """Train in two stages, for a part of the given time."""
    minutes = options.minutes / part
    stages = [(SHORT_FIRST, minutes * FIRST_SHARE), (SECOND, minutes * (1 - FIRST_SHARE))]
    return measured(f"two stages, 1/{part} of the time", f"two-stages-{part}", options, stages)


def measured(
    name: str, folder: str, options: argparse.Namespace, stages: list[tuple[dict[str, Any], float]]
) -> dict[str, Any]:
    """Train these settings, each for its minutes, and test the last run; or read what was found before."""
    result = options.out / f"{folder}.json"
    if result.is_file():
        found: dict[str, Any] = json.loads(result.read_text())
        return found
    clock, steps = Clock(), list[int]()
    common = {"threads": options.threads, "precision": options.precision, "compile": True, "progress": False, "seed": 0}
    run: tpn.TrainingRun | None = None
    for number, (settings, minutes) in enumerate(stages, 1):
        settings, out = {**settings, **common}, options.out / f"{folder}-{number}"
        if run is not None:
            settings["init"] = run.folder
        stage = "plain" if len(stages) == 1 else "first" if run is None else "second"
        shutil.rmtree(out, ignore_errors=True)
        steps.append(int(60 * minutes / seconds_per_step(settings, options.data, out)))
        settings |= {"episodes": steps[-1], "validate_every": -(-steps[-1] // VALIDATIONS[stage])}
        clock.rest()
        callbacks = {"on_step": clock.step, "on_validation": clock.validation}
        run = train({**settings, "validation_episodes": 200, "patience": 0, **callbacks}, options.data, out)
    assert run is not None
    row: dict[str, Any] = {"name": name, "steps": steps, "minutes": clock.seconds / 60, "curve": clock.curve}
    for shot in (1, 5):
        test = tpn.evaluate(run, way=5, shot=shot, query=15, split="val", episodes=600, progress=False)
        row[f"{shot}-shot"] = f"{100 * test.accuracy:.2f} ± {100 * (test.ci95 or 0):.2f} %"
    write_text(result, json.dumps(row))
    return row


if __name__ == "__main__":
    main()
