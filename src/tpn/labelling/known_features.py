"""Features that are in the cache already. Nothing here needs torch, which takes longer to load than all else."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tpn.labelling.feature_cache import FeatureCache
from tpn.labelling.network_choice import best_at_hand, published_key
from tpn.labelling.network_options import NetworkOptions


class KnownFeatures(NamedTuple):
    """The features of all images of a folder, and the network that made them."""

    network: str
    key: str
    features: np.ndarray


def published_network(options: NetworkOptions, networks: Path | None) -> tuple[str, str | None]:
    """Return the name of the chosen network, and its key if it has its published weights."""
    name = best_at_hand(networks) if options.backbone is None else options.backbone
    return name, None if options.weights is not None else published_key(name)


def known_features(
    options: NetworkOptions, folder: Path, names: Sequence[str], cache: Path, networks: Path | None
) -> KnownFeatures | None:
    """Return the features of these images if every one of them is in the cache; otherwise None.

    Parameters
    ----------
    options : NetworkOptions
        The network. Only one with its published weights is known without being loaded.
    folder : Path
        The folder of the images.
    names : sequence of str
        The images.
    cache : Path
        The folder of the cache of features.
    networks : Path, optional
        The cache that fetched networks are in, as the user has chosen it.
    """
    name, key = published_network(options, networks)
    if key is None:
        return None
    with FeatureCache(cache) as known:
        contents = known.contents([folder / name for name in names])
        wanted = {content for content in contents if content is not None}
        if None in contents:
            return None
        features = known.features(key, wanted)
    if len(features) < len(wanted):
        return None
    return KnownFeatures(name, key, np.stack([features[content] for content in contents if content is not None]))
