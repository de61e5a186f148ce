"""SimpleShot: the nearest class mean after a feature transform."""

from jaxtyping import Float
from torch import Tensor

from tpn.methods._head import Head
from tpn.methods._method import Info
from tpn.methods._prototypes import class_means, squared_distances
from tpn.methods._registry import register_method


@register_method
class SimpleShot(Head):
    """Wang et al., "SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot Learning", 2019.

    The score of a query is the negative squared distance to the mean of a class's support, after the mean feature of
    the training classes is subtracted and features are scaled to unit length.

    https://arxiv.org/abs/1911.04623
    """

    info = Info(
        name="simple-shot",
        paper="Wang et al., SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot Learning, 2019",
        transduction="no",
        learns_from="mini-batches",
        head=True,
    )

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        return -squared_distances(query, class_means(support, Y))
