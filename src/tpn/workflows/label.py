"""Label a folder of images from the labels of a few."""

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tpn.errors import TPNError, TPNWarning
from tpn.labelling.folder_labels import FolderLabels
from tpn.labelling.label_lists import label_files
from tpn.labelling.outputs import plan_outputs
from tpn.progress import showing
from tpn.text import printable
from tpn.workflows.keywords import build, refuse_unknown, takes
from tpn.workflows.label_options import LabelOptions


@takes(LabelOptions)
def label_folder(folder: str | Path, *, progress: bool = True, **options: Any) -> FolderLabels:
    """Label all images of a folder from the labels of a few.

    A network embeds each image (once: features are kept in a cache). The images are the nodes of a nearest-neighbour
    graph, on which the known labels propagate to all others, together with the predictions of a linear model: see
    `tpn.LabelPropagator`. Nothing is written unless `out`, `page`, `copy_to` or `link_to` is given.

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
        Labels and confidences of all images, and suggestions what to label next. It prints as a table of the classes;
        `to_dataframe()` has a row for each image, and `write_csv` and `write_page` write files.

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
        outputs = plan_outputs(
            settings.out, settings.page, not settings.no_page, settings.suggest > 0, settings.copy_to, settings.link_to
        )
        own_features = settings.features if isinstance(settings.features, str | Path) else None
        read = [*(label_files(settings.labels) or ()), *([Path(own_features)] if own_features is not None else [])]
        outputs.check(read, settings.force)

        # torch, which these need, is loaded only now: what was refused above was refused at once
        from tpn.images.store_cache import cache_folder
        from tpn.labelling.embedding import embed
        from tpn.labelling.features import features_for
        from tpn.labelling.labelled_folder import find_images, read_known_labels
        from tpn.labelling.networks import check_learned_scales, find_network
        from tpn.labelling.pretrained_networks import name_network
        from tpn.labelling.suggestions import suggest
        from tpn.semi_supervised.feature_scaling import FeatureScaler
        from tpn.semi_supervised.label_propagator import LabelPropagator
        from tpn.training.device import computing

        with computing(settings.threads, settings.device) as device:
            images = find_images(Path(folder))
            outputs.check_apart_from(images.path, images.names)
            read_known_labels(images, settings.labels)
            if settings.length_scale == "learned":
                check_learned_scales(settings.backbone if settings.features is None else None)

            if settings.features is not None:
                backbone = str(own_features) if own_features is not None else "features"
                names, features = features_for(settings.features, images.names, images.problems)
            else:
                network = find_network(settings, device, settings.cache)
                backbone, cache = network.name, cache_folder(settings.cache)
                names, features = embed(images.path, images.names, network, cache, device, images.problems)
                name_network(settings.backbone, network.name)
            for sentence in images.problems.sentences:
                warnings.warn(sentence, TPNWarning, stacklevel=2)

            length_scale: float | Literal["local"] = "local"
            if settings.length_scale == "learned":
                # a TPN divides features by its length scales: W = exp(-d²/2D) of them is its equation (2)
                points, length_scale = features, (2 * features.shape[1]) ** 0.5
            else:
                points = FeatureScaler().fit_transform(features)

            classes = sorted({images.labels[name] for name in names if name in images.labels})
            if len(classes) < 2:
                raise TPNError(
                    f"Of the images that can be read, {'those of one class only' if classes else 'none'} have labels: "
                    "there must be labelled images of at least two classes."
                )
            codes = {class_: index for index, class_ in enumerate(classes)}
            y = np.array([codes[images.labels[name]] if name in images.labels else -1 for name in names])
            propagator = LabelPropagator(
                n_neighbors=settings.neighbours,
                alpha="auto" if settings.alpha is None else settings.alpha,
                rounds=settings.rounds,
                class_prior="estimated" if settings.class_prior == "estimated" else None,
                length_scale=length_scale,
                n_jobs=settings.threads or -1,
            ).fit(points, y)

            probabilities, given = propagator.label_distributions_, y >= 0
            confidence = probabilities.max(1) * propagator.familiarity_
            found = FolderLabels(
                folder=images.path,
                title=printable(str(folder)),
                paths=names,
                classes=classes,
                predicted=probabilities.argmax(1),
                confidence=confidence,
                given=given,
                kept=given | (confidence >= settings.min_confidence),
                suggested=suggest(points, probabilities, ~given, settings.suggest),
                unreached=int(propagator.unreached_.sum()),
                backbone=backbone,
                files=outputs.files,
            )
            outputs.write(found)
    return replace(found, seconds=time.perf_counter() - start)
