"""MAP: soft k-means on support and queries."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means, squared_distances
from tpn.methods._registry import register_method
from tpn.methods._span import span_coordinates
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
        points, T = span_coordinates(together(support, query)), self.config.temperature
        query = points[:, support.shape[1] :]
        means = class_means(points[:, : support.shape[1]], Y)
        for _ in range(self.config.rounds):
            p = (-T * squared_distances(query, means)).softmax(-1)
            means = class_means(points, together(Y, p))
        return -T * squared_distances(query, means)
