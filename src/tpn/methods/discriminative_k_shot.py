"""Discriminative k-shot learning."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.episodes.task import Task
from tpn.methods._classifier_training import ClassifierTraining
from tpn.methods._config import ClassifierConfig, check_rounds
from tpn.methods._method import Info
from tpn.methods._prototypes import memberships
from tpn.methods._registry import register_method
from tpn.propagation.batched_solve import inverse

FLAT = 1e4
"""The variance of weights without a prior."""
CLOSE = 1e-5
"""The tolerance of the gradient."""


@dataclass(frozen=True)
class DiscriminativeKShotConfig(ClassifierConfig):
    """Discriminative k-shot learning: train a classifier of all training classes, and fit a prior for the weights of
    new classes to its weights."""

    prior: Literal["isotropic", "diagonal", "none"] = "isotropic"
    """The Gaussian prior for the weights of new classes, fitted to those of the training classes: one variance per
    feature (diagonal), or one for all (isotropic); or no prior (none), which is logistic regression, stopped early."""
    steps: int = 200
    """Maximum number of steps to find the most probable weights in a task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "steps", 1)


@register_method
class DiscriminativeKShot(ClassifierTraining):
    """Bauer et al., "Discriminative k-shot learning using probabilistic models", 2017.

    A network learns to classify all training classes, without episodes. The weights of its last layer, one vector for
    each class, are regarded as a sample of a Gaussian distribution, which is the prior for the weights of new classes:
    a task uses those that are most probable given the prior and its support (MAP).

    https://arxiv.org/abs/1706.00326
    """

    info = Info(
        name="discriminative-k-shot",
        paper="Bauer et al., Discriminative k-shot learning using probabilistic models, 2017",
        transduction="no",
        learns_from="mini-batches",
    )
    Config = DiscriminativeKShotConfig
    config: DiscriminativeKShotConfig

    @property
    def variance(self) -> Float[Tensor, "feature1"]:
        """The prior variance of the weights of a new class, with that of its bias last.

        The prior mean is the same for all classes, and so does not affect which class is the most probable.
        """
        weights = torch.cat([self.head.weight, self.head.bias[:, None]], dim=1).detach()
        if self.config.prior == "none":
            return torch.full_like(weights[0], FLAT)
        variance = (weights - weights.mean(0)).square().mean(0)
        return variance if self.config.prior == "diagonal" else variance.mean().expand_as(variance)

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        support, query = (F.pad(features.double(), (0, 1), value=1.0) for features in (task.support, task.query))
        scaled = support * self.variance
        Y = memberships(task.support_labels, task.way, like=scaled)
        scores = query @ scaled.mT @ most_probable(support @ scaled.mT, Y, self.config.steps)
        return scores.to(task.inputs)


def most_probable(
    K: Float[Tensor, "*episode support support"], Y: Float[Tensor, "*episode support way"], steps: int
) -> Float[Tensor, "*episode support way"]:
    """Return the coefficients A of the most probable weights, ΣΦᵀA, for features Φ of the support and K = ΦΣΦᵀ.

    They minimise the cross-entropy of softmax(KA) plus tr(AᵀKA)/2. The curvature of the first term is at most K²/2, so
    each step of `(K/2 + I)⁻¹` times the gradient leads downhill; Nesterov's momentum, restarted when it leads uphill,
    reduces their number.
    """
    S = K.shape[-1]
    descent = inverse(K / 2 + torch.eye(S, dtype=K.dtype, device=K.device))
    A = ahead = torch.zeros_like(Y)
    momentum = torch.ones_like(K[..., :1, :1])
    for _ in range(steps):
        gradient = (K @ ahead).softmax(-1) - Y + ahead  # up to a factor K
        if gradient.abs().max() < CLOSE:
            break
        following = ahead - descent @ gradient
        uphill = (K @ gradient * (following - A)).sum((-2, -1), keepdim=True) > 0
        grown = torch.where(uphill, 1.0, (1 + torch.sqrt(1 + 4 * momentum.square())) / 2)
        ahead = following + torch.where(uphill, 0.0, (momentum - 1) / grown) * (following - A)
        A, momentum = following, grown
    return A
