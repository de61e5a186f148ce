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
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from torture.campaign import HEAD, Campaign, carry_out
from torture.campaigns import CAMPAIGNS


def main(arguments: list[str] | None = None) -> int:
    """Run campaigns; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m torture", description="Try to break tpn.")
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=f"{', '.join(CAMPAIGNS)} (default: all)")
    parser.add_argument("--minutes", type=float, default=20.0, help="the time limit of all campaigns (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other cases (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("torture-results"), help="where results and failures are kept")
    parser.add_argument("--case", type=int, help="run one case of one campaign again, and change no results")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.campaigns if name not in CAMPAIGNS]:
        parser.error(f"unknown campaign {unknown[0]!r}: choose of {', '.join(CAMPAIGNS)}")
    chosen = options.campaigns or list(CAMPAIGNS)
    out = options.out.resolve()
    made = {name: CAMPAIGNS[name](out / "work" / name, options.seed) for name in chosen}
    if options.case is not None:
        return _again(made[chosen[0]], options.case)
    print(HEAD, flush=True)
    end, failed = time.monotonic() + 60 * options.minutes, False
    for place, campaign in enumerate(made.values()):
        share = (end - time.monotonic()) / (len(made) - place)  # what one leaves over goes to those after it
        results = carry_out(campaign, out, share)
        failed |= results.failed > 0
        print(results.line(campaign.wanted), flush=True)
    if failed:
        print(f"Failing cases, with their commands, are in {out}.")
    return int(failed)


def _again(campaign: Campaign, number: int) -> int:
    campaign.prepare()
    case = campaign.case(number)
    print(case.what)
    print("\n".join(case.failures) or "survived")
    return int(bool(case.failures))


if __name__ == "__main__":
    sys.exit(main())
