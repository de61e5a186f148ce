"""MAP: soft k-means on support and queries."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods._span import InnerProducts, mean_weights
from tpn.methods._transforms import Transform


@dataclass(frozen=True)
class MAPKMeansConfig(HeadConfig):
    """Soft k-means in the episode, from the means of the support."""

    transform: Transform = "episode"
    temperature: float = 5.0
    """The factor of the squared distances to the class means."""
    rounds: int = 30
    """Updates of the class means."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "temperature")
        check_rounds(self, "rounds", 0)


@register_method
class MAPKMeans(Head):
    """Soft k-means on support and queries, the baseline without optimal transport of Hu et al., "Leveraging the Feature
    Distribution in Transfer-based Few-Shot Learning", ICANN 2021.

    Features are centred on the episode, at unit length. Then 30 times each query belongs to the classes by p =
    softmax(-5‖z - μ‖²), and μ is the mean of the support and of the queries, weighted by p.

    https://arxiv.org/abs/2006.03806
    """

    info = Info(
        name="map-kmeans",
        paper="Hu et al., Leveraging the Feature Distribution in Transfer-based Few-Shot Learning, ICANN 2021",
        transduction="yes",
        learns_from="mini-batches",
        head=True,
    )
    Config = MAPKMeansConfig
    config: MAPKMeansConfig

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        n_support, T = support.shape[1], self.config.temperature
        products, labels = InnerProducts(together(support, query)), Y.mT
        means = mean_weights(F.pad(labels, (0, query.shape[1])))
        for _ in range(self.config.rounds):
            p = (-T * products.squared_distances(means)).softmax(1)[..., n_support:]
            means = mean_weights(torch.cat([labels, p], dim=-1))
        return -T * products.squared_distances(means)[..., n_support:].mT
