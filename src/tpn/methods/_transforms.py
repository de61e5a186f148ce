"""Feature transforms, which a head applies before it classifies. Most matter more than the choice of the head."""

from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

Transform: TypeAlias = Literal["auto", "none", "l2", "cl2", "power", "episode"]

SMALLEST = 1e-6
"""What the power transform adds, so that its slope is finite at zero."""


def centre_and_scale(
    features: Float[Tensor, "*episode node feature"], mean: Float[Tensor, "..."]
) -> Float[Tensor, "*episode node feature"]:
    """Subtract a mean, then scale every feature vector to unit length."""
    return F.normalize(features - mean, dim=-1)


def of_length(features: Float[Tensor, "*node feature"], length: float) -> Float[Tensor, "*node feature"]:
    """Scale every feature vector to this length."""
    return F.normalize(features, dim=-1) * length


def signed_root(features: Float[Tensor, "*node feature"]) -> Float[Tensor, "*node feature"]:
    """Return (z + 1e-6)^0.5, with the sign of z: features after a ReLU become closer to normally distributed."""
    root = (features.abs() + SMALLEST).sqrt()
    return torch.where(features < 0, -root, root)


def rooted(features: Float[Tensor, "*node feature"]) -> Float[Tensor, "*node feature"]:
    """Return the square roots of features, at unit length: what the power transform then centres."""
    return F.normalize(signed_root(features), dim=-1)


def transformed(
    features: Float[Tensor, "episode node feature"],
    name: Transform,
    base_mean: Float[Tensor, "feature"] | None,
    rooted_mean: Float[Tensor, "feature"] | None,
) -> Float[Tensor, "episode node feature"]:
    """Apply a transform to the features of embedded episodes.

    `base_mean` is the mean feature of the training classes, `rooted_mean` that of `rooted` features. Where they are not
    known, `auto` and `power` do without.
    """
    if name == "none":
        return features
    if name == "episode":
        features = F.normalize(features, dim=-1)
        return centre_and_scale(features, features.mean(-2, keepdim=True))
    if name == "power":
        features = rooted(features)
        return features if rooted_mean is None else centre_and_scale(features, rooted_mean)
    if name == "l2" or base_mean is None:
        return F.normalize(features, dim=-1)
    return centre_and_scale(features, base_mean)
