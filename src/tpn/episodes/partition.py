"""The partition of each class into labelled and unlabelled images, for semi-supervised learning."""

from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Int64

from tpn.episodes.setting import Setting
from tpn.episodes.task import Role
from tpn.errors import TPNError
from tpn.images.split import Split


def labelled_mask(split: Split, share: float, seed: int) -> Bool[np.ndarray, "image"]:
    """Return for every image whether it belongs to the labelled images of its class.

    The partition depends on nothing but the images and the seed.
    """
    labelled = np.zeros(len(split), bool)
    for class_, (start, count) in enumerate(zip(split.starts, split.counts, strict=False)):
        order = np.random.default_rng([seed, class_]).permutation(count)
        labelled[start + order[: round(share * count)]] = True
    return labelled


class ClassPools:
    """The images of each class from which support and queries, and unlabelled images, are drawn.

    In a training split with --labelled-share (or its default, with --unlabelled) every class has a fixed partition:
    support and queries come from its labelled images. Otherwise all images of a class are one pool.
    """

    def __init__(self, split: Split, setting: Setting) -> None:
        self.split = split
        share = setting.labelled_share
        if share is None and setting.unlabelled:
            share = split.labelled_share
        self.partitioned = split.name == "train" and share is not None and share < 1
        rows = np.arange(len(split))
        labelled = np.ones(len(rows), bool)
        if self.partitioned and share is not None:
            labelled = labelled_mask(split, share, setting.split_seed)
        self.labelled = [rows[start:end][labelled[start:end]] for start, end in pairwise(split.starts)]
        self.unlabelled = [rows[start:end][~labelled[start:end]] for start, end in pairwise(split.starts)]

    def draw(self, class_: int, taken: dict[Role, int], rng: np.random.Generator) -> Int64[np.ndarray, "image"]:
        """Draw images of a class, given the number for each role; return them in the order of the roles."""
        if not self.partitioned:
            return rng.choice(self.labelled[class_], sum(taken.values()), replace=False)
        with_labels = rng.choice(self.labelled[class_], taken[Role.SUPPORT] + taken[Role.QUERY], replace=False)
        without = rng.choice(self.unlabelled[class_], taken[Role.UNLABELLED], replace=False)
        return np.concatenate([with_labels, without])

    def room(self, classes: Int64[np.ndarray, "way"], setting: Setting) -> Int64[np.ndarray, "way"]:
        """Count the images of each of these classes that could be queries."""
        beside = setting.shot + (0 if self.partitioned else setting.unlabelled)
        return np.array([len(self.labelled[class_]) for class_ in classes]) - beside

    def check_room(self, setting: Setting) -> None:
        """Refuse a setting for which the split has too few classes, or a class too few images."""
        split, needed = self.split, setting.way + setting.distractors + setting.open_classes
        if needed > len(split.classes):
            distractors = f" and {setting.distractors} distractor classes" if setting.distractors else ""
            distractors += f" and {setting.open_classes} open-set classes" if setting.open_classes else ""
            raise TPNError(
                f"An episode of {setting.way} ways{distractors} needs {needed} classes, but the {split.name} split has "
                f"{len(split.classes)}. Choose a smaller --way."
            )
        queries = 1 if setting.whole else setting.most_queries
        images = setting.shot + queries
        parts = f"{setting.shot} shots + {queries} queries"
        if self.partitioned:
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
            partition = " Or choose another --labelled-share." if self.partitioned else ""
            raise TPNError(
                f"An episode of {parts} needs {needed} images of each class{which}, but the class "
                f"{self.split.classes[fewest]!r} of the {self.split.name} split has {counts[fewest]}. Choose a "
                f"smaller {flags}.{partition}"
            )
