"""tpn label: label the rest of a folder of images."""

import json
import os
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from tpn.cli.device_options import MachineOptions
from tpn.cli.image_options import CacheOption
from tpn.cli.parsing import Flag, parse
from tpn.errors import TPNError, TPNWarning
from tpn.files import check_target, write_text
from tpn.images.store_cache import cache_folder
from tpn.labelling.embedding import embed
from tpn.labelling.labelled_folder import LabelledFolder, find_images, label_by_folders, label_by_lists
from tpn.labelling.labelling import Labelled, label_rest, read_features, write_labels, write_suggestions
from tpn.labelling.networks import DEFAULT, find_network
from tpn.labelling.page import make_page
from tpn.labelling.sorting import check_sorting, sort_images
from tpn.methods._registry import find_method
from tpn.methods.tpn import TPN
from tpn.progress import say
from tpn.runs.folder import find_run
from tpn.semi_supervised.feature_scaling import prepare
from tpn.semi_supervised.label_propagator import LabelPropagator
from tpn.text import counted, printable

MOST_LINES = 20


@dataclass(frozen=True, kw_only=True)
class Label(MachineOptions, CacheOption):
    """Label the rest of a folder of images, from the labels of a few.

    A network turns each image into features (once: they are kept). Images are then nodes of a graph of nearest
    neighbours, on which the few labels spread to all the others, together with what a linear model says that learns
    from them. Every label comes with a confidence; a page shows each class from sure to doubtful. To go on, label what
    --suggest names, and call it again with both lists.
    """

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """The images: all in this folder, and below."""
    labels: tuple[Path, ...] = ()
    """Files with the labels that are known: csv with the columns path (relative to the folder) and label. If not given,
    labelled images lie in a sub-folder for each class, and the others beside these, or in one called `unlabelled`."""
    backbone: str = DEFAULT
    """The network: efficientnet-lite0, which has learned from the photographs of ImageNet; a run folder of tpn train,
    or mini-conv4; or timm:MODEL, if timm is installed."""
    features: Path | None = None
    """Features that you have already, instead of a network's: a matrix (.npy) with a row for each image, in the order
    of their paths."""
    out: Path = Path("labels.csv")
    """The file for the labels: path, label, confidence."""
    page: Path | None = None
    """The file for the page (HTML); if not given, beside --out."""
    no_page: Flag = False
    """Make no page."""
    copy_to: Path | None = None
    """Also copy the images that have a label into a folder for each class, in this new folder."""
    link_to: Path | None = None
    """The same with links to the images instead of copies."""
    min_confidence: float = 0.0
    """Leave images without a label whose confidence is below this (0 to 1): the doubtful, and those of no class."""
    suggest: int = 0
    """Name so many images whose labels would help most; they are written to a list beside --out, to be filled in."""
    length_scale: Literal["local", "learned"] = "local"
    """How near neighbours must be to count: measured by the distance of each image's seventh neighbour; or as a run
    of tpn (--backbone) has learned it for each image."""
    neighbours: int = 10
    """Neighbours of each image in the graph."""
    alpha: float = 0.9
    """How much an image takes from its neighbours; the rest is from the linear model."""
    rounds: int = 2
    """How often the linear model learns again, from the surest images of each class too."""
    class_prior: Literal["estimated", "none"] = "estimated"
    """Draw classes towards equal shares, the more the fewer labels there are; or leave shares as they come out."""
    force: Flag = False
    """Replace files that exist."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    if sum(argument.partition("=")[0] == "--labels" for argument in arguments) > 1:  # only the last would count
        raise TPNError("Give --labels once, with all lists behind it: --labels FILE.csv FILE.csv.")
    options: Label = parse(Label, "tpn label", arguments)
    start = time.perf_counter()
    outputs = check_outputs(options)
    machine = options.prepare()
    images = find_images(options.folder)
    check_places(options, outputs, images)
    if options.labels:
        label_by_lists(images, options.labels)
    else:
        label_by_folders(images)
    images.check()
    if options.length_scale == "learned" and not learned_by(options):
        raise TPNError("--length-scale learned is for --backbone with a run of tpn, which has learned such scales.")
    names = images.names
    if options.features is not None:
        features, title = read_features(options.features, len(names)), str(options.features)
    else:
        network, title = find_network(options.backbone, machine.device), options.backbone
        embedded = embed(images.path, names, network, cache_folder(options.cache), machine.device, images.problems)
        names, features = embedded.names, embedded.features
    for sentence in images.problems.sentences:
        warnings.warn(sentence, TPNWarning, stacklevel=1)
    points = prepare(features) if options.length_scale == "local" else features
    propagating = propagator(options, points.shape[1])
    labelled = label_rest(names, points, images.labels, propagating, options.min_confidence, options.suggest)
    if "page" in outputs:
        counts = f"{counted(len(names), 'images')}, {counted(len(labelled.classes), 'classes')}"
        heading = f"{printable(str(options.folder))}: {counts}"
        facts = [summary(labelled), f"Features: {printable(title)}."]
        write_text(outputs["page"], make_page(labelled, images.path, heading, facts))
    if "suggestions" in outputs:
        write_suggestions(outputs["suggestions"], labelled)
    write_labels(outputs["out"], labelled)
    for how, target in (("copy", options.copy_to), ("link", options.link_to)):
        if target is not None:
            sort_images(labelled, images.path, target, how)  # type: ignore[arg-type]
    report(options, labelled, title, outputs, time.perf_counter() - start)
    return 0


def check_outputs(options: Label) -> dict[str, Path]:
    """Where everything will be written, refused now rather than after the work."""
    if not 0 <= options.min_confidence <= 1:
        raise TPNError(f"--min-confidence must be at least 0 and at most 1, not {options.min_confidence}.")
    for name, least in (("suggest", 0), ("neighbours", 1), ("rounds", 0)):
        if getattr(options, name) < least:
            raise TPNError(f"--{name} must be at least {least}, not {getattr(options, name)}.")
    if not 0 <= options.alpha < 1:
        raise TPNError(f"--alpha must be at least 0 and below 1, not {options.alpha}.")
    check_target(options.out)
    outputs = {"out": options.out}
    if options.suggest:
        outputs["suggestions"] = options.out.with_name(f"{options.out.stem}-suggestions.csv")
    if not options.no_page:
        outputs["page"] = options.page or options.out.with_suffix(".html")
    written = [*outputs.values(), *filter(None, (options.copy_to, options.link_to))]
    read = {os.path.realpath(path) for path in (*options.labels, *filter(None, [options.features]))}
    uses = Counter([*map(os.path.realpath, written), *read])
    for path in written:
        if uses[os.path.realpath(path)] > 1:
            raise TPNError(f"{path} would have two uses: choose another --out, --page or --copy-to.")
    for path in outputs.values():
        check_target(path)
        if path.is_file() and not options.force:
            raise TPNError(f"{path} exists: choose another --out, or replace it with --force.")
    return outputs


def check_places(options: Label, outputs: dict[str, Path], images: LabelledFolder) -> None:
    """Refuse places that would harm the images."""
    files = {str(images.path / name) for name in images.names}
    for path in outputs.values():
        if os.path.realpath(path) in files:
            raise TPNError(f"{path} is one of the images: choose another --out or --page.")
    for target in (options.copy_to, options.link_to):
        if target is not None:
            check_sorting(target, images.path)


def learned_by(options: Label) -> bool:
    """Is the backbone a run of a method that learns length scales?"""
    run = find_run(options.backbone)
    return options.features is None and run.exists and issubclass(find_method(run.read_config().method), TPN)


def propagator(options: Label, dimensions: int) -> LabelPropagator:
    """Features of a TPN are divided by their length scales already: W = exp(-d²/2D) of them, as in its equation (2)."""
    return LabelPropagator(
        length_scale="local" if options.length_scale == "local" else (2 * dimensions) ** 0.5,
        n_neighbors=options.neighbours,
        alpha=options.alpha,
        rounds=options.rounds,
        class_prior="estimated" if options.class_prior == "estimated" else None,
    )


def summary(labelled: Labelled) -> str:
    """What came out, in a sentence."""
    given, kept = int(labelled.given.sum()), int((labelled.kept & ~labelled.given).sum())
    doubtful = int((~labelled.kept).sum())
    rest = labelled.confidence[~labelled.given]
    sure = f"; mean confidence {100 * rest.mean():.0f} %" if len(rest) else ""
    left = f", {doubtful:,} too doubtful" if doubtful else ""
    return f"{given:,} labels given, {kept:,} found{left}{sure}."


def report(options: Label, labelled: Labelled, title: str, outputs: dict[str, Path], seconds: float) -> None:
    """Say what came out."""
    members = {class_: labelled.best == index for index, class_ in enumerate(labelled.classes)}
    suggestions = [labelled.names[index] for index in labelled.suggestions]
    if options.json:
        result = {
            "pictures": len(labelled.names),
            "classes": {
                class_: {
                    "given": int((mask & labelled.given).sum()),
                    "labelled": int((mask & labelled.kept & ~labelled.given).sum()),
                }
                for class_, mask in members.items()
            },
            "too_doubtful": int((~labelled.kept).sum()),
            "mean_confidence": float(labelled.confidence[~labelled.given].mean()) if not labelled.given.all() else None,
            "unreached": labelled.unreached,
            "suggestions": suggestions,
            "backbone": title,
            "files": {name: str(path) for name, path in outputs.items()},
            "seconds": seconds,
        }
        print(json.dumps(result))
        return
    shown = {class_: printable(class_) for class_ in labelled.classes}
    width = max(len("class"), *map(len, shown.values()))
    print(f"{'class':<{width}}  given  labelled  confidence")
    for class_, mask in list(members.items())[:MOST_LINES]:
        found = mask & labelled.kept & ~labelled.given
        sure = f"{100 * labelled.confidence[found].mean():.0f} %" if found.any() else ""
        print(f"{shown[class_]:<{width}}  {int((mask & labelled.given).sum()):>5}  {int(found.sum()):>8}  {sure:>10}")
    if len(members) > MOST_LINES:
        print(f"… and {len(members) - MOST_LINES:,} more classes")
    print(summary(labelled))
    if suggestions:
        print("To label next:", *map(printable, suggestions), sep="\n  ")
    written = [path for path in [*outputs.values(), options.copy_to, options.link_to] if path is not None]
    say(f"Written: {', '.join(map(str, written))} ({seconds:.1f} s)")
