"""Class prototypes: weighted means, and squared distances to them."""

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor


def memberships(
    labels: Int64[Tensor, "*episode node"], way: int, like: Float[Tensor, "..."]
) -> Float[Tensor, "*episode node way"]:
    """Return the class of each node as a one-hot row."""
    return F.one_hot(labels, way).to(like)


def class_means(
    features: Float[Tensor, "*episode node feature"], membership: Float[Tensor, "*episode node way"]
) -> Float[Tensor, "*episode way feature"]:
    """Return the mean of each class, weighted by membership."""
    total: Tensor = membership.mT @ features
    return total / membership.sum(-2)[..., None]


def squared_distances(
    features: Float[Tensor, "*episode node feature"], prototypes: Float[Tensor, "*episode way feature"]
) -> Float[Tensor, "*episode node way"]:
    """Return the squared Euclidean distance of every node to every prototype, by a matrix product.

    The mean of the prototypes is subtracted first, which leaves distances unchanged and loses fewer digits in float32.
    """
    centre = prototypes.detach().mean(-2, keepdim=True)
    features, prototypes = features - centre, prototypes - centre
    squares = features.square().sum(-1)[..., :, None] + prototypes.square().sum(-1)[..., None, :]
    return squares - 2 * features @ prototypes.mT
