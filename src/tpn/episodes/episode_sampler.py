"""Random sampling of episodes."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.episodes.partition import ClassPools
from tpn.episodes.sampler import generator
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode, Role, TrainingTask, as_training_task
from tpn.errors import TPNError
from tpn.images.split import Split

MOST_EPISODES = 10**6
"""The most episodes of a test."""


class EpisodeSampler:
    """Sampler of episodes from a split, without replacement within an episode. The seed determines the episodes."""

    def __init__(self, split: Split, setting: Setting, seed: int) -> None:
        if setting.whole:
            setting = replace(setting, way=len(split.classes))
        self.split, self.setting = split, setting
        self._generator = generator(seed)
        self._pools = ClassPools(split, setting)
        self._pools.check_room(setting)

    def draw(self) -> Episode:
        """Draw the next episode."""
        setting, rng = self.setting, self._generator
        beside = setting.distractors + setting.open_classes
        chosen = rng.choice(len(self.split.classes), setting.way + beside, replace=False)
        classes = chosen[: setting.way]
        queries = self._query_counts(self._pools.room(classes, setting))
        rows: dict[Role, list[np.ndarray]] = {role: [] for role in Role}
        labels: dict[Role, list[np.ndarray]] = {role: [] for role in Role}
        for index, class_ in enumerate(chosen):
            known, distracts = index < setting.way, setting.way <= index < setting.way + setting.distractors
            taken = {
                Role.SUPPORT: setting.shot if known else 0,
                Role.QUERY: int(queries[index]) if known else 0 if distracts else setting.query,
                Role.UNLABELLED: setting.unlabelled if known or distracts else 0,
            }
            images = self._pools.draw(int(class_), taken, rng)
            for role, part in zip(taken, np.split(images, np.cumsum(list(taken.values()))[:-1]), strict=True):
                rows[role].append(part)
                labels[role].append(np.full(len(part), index if known else -1))
        order = {role: np.arange(sum(map(len, parts))) for role, parts in rows.items()}
        for role in (Role.QUERY, Role.UNLABELLED):  # so that their order does not reveal their class
            order[role] = rng.permutation(len(order[role]))
        return Episode(
            images=np.concatenate([np.concatenate(rows[role])[order[role]] for role in Role]),
            labels=np.concatenate([np.concatenate(labels[role])[order[role]] for role in Role]),
            role=np.concatenate([np.full(len(order[role]), int(role)) for role in Role]),
            classes=classes,
        )

    def collate(self, drawn: list[Episode], inputs: Float[Tensor, "episode node *shape"]) -> TrainingTask:
        """Combine episodes with the images that belong to them."""
        return as_training_task(drawn, inputs)

    def _query_counts(self, room: Int64[np.ndarray, "way"]) -> Int64[np.ndarray, "way"]:
        """Draw the number of queries of each class."""
        setting, rng = self.setting, self._generator
        if setting.whole:
            return room
        if setting.query_counts is not None:
            return rng.permutation(np.array(setting.query_counts))
        occurring = np.ones(setting.way, np.int64)
        if setting.query_classes is not None:
            occurring[rng.permutation(setting.way)[setting.query_classes :]] = 0
        if setting.query_dirichlet is None:
            return occurring * setting.query
        room, total = occurring * room, int(occurring.sum()) * setting.query
        shares = np.zeros(setting.way)
        shares[occurring > 0] = rng.dirichlet(np.full(int(occurring.sum()), setting.query_dirichlet))
        counts: np.ndarray = np.minimum(rng.multinomial(total, shares), room)
        while (missing := total - counts.sum()) > 0:  # too few images: draw from other classes
            open_shares = np.where(counts < room, shares + 1e-9, 0)
            counts = np.minimum(counts + rng.multinomial(missing, open_shares / open_shares.sum()), room)
        return counts

    @property
    def state(self) -> dict[str, Any]:
        """The state of the random generator as plain data for JSON; assign it to continue from there."""
        return dict(self._generator.bit_generator.state)

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._generator.bit_generator.state = state


def draw_episodes(split: Split, setting: Setting, episodes: int, seed: int) -> list[Episode]:
    """Draw the episodes of a test, which are the same for every method."""
    if episodes < 1:
        raise TPNError(f"--episodes must be at least 1, not {episodes}.")
    if episodes > MOST_EPISODES:
        raise TPNError(f"--episodes must be at most {MOST_EPISODES}, not {episodes}: all of them are drawn first.")
    sampler = EpisodeSampler(split, setting, seed)
    return [sampler.draw() for _ in range(episodes)]
