"""Embed the images of a folder or a list once, into shards of features."""

import csv
import warnings
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tpn.errors import TPNError, TPNWarning
from tpn.files import file_lock, resolved
from tpn.labelling.network_options import NetworkOptions
from tpn.progress import progress as show_progress
from tpn.progress import showing
from tpn.results import Result
from tpn.text import counted, printable, size_text
from tpn.workflows.embed_options import EmbedOptions
from tpn.workflows.keywords import build, refuse_unknown, takes


@dataclass(frozen=True)
class Embedded(Result):
    """What is in a folder of shards."""

    folder: Path
    backbone: str
    images: int
    width: int
    shards: int
    unreadable: list[tuple[str, str]]
    """Images that cannot be read, and why."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "backbone": self.backbone,
            "images": self.images,
            "width": self.width,
            "shards": self.shards,
            "unreadable": [{"path": path, "why": why} for path, why in self.unreadable],
        }

    def summary(self) -> str:
        left = f" {counted(len(self.unreadable), 'images cannot be read')}." if self.unreadable else ""
        size = size_text(4 * self.images * self.width)
        return (
            f"{self.folder} holds {self.images:,} images as {self.width} features each by {self.backbone}, in "
            f"{self.shards} shard(s), {size}.{left}"
        )


@takes(EmbedOptions)
def embed_images(source: str | Path, out: str | Path, *, progress: bool = True, **options: Any) -> Embedded:
    """Embed the images of a folder or a list into shards of features, here or on a Ray cluster.

    Each shard is complete on disk before it counts: an interrupted call continues where it was. Read the result
    with `tpn.open_features(out)`, which has `names` and is taken by `tpn.label_folder(features=out)` and
    `tpn.LabelPropagator`.

    Parameters
    ----------
    source : str or Path
        A folder with images; or a list of them: a text file with a path in each line, or a csv file with a column
        `path`, relative to the folder of the list.
    out : str or Path
        The folder for the shards.
    progress : bool, default=True
        Show progress on standard error.
    {options}

    Returns
    -------
    Embedded
        How many images there are, and which cannot be read.
    """
    settings = build(EmbedOptions, options)
    refuse_unknown("embed_images", options, EmbedOptions)
    root, names = images_of(Path(source))
    from tpn.labelling.feature_shards import FeatureShards, Plan, ShardFolder
    from tpn.labelling.network_choice import name_network
    from tpn.labelling.networks import find_network
    from tpn.labelling.shard_workers import embed_here, embed_on_ray
    from tpn.training.device import computing

    with showing(progress), computing(settings.threads, settings.device) as device:
        network = find_network(settings, device, settings.cache)
        plan = Plan(str(root), tuple(names), network.name, network.key, settings.shard_size)
        target = resolved(Path(out))
        shards = ShardFolder(target, plan)
        name_network(settings.backbone, network.name)
        with file_lock(target / ".lock", wait=False) as held:
            if not held:
                raise TPNError(f"Another process is writing {target}.")
            missing = shards.missing()
            done = len(names) - sum(len(plan.shards[number]) for number in missing)
            with show_progress("embedding", len(names), "images", done) as advance:
                if settings.ray is not None and missing:
                    chosen = {field.name: getattr(settings, field.name) for field in fields(NetworkOptions)}
                    chosen["backbone"] = network.name
                    finished = embed_on_ray(
                        plan, missing, settings.ray, settings.workers, settings.threads or 1, chosen, settings.cache,
                        advance,
                    )  # fmt: skip
                else:
                    finished = embed_here(plan, missing, network, device, advance)
                with closing(finished):  # type: ignore[type-var]
                    for number, shard in finished:
                        shards.write(number, shard)
            shards.finish()
        made = FeatureShards(target)
    for name, why in made.unreadable[:3]:
        warnings.warn(f"{printable(name)} cannot be read: {why}", TPNWarning, stacklevel=2)
    if not len(made):
        raise TPNError(f"None of the files of {source} can be read as an image.")
    return Embedded(target, made.backbone, len(made), made.shape[1], len(plan.shards), made.unreadable)


def images_of(source: Path) -> tuple[Path, list[str]]:
    """Return the folder that names are relative to, and the names: of all images in a folder, or of those in a list."""
    from tpn.labelling.labelled_folder import find_images

    path = resolved(source)
    if path.is_dir():
        found = find_images(path)
        for sentence in found.problems.sentences:
            warnings.warn(sentence, TPNWarning, stacklevel=3)
        return found.path, found.names
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
    except OSError as failure:
        raise TPNError(f"Cannot read {source}: {failure.strerror or failure}.") from failure
    header = next(csv.reader(lines[:1]), []) if path.suffix.lower() == ".csv" else []
    if header and "path" not in header:
        raise TPNError(f"{source} has no column `path`: its first line is {printable(lines[0])[:100]}.")
    rows = [row.get("path") or "" for row in csv.DictReader(lines)] if header else lines
    names = list(dict.fromkeys(row.strip() for row in rows if row.strip()))
    if not names:
        raise TPNError(f"There are no images in the list {source}.")
    return path.parent, names


def open_features(folder: str | Path) -> Any:
    """Open the features that `tpn embed` wrote, memory-mapped: rows are read from disk when they are used.

    Parameters
    ----------
    folder : str or Path
        The folder that was `out`.

    Returns
    -------
    FeatureShards
        Has `names` (a path for each row), `shape`, and rows (`shards[10:20]`); `LabelPropagator` takes it as an array.
    """
    from tpn.labelling.feature_shards import FeatureShards

    return FeatureShards(folder)
