"""The images of a folder as points of a graph, for `tpn label`: the graph that was kept, or a new one.

Torch, which takes longer to load than all else, is loaded only if something has to be embedded.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.images.cache_folder import cache_folder
from tpn.labelling.features import features_for
from tpn.labelling.folder_graph import FolderGraph, KeptGraph, graph_folder, source_of_files
from tpn.labelling.known_features import known_features, published_network
from tpn.labelling.labelled_folder import LabelledFolder
from tpn.labelling.network_choice import name_network
from tpn.semi_supervised.feature_scaling import FeatureScaler
from tpn.workflows.label_options import LabelOptions

WORTH_KEEPING = 1000
"""The graph of fewer images is built in a fraction of a second."""


@dataclass(frozen=True)
class Connected:
    """The images that can be read, as points of a graph."""

    names: list[str]
    graph: FolderGraph
    backbone: str
    key: str
    """The key of the network; empty for features that were given."""
    features: np.ndarray | None = None
    """None if the graph was kept."""
    kept: KeptGraph | None = None
    """Where the graph is to be kept, if it is new and complete."""
    source: str = ""

    def keep(self) -> None:
        """Keep a new graph, once it is connected, for the next call; without space, that has to build it again."""
        if self.kept is not None and self.graph.engine.is_connected:
            with suppress(TPNError, OSError):
                self.kept.save(self.source, self.graph)


def connect_images(images: LabelledFolder, settings: LabelOptions) -> Connected:
    """Connect the images of a folder: by the graph of an earlier call, if nothing has changed since."""
    parameters: dict[str, Any] = {
        "n_neighbors": settings.neighbours,
        "alpha": "auto" if settings.alpha is None else settings.alpha,
        "rounds": settings.rounds,
        "class_prior": "estimated" if settings.class_prior == "estimated" else None,
        "n_jobs": settings.threads or -1,
    }
    learned = settings.length_scale == "learned"
    name, key = published_network(settings, settings.cache)
    kept, source = None, ""
    if settings.features is None and key is not None and len(images.names) >= WORTH_KEEPING and not learned:
        kept = KeptGraph(graph_folder(cache_folder(settings.cache), images.path, key))
        source = source_of_files(key, images.path, images.names)  # before files are read, lest they change meanwhile
        graph = kept.open(source, parameters["n_jobs"], parameters) if settings.save is None else None
        if graph is not None:
            name_network(settings.backbone, name)
            return Connected(images.names, graph, name, key)
    names, features, backbone, key = find_features(images, settings)
    if learned:
        # a TPN divides features by its length scales: W = exp(-d²/2D) of them is its equation (2)
        points, parameters["length_scale"] = features, (2 * features.shape[1]) ** 0.5
    else:
        points = FeatureScaler().fit_transform(features)
    graph = FolderGraph.of_points(points, np.arange(len(names)), parameters)
    kept = kept if names == images.names else None
    return Connected(names, graph, backbone, key, features, kept, source)


def find_features(images: LabelledFolder, settings: LabelOptions) -> tuple[list[str], np.ndarray, str, str]:
    """Return the images that can be read, their features, and the network and its key (empty for given features)."""
    if settings.features is not None:
        own = settings.features if isinstance(settings.features, str | Path) else "features"
        return *features_for(settings.features, images.names, images.problems), str(own), ""
    cache = cache_folder(settings.cache)
    known = known_features(settings, images.path, images.names, cache, settings.cache)
    if known is not None:
        name_network(settings.backbone, known.network)
        return images.names, known.features, known.network, known.key

    from tpn.labelling.embedding import embed
    from tpn.labelling.networks import find_network
    from tpn.training.device import computing

    with computing(settings.threads, settings.device) as device:
        network = find_network(settings, device, settings.cache)
        names, features = embed(images.path, images.names, network, cache, device, images.problems)
        name_network(settings.backbone, network.name)
        return names, features, network.name, network.key
