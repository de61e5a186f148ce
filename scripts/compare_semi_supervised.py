"""Train and test the four semi-supervised systems on three partitions: docs/measurements/methods.md.

    python -m scripts.compare_semi_supervised RUNS    trains, tests, and prints the table as Markdown

Whatever is already in the folder RUNS is not trained again, so it can be stopped at any time and continued.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from tpn.evaluation.intervals import percent

METHODS = ("soft-kmeans", "soft-kmeans-cluster", "masked-soft-kmeans", "tpn-semi")
DISTRACTORS = (0, 5)
OPTIONS = ["--splits", "3", "--episodes", "300", "--validate-every", "150", "--threads", "1", "--resume"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the folder for runs and results")
    runs = parser.parse_args().runs
    for distractors in DISTRACTORS:
        for method in METHODS:
            out = runs / f"{method}-{distractors}"
            call = ["splits", method, "--distractors", str(distractors), "--out", str(out), *OPTIONS]
            subprocess.run([sys.executable, "-m", "tpn", *call], check=True)
    print(table(runs))


def table(runs: Path) -> str:
    """Markdown."""
    lines = ["| method | 1-shot | 5-shot | 1-shot, distractors | 5-shot, distractors |", "|---|---|---|---|---|"]
    for method in METHODS:
        cells = [method]
        for distractors in DISTRACTORS:
            results = json.loads((runs / f"{method}-{distractors}" / "results.json").read_text())
            cells += [percent(test["accuracy"], test["standard_error"]) for test in results["tests"]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
