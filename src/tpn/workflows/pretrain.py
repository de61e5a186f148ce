"""Pre-train a backbone: the first of two stages."""

from typing import Any

from tpn.episodes.setting import Setting
from tpn.images.split import Images
from tpn.methods._config import PretrainingConfig
from tpn.workflows.keywords import takes
from tpn.workflows.options import TrainOptions
from tpn.workflows.train import TrainingRun, train


@takes(TrainOptions, Setting, PretrainingConfig)
def pretrain(data: str | Images | None = None, *, progress: bool = True, **options: Any) -> TrainingRun:
    """Pre-train a backbone to classify all training classes, on mini-batches instead of episodes.

    This is the first of two stages: `tpn.train(method, init=run)` continues from its weights by episodes, with any
    method. Validation is by episodes of new classes. The run is one of the method classifier-baseline, which predicts
    the nearest class mean by cosine, and can be evaluated and compared like any other.

    Parameters
    ----------
    data : str or Images, default="quickdraw"
        As in `tpn.train`.
    progress : bool, default=True
        Show a progress bar.
    {options}

    Returns
    -------
    TrainingRun
    """
    return train("classifier-baseline", data, progress=progress, **options)
