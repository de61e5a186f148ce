"""What a few-shot task is, and how tasks are drawn."""

from typing import TypeAlias

from tpn.episodes.batches import MiniBatches
from tpn.episodes.sampling import Sampler
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode, Role, Task, TrainingTask, as_task, as_training_task, query_labels

Draws: TypeAlias = Sampler | MiniBatches
"""What draws the pictures of a training step."""

__all__ = [
    "Draws",
    "Episode",
    "MiniBatches",
    "Role",
    "Sampler",
    "Setting",
    "Task",
    "TrainingTask",
    "as_task",
    "as_training_task",
    "query_labels",
]
