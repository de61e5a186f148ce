"""Semi-supervised learning: which images of each class have labels, and which have none."""

import numpy as np
from jaxtyping import Bool

from tpn.images.split import Split


def labelled_part(split: Split, share: float, seed: int) -> Bool[np.ndarray, "image"]:
    """For every image, is it in the labelled part of its class? The rest of the class is its unlabelled part.

    A seed names a division: the same one divides the same images alike, whatever else is drawn.
    """
    labelled = np.zeros(len(split), bool)
    for class_, (start, count) in enumerate(zip(split.starts, split.counts, strict=False)):
        order = np.random.default_rng([seed, class_]).permutation(count)
        labelled[start + order[: round(share * count)]] = True
    return labelled
