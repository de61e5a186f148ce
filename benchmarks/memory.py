"""Memory of a training from episode 500 to episode 5,000 (28x28 drawings, 5-way 5-shot 15-query).

What is compared is the most that was taken in the 100 episodes after the first and before the second, validation
included. What counts is the memory that the process itself has taken (RssAnon in Linux's /proc): pages of files, such
as torch's libraries, come and go as the system likes.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIRST, LAST = 500, 5_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        call = [sys.executable, "-m", "tpn", "train", "tpn", "--out", str(run), "--episodes", str(LAST)]
        call += ["--patience", "0"]
        training = subprocess.Popen(call, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        seen: dict[int, int] = {}
        while training.poll() is None:
            lines = (run / "metrics.jsonl").read_text().count("\n") if (run / "metrics.jsonl").is_file() else 0
            if kilobytes := own_memory(training.pid):
                seen[100 * (lines - 1)] = max(kilobytes, seen.get(100 * (lines - 1), 0))
            time.sleep(0.2)
        assert training.wait() == 0, f"the training ended with {training.returncode}"
        first, last = seen[FIRST], seen[LAST - 100]
        print("memory of a training")
        print(f"  episode {FIRST}: {first / 1e3:.1f} MB   episode {LAST}: {last / 1e3:.1f} MB", end="   ")
        print(f"grown by {(last - first) / 1e3:.1f} MB")


def own_memory(process: int) -> int | None:
    """Kilobytes of anonymous memory that a process has; None if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return None
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) if found else None


if __name__ == "__main__":
    main()
