"""Label a folder of images from the labels of a few."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tpn.errors import TPNError, TPNWarning
from tpn.files import check_target
from tpn.labelling.folder_labels import FolderLabels
from tpn.labelling.label_lists import label_files
from tpn.progress import showing
from tpn.text import printable
from tpn.thread_count import check_threads
from tpn.workflows.keywords import build, refuse_unknown, takes
from tpn.workflows.label_options import LabelOptions

if TYPE_CHECKING:
    from tpn.labelling.labelled_folder import LabelledFolder
    from tpn.labelling.session import Session


@takes(LabelOptions)
def label_folder(folder: str | Path, *, progress: bool = True, **options: Any) -> FolderLabels:
    """Label all images of a folder from the labels of a few.

    A network embeds each image (once: features are kept in a cache). The images are the nodes of a nearest-neighbour
    graph, on which the known labels propagate to all others, together with the predictions of a linear model: see
    `tpn.LabelPropagator`. Nothing is written unless `out`, `page`, `copy_to`, `link_to`, `export` or `session` is
    given.

    Parameters
    ----------
    folder : str or Path
        The images: all in this folder and below.
    progress : bool, default=True
        Show progress on standard error.
    {options}

    Returns
    -------
    FolderLabels
        Labels and confidences of all images, and suggestions of what to label next. It prints as a table of the
        classes; `to_dataframe()` has a row for each image, and `write_csv` and `write_page` write files.

    Examples
    --------
    >>> found = tpn.label_folder("photos", labels={"cat 1.jpg": "cat", "dog 7.jpg": "dog"}, suggest=20)
    >>> print(found)
    >>> found.to_dataframe().sort_values("confidence")
    """
    start = time.perf_counter()
    settings = build(LabelOptions, options)
    refuse_unknown("label_folder", options, LabelOptions)
    with showing(progress):
        from tpn.labelling.exports import parse_export
        from tpn.labelling.outputs import plan_outputs

        exports = [parse_export(text) for text in settings.export]
        with_page, with_list = not settings.no_page, settings.suggest > 0
        outputs = plan_outputs(
            settings.out, settings.page, with_page, with_list, settings.copy_to, settings.link_to, exports
        )
        own_features = settings.features if isinstance(settings.features, str | Path) else None
        read = [*(label_files(settings.labels) or ()), *([Path(own_features)] if own_features is not None else [])]
        outputs.check(read, settings.force)
        check_saving(settings)
        check_computing(settings)

        from tpn.labelling.labelled_folder import find_images, read_known_labels

        images = find_images(Path(folder))
        outputs.check_apart_from(images.path, images.names, settings.force)
        with opened_session(images.path, settings) as session:
            needed = settings.suggest == 0 and session is None
            read_known_labels(images, settings.labels, needed)
            none = take_session(images, session, settings)
        from tpn.labelling.session_guesses import label_images  # scikit-learn, which takes seconds to load
        from tpn.workflows.label_graph import connect_images

        connected = connect_images(images, settings)
        names = connected.names
        for sentence in images.problems.sentences:
            warnings.warn(sentence, TPNWarning, stacklevel=2)

        labels = {name: images.labels[name] for name in names if name in images.labels}
        classes = set(labels.values()) | ({"none of the classes"} if none & set(names) else set())
        if len(classes) < 2 and not (settings.suggest and not labels):
            raise TPNError(
                f"Of the images that can be read, {'only those of one class' if classes else 'none'} have labels: "
                "label images of at least two classes."
            )
        found = label_images(
            images.path, names, labels, none, connected.graph, settings.suggest, settings.max_per_class
        )
        connected.keep()
        if found.unreached:
            warnings.warn(
                f"No label reaches {found.unreached:,} of {len(names):,} images on the graph: their labels are "
                "those of the prior model alone. A larger --neighbours connects more images.",
                TPNWarning,
                stacklevel=2,
            )
        found = replace(
            found,
            title=printable(str(folder)),
            kept=found.kept & (found.given | (found.confidence >= settings.min_confidence)),
            backbone=connected.backbone,
            files=outputs.files,
        )
        if settings.save is not None:
            from tpn.labelling.saved_labelling import Labelling

            assert connected.features is not None
            given = np.where(found.given, found.predicted, -1)
            parameters = {name: value for name, value in connected.graph.engine.options.items() if name != "n_jobs"}
            Labelling(connected.features, given, found.classes, connected.backbone, connected.key, parameters).save(
                settings.save
            )
        outputs.write(found)
    return replace(found, seconds=time.perf_counter() - start)


def check_computing(settings: LabelOptions) -> None:
    """Refuse a number of threads or a device that cannot be used, and length scales that nothing has learned."""
    check_threads(settings.threads)
    if settings.device not in ("auto", "cpu"):
        from tpn.training.device import find_device

        find_device(settings.device)
    if settings.length_scale == "learned":
        from tpn.labelling.networks import check_learned_scales

        check_learned_scales(settings.backbone if settings.features is None else None)


def check_saving(settings: LabelOptions) -> None:
    """Refuse to save what could not be applied to new images, or a file that exists."""
    if settings.save is None:
        return
    if settings.features is not None or settings.length_scale == "learned":
        raise TPNError("--save needs features of a network (--backbone) and --length-scale local.")
    if check_target(settings.save).exists() and not settings.force:
        raise TPNError(f"{settings.save} exists: choose another --save, or replace it with --force.")


@contextmanager
def opened_session(folder: Path, settings: LabelOptions) -> "Iterator[Session | None]":
    """Open the session of a folder, if it is wanted."""
    from tpn.labelling.session import Session, session_folder

    if not settings.session:
        yield None
        return
    with Session(session_folder(folder, settings.session_folder)) as session:
        yield session


def take_session(images: "LabelledFolder", session: "Session | None", settings: LabelOptions) -> set[str]:
    """Exchange labels with a session, which keeps those of lists; return the images of none of the classes."""
    from tpn.labelling.session_state import NONE

    if session is None:
        return set()
    if label_files(settings.labels) != [] or session.revision == 0:
        session.take(images.labels, "tpn label")
    images.labels = {path: label for path, label in session.labels.items() if path in set(images.names)}
    return {path for path, mark in session.state.marks.items() if mark == NONE}
