"""Run the campaigns.

python -m torture                      every campaign, 20 minutes in all, from where the last call stopped
python -m torture flips kills          some of them
python -m torture --minutes 60 --seed 3
python -m torture flips --case 17      one case again
"""

import argparse
import os
import sys
import time
import traceback
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from torture.campaign import HEAD, Campaign, carry_out
from torture.campaigns import CAMPAIGNS
from torture.making import load_everything


def main(arguments: list[str] | None = None) -> int:
    """Run campaigns; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m torture", description="Try to break tpn.")
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=f"{', '.join(CAMPAIGNS)} (default: all)")
    parser.add_argument("--minutes", type=float, default=20.0, help="the time limit of all campaigns (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other cases (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("torture-results"), help="where results and failures are kept")
    parser.add_argument("--slice", action="store_true", help="a few cases of each campaign, as in the tests")
    parser.add_argument("--case", type=int, help="run one case of one campaign again, and change no results")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.campaigns if name not in CAMPAIGNS]:
        parser.error(f"unknown campaign {unknown[0]!r}: choose from {', '.join(CAMPAIGNS)}")
    chosen = options.campaigns or list(CAMPAIGNS)
    out = options.out.resolve()
    load_everything()  # once, for all campaigns and their forks
    made = {name: CAMPAIGNS[name](out / "work" / name, options.seed) for name in chosen}
    if options.case is not None:
        return _again(made[chosen[0]], options.case)
    print(HEAD, flush=True)
    end, failed = time.monotonic() + 60 * options.minutes, False
    for place, campaign in enumerate(made.values()):
        share = (end - time.monotonic()) / (len(made) - place)  # what one leaves over goes to those after it
        failed |= _in_a_fork(campaign, out, share, campaign.slice if options.slice else None)
    if failed:
        print(f"Failing cases, with their commands, are in {out}.")
    return int(failed)


def _in_a_fork(campaign: Campaign, out: Path, seconds: float, cases: int | None) -> bool:
    """Carry out a campaign in a process of its own: one that has used torch can no longer be forked safely."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            results = carry_out(campaign, out, seconds, cases)
            print(results.line(campaign.wanted), flush=True)
            code = int(results.failed > 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) != 0


def _again(campaign: Campaign, number: int) -> int:
    campaign.prepare()
    case = campaign.case(number)
    print(case.what)
    print("\n".join(case.failures) or "survived")
    return int(bool(case.failures))


if __name__ == "__main__":
    sys.exit(main())
