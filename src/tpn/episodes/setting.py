"""The composition of an episode: way, shot, queries, unlabelled images, distractors."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tpn.errors import TPNError

BatchNorm: TypeAlias = Literal["running", "batch"]
"""The statistics that batch normalisation uses in a test: those of training, or those of the episode."""
TEST_SEED = 0
"""The default seed of test episodes: they are the same for every method, whatever the seed of its training."""

MOST = 10**6
"""The most classes, and images of a class, in an episode."""


@dataclass(frozen=True)
class Setting:
    """Composition of an episode."""

    way: int = 5
    """Classes in an episode."""
    shot: int = 5
    """Labelled images of each class."""
    query: int = 15
    """Images of each class to classify (queries)."""
    query_counts: tuple[int, ...] | None = None
    """Unbalanced queries: the number for each class, assigned to the classes at random (instead of --query)."""
    query_dirichlet: float | None = None
    """Unbalanced queries: way x query in all, with class proportions drawn from a Dirichlet distribution with this
    concentration (the smaller, the more unbalanced)."""
    query_classes: int | None = None
    """Missing classes: only this number of the episode's classes, chosen at random, have queries; --query-dirichlet
    then divides query_classes x query queries among them."""
    open_classes: int = 0
    """Open set: further classes whose images are queries too, --query of each, and belong to none of the episode's
    classes. Accuracy is that of the other queries; the area under the ROC curve shows how well the confidence tells
    them apart."""
    whole: bool = False
    """A whole collection as one episode: all classes of the split, --shot labelled images of each, and all others are
    queries (instead of --way and --query)."""
    unlabelled: int = 0
    """Further images of each class that a method sees without labels (semi-supervised learning)."""
    distractors: int = 0
    """Further classes that have only unlabelled images in an episode."""
    labelled_share: float | None = None
    """The fraction of each training class that has labels; support and queries come from it, unlabelled images from
    the rest (default: with --unlabelled 0.4, or 0.1 on tieredImageNet; otherwise 1)."""
    split_seed: int = 0
    """The seed of the partition of the training classes into labelled and unlabelled images."""

    def __post_init__(self) -> None:
        for name, least in (("way", 2), ("shot", 1), ("query", 1), ("unlabelled", 0), ("distractors", 0)):
            value = getattr(self, name)
            if not least <= value <= MOST:
                limit = f"least {least}" if value < least else f"most {MOST:,}"
                raise TPNError(f"--{name} must be at {limit}, not {value}.")
        if self.distractors and not self.unlabelled:
            raise TPNError("--distractors adds unlabelled images of further classes: give --unlabelled as well.")
        if self.query_counts is not None and self.query_dirichlet is not None:
            raise TPNError("Give --query-counts or --query-dirichlet, not both.")
        if self.query_counts is not None:
            if len(self.query_counts) != self.way:
                raise TPNError(
                    f"--query-counts needs a number for each of the {self.way} classes; "
                    f"{len(self.query_counts)} were given."
                )
            if min(self.query_counts) < 0 or sum(self.query_counts) == 0:
                raise TPNError("--query-counts must not be negative, and at least one of them must be above 0.")
        self._check_realistic()
        if self.labelled_share is not None and not 0 < self.labelled_share <= 1:
            raise TPNError(f"--labelled-share must be above 0 and at most 1, not {self.labelled_share}.")
        if not 0 <= self.split_seed < 2**63:
            raise TPNError(f"--split-seed must be at least 0 and below 2^63, not {self.split_seed}.")
        if self.query_dirichlet is not None and not 0 < self.query_dirichlet < float("inf"):
            raise TPNError(f"--query-dirichlet must be a number above 0, not {self.query_dirichlet}.")

    def _check_realistic(self) -> None:
        if self.open_classes < 0:
            raise TPNError(f"--open-classes must be at least 0, not {self.open_classes}.")
        if self.query_classes is not None and not (1 <= self.query_classes <= self.way or self.whole):
            raise TPNError(f"--query-classes must be from 1 to the {self.way} classes, not {self.query_classes}.")
        if self.query_classes is not None and self.query_counts is not None:
            raise TPNError("Give --query-classes or --query-counts, not both.")
        others = ("query_counts", "query_dirichlet", "query_classes", "open_classes", "unlabelled", "distractors")
        if self.whole and (given := [name for name in others if getattr(self, name)]):
            flag = given[0].replace("_", "-")
            raise TPNError(f"With --whole, every image without a label is a query: leave out --{flag}.")

    def __str__(self) -> str:
        """Describe the setting in one line, such as "5-way 1-shot, 15 queries per class"."""
        if self.whole:
            return f"all classes, {self.shot}-shot, all other images as queries"
        occurring = self.way if self.query_classes is None else self.query_classes
        if self.query_counts is not None:
            queries = f"{'+'.join(map(str, self.query_counts))} queries"
        elif self.query_dirichlet is not None:
            queries = f"{occurring * self.query} queries unbalanced by Dirichlet({self.query_dirichlet:g})"
        else:
            queries = f"{self.query} queries per class"
        if self.query_classes is not None:
            queries += f" of {occurring} classes"
        if self.open_classes:
            queries += f", {self.open_classes} open-set classes"
        unlabelled = f", {self.unlabelled} unlabelled per class" if self.unlabelled else ""
        distractors = f", {self.distractors} distractor classes" if self.distractors else ""
        share = f", labelled share {self.labelled_share:g}" if self.labelled_share is not None else ""
        partition = f", split seed {self.split_seed}" if self.split_seed else ""
        return f"{self.way}-way {self.shot}-shot, {queries}{unlabelled}{distractors}{share}{partition}"

    @property
    def images(self) -> int:
        """The number of images in an episode with the same number of queries of each class."""
        return self.way * (self.shot + self.query) + (self.way + self.distractors) * self.unlabelled

    @property
    def most_queries(self) -> int:
        """The largest number of queries that a class certainly needs."""
        return max(self.query_counts) if self.query_counts is not None else self.query
