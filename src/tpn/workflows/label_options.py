"""The options of `label_folder` and `tpn label`. Nothing here needs torch or NumPy: `--help` answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from tyro.conf import arg

from tpn.errors import TPNError
from tpn.labelling.label_lists import KnownLabels
from tpn.labelling.network_options import NetworkOptions
from tpn.workflows.options import CacheOptions, DeviceOptions, Flag

MOST_ROUNDS = 1000


@runtime_checkable
class Array(Protocol):
    """Anything that NumPy can take as an array: arrays, tensors, data frames."""

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        """Return a NumPy array."""


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Where the labels of a session are kept."""

    session_folder: Path | None = None
    """The folder of the session (default: .tpn in the folder of the images)."""


@dataclass(frozen=True, kw_only=True)
class LabelOptions(NetworkOptions, DeviceOptions, CacheOptions, SessionOptions):
    """How to label a folder of images."""

    labels: Annotated[KnownLabels, arg(constructor=tuple[Path, ...], metavar="FILE ...")] = ()
    """The labels that are known: csv files with the columns path (relative to the folder) and label, COCO-style JSON or
    JSON of Label Studio; in Python also a mapping of paths to labels, pairs, or a data frame. Later lists override
    earlier ones; rows that tpn label wrote as guesses are not labels. By default, labelled images are in a sub-folder
    for each class, and the others beside these sub-folders or in one called `unlabelled`."""
    session: Flag = False
    """Use the labels of the folder's session, which tpn studio uses too, and keep those of --labels in it."""
    features: Annotated[str | Path | Array | None, arg(constructor=Path, metavar="FILE")] = None
    """Features that you have already, instead of a network's: a folder that `tpn embed` wrote; or a matrix (.npy; in
    Python also an array) with a row for each image, in the order of their paths."""
    out: Path | None = None
    """The file for the labels: path, label, confidence (default: none is written)."""
    page: Path | None = None
    """The file for the page, in HTML (default: beside --out)."""
    no_page: Flag = False
    """Write no page."""
    copy_to: Path | None = None
    """Also copy the images that have a label into a folder for each class, in this new folder."""
    link_to: Path | None = None
    """The same with links to the images instead of copies."""
    export: Annotated[tuple[str, ...], arg(metavar="FORMAT:PATH ...")] = ()
    """Also write the labels for other tools: csv:FILE, folders:DIR, links:DIR, imagefolder:DIR (Hugging Face),
    coco:FILE, label-studio:FILE, fiftyone:DIR."""
    save: Path | None = None
    """Save the labelling (features, labels, settings) for new images: tpn predict --labelling FILE NEW ..."""
    min_confidence: float = 0.0
    """Leave images whose confidence is below this (0 to 1) without a label: doubtful ones, and those of no class."""
    suggest: int = 0
    """Suggest this many images whose labels would help most, in a list beside --out for you to fill in. Without any
    label, they are a first set that covers the folder."""
    max_per_class: int | None = None
    """The largest number of suggestions with the same guess (default: no limit)."""
    length_scale: Literal["local", "learned"] = "local"
    """The length scale of each image in the graph: the distance of its seventh neighbour (local), or the one that a run
    of tpn (--backbone) has learned."""
    neighbours: int = 10
    """Neighbours of each image in the graph."""
    alpha: float | None = None
    """The weight of an image's neighbours, at least 0 and below 1; the rest is the weight of the prior model (default:
    0.9 with one label of each class, down to 0.8 with many)."""
    rounds: int = 2
    """How often the prior model is fitted again, on the propagated labels."""
    class_prior: Literal["estimated", "none"] = "estimated"
    """The class balance: draw classes towards equal size, the more the fewer labels there are; or correct nothing."""
    force: Flag = False
    """Replace files that exist."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.min_confidence <= 1:
            raise TPNError(f"--min-confidence must be at least 0 and at most 1, not {self.min_confidence}.")
        limits = (
            ("suggest", 0, 10**9),
            ("max_per_class", 1, 10**9),
            ("neighbours", 1, 10**6),
            ("rounds", 0, MOST_ROUNDS),
        )
        for name, least, most in limits:
            value, flag = getattr(self, name), f"--{name.replace('_', '-')}"
            if value is not None and value < least:
                raise TPNError(f"{flag} must be at least {least}, not {value}.")
            if value is not None and value > most:
                raise TPNError(f"{flag} must be at most {most}, not {value}.")
        if self.alpha is not None and not 0 <= self.alpha < 1:
            raise TPNError(f"--alpha must be at least 0 and below 1, not {self.alpha}.")
