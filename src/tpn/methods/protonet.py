"""Prototypical networks."""

from jaxtyping import Float
from torch import Tensor

from tpn.episodes.task import Task
from tpn.methods._config import Config
from tpn.methods._method import Dimensions, Info, Method
from tpn.methods._prototypes import class_means, memberships, squared_distances
from tpn.methods._registry import register_method


@register_method
class ProtoNet(Method):
    """Snell et al., "Prototypical Networks for Few-shot Learning", NIPS 2017.

    A network embeds all images. The prototype of a class is the mean of its support, and the score of a query for a
    class is the negative squared Euclidean distance to its prototype. Training with more classes than testing ("higher
    way", `--way 30` for 1 shot and `--way 20` for 5) improves it.

    https://arxiv.org/abs/1703.05175
    """

    info = Info(
        name="protonet",
        paper="Snell et al., Prototypical Networks for Few-shot Learning, NIPS 2017",
        transduction="no",
        head=True,
    )

    def __init__(self, config: Config, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        maps: Tensor = self.backbone(images)
        return maps.flatten(1)

    def prototypes(self, task: Task) -> Float[Tensor, "episode way feature"]:
        """Return the prototype of each class of embedded episodes."""
        return class_means(task.support, memberships(task.support_labels, task.way, like=task.inputs))

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        return -squared_distances(task.query, self.prototypes(task))
