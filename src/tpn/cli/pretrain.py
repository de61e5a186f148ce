"""tpn pretrain: the first of two stages, base-class training."""

from dataclasses import dataclass

from tpn.cli.train import AnyConfig, AnySetting, Train, read_options, train_and_report

METHOD = "classifier-baseline"


@dataclass(frozen=True, kw_only=True)
class Pretrain(Train[AnyConfig, AnySetting]):
    """Train a backbone to tell all training classes apart, on mini-batches instead of episodes.

    This is the first of two stages: `tpn train METHOD --init RUN` goes on from its weights by episodes, whichever the
    method. Validation is by episodes of new classes (--way, --shot and --query say which). The run is one of the method
    classifier-baseline, which can be tested and compared as all others: it takes the nearest class mean by cosine.
    """


def main(arguments: list[str]) -> int:
    return train_and_report(METHOD, read_options(Pretrain, "tpn pretrain", METHOD, arguments))
