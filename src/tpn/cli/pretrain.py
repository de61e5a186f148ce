"""tpn pretrain: the first of two stages, classifier training."""

from dataclasses import dataclass

from tpn.cli.parsing import HELP, parse
from tpn.cli.train import AnyConfig, Train, train
from tpn.workflows.settings import PretrainingConfig


@dataclass(frozen=True)
class ClassifierSettings(PretrainingConfig):
    """settings of the training"""


@dataclass(frozen=True, kw_only=True)
class Pretrain(Train[AnyConfig]):
    """Pre-train a backbone to classify all training classes, on mini-batches instead of episodes.

    This is the first of two stages: `tpn train METHOD --init RUN` continues from its weights by episodes, with any
    method. Validation is by episodes of new classes (see --way, --shot and --query). The run is one of the method
    classifier-baseline, which predicts the nearest class mean by cosine, and can be tested and compared like any other.
    """


def main(arguments: list[str]) -> int:
    if any(argument in HELP for argument in arguments):
        parse(Pretrain[ClassifierSettings], "tpn pretrain", ["--help"])
    return train(Pretrain, "tpn pretrain", "classifier-baseline", arguments)
