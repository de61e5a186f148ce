"""Resident memory of a training from episode 500 to episode 5,000 (28x28 drawings, 5-way 5-shot 15-query)."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

FIRST, LAST = 500, 5_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        call = [sys.executable, "-m", "tpn", "train", "tpn", "--out", str(run), "--episodes", str(LAST)]
        call += ["--patience", "0"]
        training = subprocess.Popen(call, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        process, seen = psutil.Process(training.pid), {}
        while training.poll() is None:
            lines = (run / "metrics.jsonl").read_text().count("\n") if (run / "metrics.jsonl").is_file() else 0
            try:
                seen[100 * (lines - 1)] = process.memory_info().rss
            except psutil.NoSuchProcess:
                break
            time.sleep(0.2)
        assert training.wait() == 0, f"the training ended with {training.returncode}"
        first, last = seen[FIRST], seen[max(seen)]
        print(f"memory of a training, process of its own ({os.cpu_count()} cores)")
        print(f"  episode {FIRST}: {first / 1e6:.1f} MB   episode {max(seen)}: {last / 1e6:.1f} MB", end="   ")
        print(f"grown by {(last - first) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
