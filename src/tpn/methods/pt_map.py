"""PT-MAP: power transform, and class centres by optimal transport."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_fraction, check_positive, together
from tpn.methods._method import Info
from tpn.methods._registry import register_method
from tpn.methods._span import InnerProducts, mean_weights
from tpn.methods._transforms import Transform
from tpn.methods._transport import balanced_assignment, log_probabilities


@dataclass(frozen=True)
class PTMAPConfig(HeadConfig):
    """PT-MAP: assign the queries to classes of equal size, move the class centres, repeat."""

    transform: Transform = "power"
    temperature: float = 10.0
    """The factor of the squared distances to the class centres."""
    rounds: int = 20
    """Updates of the class centres."""
    inertia: float = 0.2
    """The fraction of the way to the mean of its members that a centre moves in a round."""
    balanced: bool = True
    """Assign the same number of queries to each class; otherwise assign each query by itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "temperature")
        check_fraction(self, "inertia")
        check_rounds(self, "rounds", 0)


@register_method
class PTMAP(Head):
    """Hu et al., "Leveraging the Feature Distribution in Transfer-based Few-Shot Learning", ICANN 2021.

    Support and queries are centred separately, each on its mean. Then 20 times: the queries are assigned to the classes
    by optimal transport (Sinkhorn), so that each class gets its equal share; each class centre moves a fifth of the way
    towards the mean of its support and its assigned queries.

    https://arxiv.org/abs/2006.03806
    """

    info = Info(
        name="pt-map",
        paper="Hu et al., Leveraging the Feature Distribution in Transfer-based Few-Shot Learning, ICANN 2021",
        transduction="yes",
        learns_from="mini-batches",
        class_balance="equal",
        head=True,
    )
    Config = PTMAPConfig
    config: PTMAPConfig

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        products, labels = InnerProducts(centred_separately(support, query)), Y.mT
        centres = mean_weights(F.pad(labels, (0, query.shape[1])))
        for _ in range(self.config.rounds):
            members = torch.cat([labels, self.assign(products, centres, query.shape[1]).mT], dim=-1)
            centres = torch.lerp(centres, mean_weights(members), self.config.inertia)
        return log_probabilities(self.assign(products, centres, query.shape[1]))

    def assign(
        self, products: InnerProducts, centres: Float[Tensor, "episode way node"], queries: int
    ) -> Float[Tensor, "episode {queries} way"]:
        """Return the assignment of each query to the classes, whose centres are given by their weights."""
        logits = -self.config.temperature * products.squared_distances(centres)[..., -queries:].mT
        return balanced_assignment(logits) if self.config.balanced else logits.softmax(-1)


def centred_separately(
    support: Float[Tensor, "episode support feature"], query: Float[Tensor, "episode query feature"]
) -> Float[Tensor, "episode node feature"]:
    """Centre support and queries each on its own mean, and scale them to unit length."""
    return F.normalize(together(support - support.mean(1, keepdim=True), query - query.mean(1, keepdim=True)), dim=-1)
