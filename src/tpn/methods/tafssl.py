"""TAFSSL: a subspace for the task, and mean shift of the prototypes in it."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_fraction, check_positive, together
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means
from tpn.methods._registry import register_method
from tpn.methods._span import span_coordinates
from tpn.methods.pt_map import centred_separately
from tpn.propagation.batched_solve import one_thread


@dataclass(frozen=True)
class TAFSSLConfig(HeadConfig):
    """TAFSSL: project the episode onto its few main directions, and shift prototypes there by the surest queries."""

    dimensions: int = 10
    """Dimensions of the subspace."""
    subspace: Literal["pca", "ica"] = "pca"
    """The main directions of the episode (pca), or those scaled to unit variance (ica): independent components are a
    rotation of the latter, which leaves cosines unchanged."""
    rounds: int = 4
    """Mean shifts of the prototypes."""
    surest: float = 0.5
    """The fraction of the queries of each class, the surest ones, that shift its prototype."""
    temperature: float = 10.0
    """The factor of the cosines."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "dimensions", 1)
        check_rounds(self, "rounds", 0)
        check_fraction(self, "surest")
        check_positive(self, "temperature")


@register_method
class TAFSSL(Head):
    """Lichtenstein et al., "TAFSSL: Task-Adaptive Feature Sub-Space Learning for Few-Shot Classification", ECCV 2020.

    Support and queries are centred separately and projected onto the main directions of the episode. There the
    prototypes shift four times to the mean of their support and their surest queries.

    https://arxiv.org/abs/2003.06670
    """

    info = Info(
        name="tafssl",
        paper="Lichtenstein et al., TAFSSL: Task-Adaptive Feature Sub-Space Learning, ECCV 2020",
        transduction="yes",
        learns_from="mini-batches",
        head=True,
    )
    Config = TAFSSLConfig
    config: TAFSSLConfig

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        points = span_coordinates(centred_separately(support, query))
        points = main_directions(points, self.config.dimensions, self.config.subspace == "ica")
        support, query = points[:, : support.shape[1]], points[:, support.shape[1] :]
        prototypes = class_means(support, Y)
        for _ in range(self.config.rounds):
            members = surest_members(self.cosines(query, prototypes), self.config.surest)
            prototypes = class_means(points, together(Y, members))
        return self.cosines(query, prototypes)

    def cosines(
        self, query: Float[Tensor, "episode query d"], prototypes: Float[Tensor, "episode way d"]
    ) -> Float[Tensor, "episode query way"]:
        """Return the scaled cosine of every query to every prototype."""
        return self.config.temperature * F.normalize(query, dim=-1) @ F.normalize(prototypes, dim=-1).mT


def main_directions(
    points: Float[Tensor, "episode node feature"], dimensions: int, whiten: bool
) -> Float[Tensor, "episode node d"]:
    """Project the points of each episode onto their main directions, at unit variance if they are to be whitened."""
    centred = points - points.mean(1, keepdim=True)
    with one_thread():
        _, values, directions = torch.linalg.svd(centred, full_matrices=False)
    d = min(dimensions, values.shape[-1])
    projected: Tensor = points @ directions[:, :d].mT
    if not whiten:
        return projected
    deviations: Tensor = values[:, None, :d].clamp_min(torch.finfo(points.dtype).eps) / points.shape[1] ** 0.5
    return projected / deviations


def surest_members(scores: Float[Tensor, "episode query way"], fraction: float) -> Float[Tensor, "episode query way"]:
    """Return 1 for the surest queries of each class: this fraction of those with their largest score for it."""
    sureness, best = scores.softmax(-1).max(-1, keepdim=True)
    own = torch.zeros_like(scores).scatter(-1, best, sureness)  # 0 for the other classes
    rank = own.argsort(1, descending=True).argsort(1)
    wanted = (fraction * (own > 0).sum(1, keepdim=True)).ceil()
    return ((rank < wanted) & (own > 0)).to(scores)
