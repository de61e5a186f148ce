"""How tasks are drawn."""

from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Int64

from tpn.episodes.partition import labelled_part
from tpn.episodes.setting import Setting
from tpn.episodes.task import Episode, Role
from tpn.errors import TPNError
from tpn.images.split import Split


def generator(seed: int) -> np.random.Generator:
    """What draws at random, from a seed that a user gave."""
    if not 0 <= seed < 2**63:
        raise TPNError(f"--seed must be at least 0 and below 2^63, not {seed}.")
    return np.random.default_rng(seed)


class EpisodeSampler:
    """Draws episodes from a split, without replacement inside an episode; the same seed draws the same episodes."""

    def __init__(self, split: Split, setting: Setting, seed: int) -> None:
        self.split, self.setting = split, setting
        self._generator = generator(seed)
        self._pools = Pools(split, setting)
        self._pools.check_room(setting)

    def draw(self) -> Episode:
        """Draw the next episode."""
        setting, rng = self.setting, self._generator
        chosen = rng.choice(len(self.split.classes), setting.way + setting.distractors, replace=False)
        classes = chosen[: setting.way]
        queries = self._query_counts(self._pools.room(classes, setting))
        rows: dict[Role, list[np.ndarray]] = {role: [] for role in Role}
        labels: dict[Role, list[np.ndarray]] = {role: [] for role in Role}
        for index, class_ in enumerate(chosen):
            known = index < setting.way
            taken = {
                Role.SUPPORT: setting.shot if known else 0,
                Role.QUERY: int(queries[index]) if known else 0,
                Role.UNLABELLED: setting.unlabelled,
            }
            images = self._pools.draw(int(class_), taken, rng)
            for role, part in zip(taken, np.split(images, np.cumsum(list(taken.values()))[:-1]), strict=True):
                rows[role].append(part)
                labels[role].append(np.full(len(part), index if known else -1))
        order = {role: np.arange(sum(map(len, parts))) for role, parts in rows.items()}
        for role in (Role.QUERY, Role.UNLABELLED):  # their order must not tell their class
            order[role] = rng.permutation(len(order[role]))
        return Episode(
            images=np.concatenate([np.concatenate(rows[role])[order[role]] for role in Role]),
            labels=np.concatenate([np.concatenate(labels[role])[order[role]] for role in Role]),
            role=np.concatenate([np.full(len(order[role]), int(role)) for role in Role]),
            classes=classes,
        )

    def _query_counts(self, room: Int64[np.ndarray, "way"]) -> Int64[np.ndarray, "way"]:
        """How many queries each class of an episode has."""
        setting, rng = self.setting, self._generator
        if setting.query_counts is not None:
            return rng.permutation(np.array(setting.query_counts))
        if setting.query_dirichlet is None:
            return np.full(setting.way, setting.query)
        shares = rng.dirichlet(np.full(setting.way, setting.query_dirichlet))
        counts: np.ndarray = np.minimum(rng.multinomial(setting.way * setting.query, shares), room)
        while (missing := setting.way * setting.query - counts.sum()) > 0:  # a class ran out: the others take over
            open_shares = np.where(counts < room, shares + 1e-9, 0)
            counts = np.minimum(counts + rng.multinomial(missing, open_shares / open_shares.sum()), room)
        return counts

    @property
    def state(self) -> dict[str, Any]:
        """Where the generator stands, as JSON can hold it; set it to continue from there."""
        return dict(self._generator.bit_generator.state)

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._generator.bit_generator.state = state


class Pools:
    """From which images of its class what is drawn.

    In a training split with --labelled-share (or its default, with --unlabelled) every class is divided for good
    into images with labels, from which support and queries come, and images without. Elsewhere all are one pool.
    """

    def __init__(self, split: Split, setting: Setting) -> None:
        self.split = split
        share = setting.labelled_share
        if share is None and setting.unlabelled:
            share = split.labelled_share
        self.divided = split.name == "train" and share is not None and share < 1
        rows = np.arange(len(split))
        labelled = np.ones(len(rows), bool)
        if self.divided and share is not None:
            labelled = labelled_part(split, share, setting.split_seed)
        self.labelled = [rows[start:end][labelled[start:end]] for start, end in pairwise(split.starts)]
        self.unlabelled = [rows[start:end][~labelled[start:end]] for start, end in pairwise(split.starts)]

    def draw(self, class_: int, taken: dict[Role, int], rng: np.random.Generator) -> Int64[np.ndarray, "image"]:
        """Draw so many images of a class for each role, one role after the other."""
        if not self.divided:
            return rng.choice(self.labelled[class_], sum(taken.values()), replace=False)
        with_labels = rng.choice(self.labelled[class_], taken[Role.SUPPORT] + taken[Role.QUERY], replace=False)
        without = rng.choice(self.unlabelled[class_], taken[Role.UNLABELLED], replace=False)
        return np.concatenate([with_labels, without])

    def room(self, classes: Int64[np.ndarray, "way"], setting: Setting) -> Int64[np.ndarray, "way"]:
        """How many queries each of these classes could have."""
        beside = setting.shot + (0 if self.divided else setting.unlabelled)
        return np.array([len(self.labelled[class_]) for class_ in classes]) - beside

    def check_room(self, setting: Setting) -> None:
        """Refuse a setting for which the split has too few classes, or a class too few images."""
        split, needed = self.split, setting.way + setting.distractors
        if needed > len(split.classes):
            distractors = f" and {setting.distractors} distractor classes" if setting.distractors else ""
            raise TPNError(
                f"An episode of {setting.way} ways{distractors} needs {needed} classes, but the {split.name} split has "
                f"{len(split.classes)}. Choose a smaller --way."
            )
        images = setting.shot + setting.most_queries
        parts = f"{setting.shot} shots + {setting.most_queries} queries"
        if self.divided:
            unlabelled = f"{setting.unlabelled} unlabelled"
            self._check(self.labelled, images, parts, " with labels", "--shot or --query")
            self._check(self.unlabelled, setting.unlabelled, unlabelled, " without labels", "--unlabelled")
        else:
            parts += f" + {setting.unlabelled} unlabelled" if setting.unlabelled else ""
            flags = "--shot, --query or --unlabelled" if setting.unlabelled else "--shot or --query"
            self._check(self.labelled, images + setting.unlabelled, parts, "", flags)

    def _check(self, pools: list[Int64[np.ndarray, "_"]], needed: int, parts: str, which: str, flags: str) -> None:
        counts = [len(pool) for pool in pools]
        fewest = int(np.argmin(counts))
        if needed > counts[fewest]:
            divided = " Or choose another --labelled-share." if self.divided else ""
            raise TPNError(
                f"An episode of {parts} needs {needed} images of each class{which}, but the class "
                f"{self.split.classes[fewest]!r} of the {self.split.name} split has {counts[fewest]}. Choose a "
                f"smaller {flags}.{divided}"
            )
