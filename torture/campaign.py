"""What campaigns have in common: numbered cases from a seed, results that are kept, and going on where it stopped."""

import random
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tpn.files import make_folder, read_json, write_json

SECONDS_BETWEEN_WRITES = 2.0


@dataclass
class Case:
    """The outcome of a case."""

    what: str
    """What was done, in one line."""
    tried: int = 1
    """How many attacks it consisted of."""
    failures: list[str] = field(default_factory=list)
    """What should not have happened."""
    evidence: list[Path] = field(default_factory=list)
    """Files and folders to keep if it failed."""


class Campaign(ABC):
    """A kind of attack. Case number N of a seed is always the same."""

    name: ClassVar[str]
    wanted: ClassVar[int]
    """The number of attacks after which it ends."""
    slice: ClassVar[int]
    """The number of cases in the tests."""

    def __init__(self, workspace: Path, seed: int) -> None:
        self.workspace, self.seed = workspace, seed
        make_folder(workspace)

    def prepare(self) -> None:  # noqa: B027 (not every campaign has something to prepare)
        """Make what all cases start from."""

    @abstractmethod
    def run(self, number: int, chance: random.Random) -> Case:
        """Run a case."""

    def case(self, number: int) -> Case:
        """Run the case of this number; whatever it raises is a failure."""
        try:
            return self.run(number, random.Random(f"{self.seed} {self.name} {number}"))
        except Exception as failure:
            return Case("the case itself", failures=[f"{type(failure).__name__}: {failure}"])


@dataclass
class Results:
    """What a campaign has found so far, kept in a file."""

    campaign: str
    seed: int
    tried: int = 0
    failed: int = 0
    next_case: int = 0
    seconds: float = 0.0
    failures: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path, campaign: str, seed: int) -> "Results":
        """Read the results of an earlier call with the same seed, if there are any."""
        content = read_json(file) if file.is_file() else {}
        same = content.get("campaign") == campaign and content.get("seed") == seed
        return cls(**content) if same else cls(campaign, seed)

    def add(self, number: int, case: Case, kept: Path) -> None:
        """Add a case; keep the evidence of a failed one."""
        self.tried += case.tried
        self.next_case = number + 1
        if case.failures:
            self.failed += len(case.failures)
            command = f"python -m torture {self.campaign} --seed {self.seed} --case {number}"
            folder = kept / f"{self.campaign}-{self.seed}-{number}"
            _keep(case.evidence, folder)
            self.failures.append({"case": number, "command": command, "what": case.what, "why": case.failures})

    def line(self, wanted: int) -> str:
        """Return a row of the table that is printed."""
        return f"{self.campaign:<14} {self.tried:>7} {self.tried - self.failed:>9} {wanted:>7} {self.seconds:>8.0f}"


HEAD = f"{'campaign':<14} {'tried':>7} {'survived':>9} {'wanted':>7} {'seconds':>8}"


def carry_out(campaign: Campaign, out: Path, seconds: float, cases: int | None = None, say: Any = print) -> Results:
    """Run cases of a campaign from where it stopped, until it has what is wanted, so many `cases`, or no time left."""
    file = out / f"{campaign.name}-{campaign.seed}.json"
    make_folder(out)
    results = Results.read(file, campaign.name, campaign.seed)
    started = written = time.monotonic()
    before = results.seconds
    end = results.next_case + cases if cases is not None else None

    def goes_on() -> bool:
        return results.tried < campaign.wanted and (end is None or results.next_case < end)

    if goes_on():
        campaign.prepare()
    while goes_on() and time.monotonic() - started < seconds:
        number = results.next_case
        case = campaign.case(number)
        results.add(number, case, out / "failures")
        for why in case.failures:
            say(f"  {campaign.name} {number}: {case.what}: {why}")
        results.seconds = before + time.monotonic() - started
        if case.failures or time.monotonic() - written > SECONDS_BETWEEN_WRITES:
            write_json(file, asdict(results))
            written = time.monotonic()
    write_json(file, asdict(results))
    return results


def _keep(evidence: Iterable[Path], folder: Path) -> None:
    for path in evidence:
        if path.exists():
            make_folder(folder)
            if path.is_dir():
                shutil.copytree(path, folder / path.name, dirs_exist_ok=True)
            else:
                shutil.copy2(path, folder / path.name)
