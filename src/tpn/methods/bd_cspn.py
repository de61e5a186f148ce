"""BD-CSPN: prototypes rectified by pseudo-labelled queries."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods._span import InnerProducts, mean_weights


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
        products, T = InnerProducts(together(support, query)), self.config.temperature
        return T * products.cosines(rectified(products, Y.mT, T))[..., Y.shape[1] :].mT


def shifted(
    support: Float[Tensor, "episode support feature"], query: Float[Tensor, "episode query feature"]
) -> Float[Tensor, "episode query feature"]:
    """Shift the queries so that their mean is that of the support."""
    return query + support.mean(1, keepdim=True) - query.mean(1, keepdim=True)


def rectified(
    products: InnerProducts, Y: Float[Tensor, "episode way support"], temperature: float
) -> Float[Tensor, "episode way node"]:
    """Return the prototypes as weights of the points: of each class's support and pseudo-labelled queries."""
    way, n_support = Y.shape[1:]
    queries = products.squares.shape[1] - n_support
    cosines = products.cosines(mean_weights(F.pad(Y, (0, queries))))
    pseudo = F.one_hot(cosines[..., n_support:].argmax(1), way).to(Y).mT
    return mean_weights(torch.cat([Y, pseudo], dim=-1) * (temperature * cosines).softmax(1))
