"""BD-CSPN: prototypes rectified by pseudo-labelled queries."""

from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means
from tpn.methods._registry import register_method


@dataclass(frozen=True)
class BDCSPNConfig(HeadConfig):
    """BD-CSPN: move the queries onto the support, then the prototypes onto the queries."""

    shift: bool = True
    """Shift the queries so that their mean is that of the support."""
    temperature: float = 10.0
    """The factor of the cosines in the weights of the members of a class."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "temperature")


@register_method
class BDCSPN(Head):
    """Liu et al., "Prototype Rectification for Few-Shot Learning", ECCV 2020.

    The queries are shifted by the difference between the means of support and queries. Each gets the label of the
    prototype of largest cosine. The rectified prototype of a class is the mean of its members, weighted by the softmax
    of their cosines; the score of a query is the cosine to it.

    https://arxiv.org/abs/1911.10713
    """

    info = Info(
        name="bd-cspn",
        paper="Liu et al., Prototype Rectification for Few-Shot Learning, ECCV 2020",
        transduction="yes",
        learns_from="mini-batches",
        head=True,
    )
    Config = BDCSPNConfig
    config: BDCSPNConfig

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        if self.config.shift:
            query = shifted(support, query)
        prototypes = rectified(support, Y, query, self.config.temperature)
        return self.config.temperature * F.normalize(query, dim=-1) @ F.normalize(prototypes, dim=-1).mT


def shifted(
    support: Float[Tensor, "episode support feature"], query: Float[Tensor, "episode query feature"]
) -> Float[Tensor, "episode query feature"]:
    """Shift the queries so that their mean is that of the support."""
    return query + support.mean(1, keepdim=True) - query.mean(1, keepdim=True)


def rectified(
    support: Float[Tensor, "episode support feature"],
    Y: Float[Tensor, "episode support way"],
    query: Float[Tensor, "episode query feature"],
    temperature: float,
) -> Float[Tensor, "episode way feature"]:
    """Return the weighted mean of each class's support and pseudo-labelled queries."""
    prototypes, points = F.normalize(class_means(support, Y), dim=-1), together(support, query)
    cosines = F.normalize(points, dim=-1) @ prototypes.mT
    pseudo = F.one_hot(cosines[:, support.shape[1] :].argmax(-1), Y.shape[-1]).to(Y)
    return class_means(points, together(Y, pseudo) * (temperature * cosines).softmax(-1))
