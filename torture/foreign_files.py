"""Mutated foreign files: images, archives, pickles, arrays, lists. Nothing in them runs, and all of them are read or
refused, in little time and memory."""

import os
import random
import shutil
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from torture.campaign import Campaign, Case
from torture.mutations import mutate
from torture.sandbox import GIGABYTE, forked
from torture.seeds import Seed, make_seeds
from tpn.errors import TPNError

AT_ONCE = 50
MOST_SECONDS = 5.0


class ForeignFiles(Campaign):
    """Each case mutates one kind of file many times, in one process, and reads it as tpn does."""

    name, wanted, slice = "files", 20_000, 3

    def prepare(self) -> None:
        self.seeds: list[Seed] = make_seeds()

    def run(self, number: int, chance: random.Random) -> Case:
        seed = self.seeds[number % len(self.seeds)]
        folder = self.workspace / f"{os.getpid()}-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        progress = folder / "progress"
        work = self._work(seed, number, folder, progress)
        ended = forked(work, MOST_SECONDS * AT_ONCE)
        case = Case(f"{AT_ONCE} mutations of {seed.name}", AT_ONCE, evidence=[folder])
        if ended.code < 0:
            case.failures.append(f"ended by signal {-ended.code} at {progress.read_text()}")
        if ended.traceback:
            case.failures.append(f"{progress.read_text()}: {ended.traceback}")
        if ended.forbidden:
            case.failures.append(f"it ran code: {', '.join(ended.forbidden)}")
        if ended.memory > GIGABYTE:
            case.failures.append(f"it took {ended.memory / 1e9:.2f} GB")
        case.failures += ended.result or []
        if not case.failures:
            shutil.rmtree(folder, ignore_errors=True)
        return case

    def _work(self, seed: Seed, number: int, folder: Path, progress: Path) -> Callable[[], list[str]]:
        chance = random.Random(f"{self.seed} {seed.name} {number}")

        def work() -> list[str]:
            warnings.simplefilter("ignore")
            failures = []
            for attempt in range(AT_ONCE):
                content, how = mutate(seed.content, chance)
                (folder / "mutated").write_bytes(content)
                progress.write_text(f"mutation {attempt} ({how})")
                start = time.process_time()
                try:
                    seed.read(content, folder)
                except TPNError as refusal:
                    if len(str(refusal)) > 100_000:
                        failures.append(f"mutation {attempt} ({how}): a message of {len(str(refusal)):,} characters")
                except Exception as failure:
                    place = traceback.extract_tb(failure.__traceback__)[-1]
                    where = f"{Path(place.filename).name}, line {place.lineno}"
                    failures.append(f"mutation {attempt} ({how}): {type(failure).__name__} in {where}: {failure}")
                    (folder / f"mutated-{attempt}").write_bytes(content)
                if (took := time.process_time() - start) > MOST_SECONDS:
                    failures.append(f"mutation {attempt} ({how}): it took {took:.1f} s")
            return failures

        return work
