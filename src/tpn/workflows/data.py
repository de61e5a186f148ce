"""Looking at images and preparing them: what is behind `tpn data info | prepare | show`.

Nothing here loads torch before the arguments have been checked.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpn.episodes.setting import Setting as Setting
from tpn.errors import TPNError
from tpn.images.source_names import check_size, check_source
from tpn.progress import showing
from tpn.results import Result
from tpn.text import printable
from tpn.workflows.keywords import build, refuse_unknown, takes
from tpn.workflows.options import ImageOptions, SplitName


@dataclass(frozen=True)
class DataInfo(Result):
    """The splits of a source of images."""

    source: str
    layout: str
    """How the source stores its images, in words."""
    image_size: int
    channels: int
    splits: dict[str, dict[str, int]]
    """The number of `classes` and `images` of each split, and of `categories` where the source has them."""
    prepared: bool
    """Whether the images can be loaded at once."""
    store: Path | None = None
    """The folder of the prepared images, if there is one."""
    mean: tuple[float, ...] | None = None
    """The mean of each channel of the training images; None if the images are not prepared."""
    std: tuple[float, ...] | None = None
    problems: tuple[str, ...] = ()
    """What is left out, and why."""
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = asdict(self)
        facts.update(problems=list(self.problems), remarks=list(self.remarks))
        facts["store"] = None if self.store is None else str(self.store)
        return {name: value for name, value in facts.items() if value is not None or name == "store"}

    def rows(self) -> list[dict[str, Any]]:
        return [{"split": name, **counts} for name, counts in self.splits.items()]

    def summary(self) -> str:
        size = f"{self.image_size}x{self.image_size} pixels, {self.channels} channel(s)"
        size = f"{self.channels} features" if self.mean == () else size
        lines = [f"{printable(self.source)}: {self.layout}, {size}", self.table()]
        lines += [f"  {sentence}" for sentence in (*self.problems, *self.remarks)]
        if not self.prepared:
            lines.append("The images are not prepared in this size: the first command that needs them prepares them.")
        else:
            lines.append(f"The images are prepared: {self.store}" if self.store else "No preparation is needed.")
        return "\n".join(lines)

    def table(self) -> str:
        """Return a table of the splits."""
        categories = any("categories" in counts for counts in self.splits.values())
        lines = ["split  classes   images" + ("  categories" if categories else "")]
        for name, counts in self.splits.items():
            last = f"  {counts.get('categories', ''):>10}" if categories else ""
            lines.append(f"{name:<5}  {counts['classes']:>7}  {counts['images']:>7}{last}")
        return "\n".join(lines)

    @property
    def store_bytes(self) -> int:
        """The size of the prepared images on disk, in bytes."""
        return 0 if self.store is None else sum(file.stat().st_size for file in self.store.iterdir())


@takes(ImageOptions)
def data_info(source: Any, **options: Any) -> DataInfo:
    """Count the classes and images of each split of a source, without preparing them.

    Parameters
    ----------
    source : str or Images
        `quickdraw`, `mini-imagenet:PATH`, `tiered-imagenet:PATH` or `folder:PATH`, or opened images.
    {options}

    Returns
    -------
    DataInfo
    """
    chosen = build(ImageOptions, options)
    refuse_unknown("data_info", options, ImageOptions)
    if not _check(source, chosen) or source == "quickdraw":
        return _info_of_images(_open(source, chosen), chosen)
    from tpn.images.cache_folder import cache_folder
    from tpn.images.opening import find_source
    from tpn.images.store import Store
    from tpn.images.store_cache import find_store, refusal

    found = find_source(source, chosen.class_seed)
    assert found is not None, "quickdraw is handled above"
    with found:
        size = chosen.image_size or found.image_size
        store = find_store(found, size, cache_folder(chosen.cache))
        if store is not None:
            return _info_of_images(store, chosen)
        index = found.index()
        problems = tuple(index.problems.sentences)
        if chosen.strict and problems:
            raise refusal(found.spec, problems)
        splits = {name: _counts(found.split_info(split.counts)) for name, split in index.splits.items()}
        return DataInfo(
            found.spec,
            index.layout,
            size,
            Store.channels,
            splits,
            False,
            problems=problems,
            remarks=tuple(index.remarks),
        )


@takes(ImageOptions)
def prepare_data(source: Any, *, progress: bool = True, **options: Any) -> DataInfo:
    """Decode and resize all images of a source once, into a store in the cache folder.

    Every function that needs the images does this automatically. A store that exists is compared with its checksums,
    and rebuilt if it is damaged or its source has changed.

    Parameters
    ----------
    source : str or Images
        `quickdraw`, `mini-imagenet:PATH`, `tiered-imagenet:PATH` or `folder:PATH`, or opened images.
    progress : bool, default=True
        Show a progress bar.
    {options}

    Returns
    -------
    DataInfo
    """
    chosen = build(ImageOptions, options)
    refuse_unknown("prepare_data", options, ImageOptions)
    _check(source, chosen)
    with showing(progress):
        return _info_of_images(_open(source, chosen, verify=True), chosen)


@takes(ImageOptions, Setting)
def show_data(
    source: Any,
    out: str | os.PathLike[str],
    *,
    split: SplitName = "train",
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> Path:
    """Draw the images of an episode: a row for each class, with its support, its queries and its unlabelled images.

    Parameters
    ----------
    source : str or Images
        `quickdraw`, `mini-imagenet:PATH`, `tiered-imagenet:PATH` or `folder:PATH`, or opened images.
    out : path
        The image file to write; its extension determines the format.
    split : {"train", "val", "test"}, default="train"
        The split to draw the classes from.
    seed : int, default=0
        Each seed draws another episode.
    progress : bool, default=True
        Show a progress bar while images are prepared.
    {options}

    Returns
    -------
    Path
        The file that was written.
    """
    chosen = build(ImageOptions, options)
    setting = build(Setting, options)
    refuse_unknown("show_data", options, ImageOptions, Setting)
    _check(source, chosen)
    from tpn.episodes.episode_sampler import draw_episodes
    from tpn.evaluation.plots.contact_sheet import draw_contact_sheet
    from tpn.evaluation.plots.figure import check_figure

    path = Path(out)
    check_figure(path)
    with showing(progress):
        images = _open(source, chosen)
    if images.are_features:
        raise TPNError(f"{images.spec} holds features, which cannot be shown as images.")
    drawn_from = images.split(split)
    [episode] = draw_episodes(drawn_from, setting, 1, seed)
    draw_contact_sheet(drawn_from, episode, f"{images.spec}, {split} split: {setting}", path)
    return path


def _check(source: Any, options: ImageOptions) -> bool:
    """Refuse a wrong name or size. Returns whether the source is given by its name."""
    if not isinstance(source, str) and hasattr(source, "split"):
        return False
    check_source(source, options.cache)
    check_size(options.image_size)
    return True


def _open(source: Any, options: ImageOptions, verify: bool = False) -> Any:
    from tpn.images.opening import open_images

    return open_images(source, **asdict(options), verify=verify)


def _info_of_images(images: Any, options: ImageOptions) -> DataInfo:
    from tpn.images.store_cache import refusal

    problems = tuple(images.problems)
    if options.strict and problems:
        raise refusal(images.spec, problems)
    return DataInfo(
        images.spec,
        images.layout,
        images.image_size,
        images.channels,
        {name: _counts(split) for name, split in images.info().items()},
        True,
        images.folder,
        images.mean,
        images.std,
        problems,
        tuple(images.remarks),
    )


def _counts(split: Any) -> dict[str, int]:
    return {name: value for name, value in asdict(split).items() if value is not None}
