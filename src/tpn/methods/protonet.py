"""Prototypical networks."""

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.episodes.task import Task
from tpn.methods._method import Config, Dimensions, Info, Method
from tpn.methods._registry import register


@register
class ProtoNet(Method):
    """Snell et al., "Prototypical Networks for Few-shot Learning", NIPS 2017.

    A network embeds all images. The prototype of a class is the mean of its support, and the score of a query for a
    class is the negative squared Euclidean distance to its prototype. Training with more classes than testing ("higher
    way", `--way 30` for 1 shot and `--way 20` for 5) makes it better.
    """

    info = Info(
        name="protonet",
        paper="Snell et al., Prototypical Networks for Few-shot Learning, NIPS 2017",
        transduction="no",
    )

    def __init__(self, config: Config, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        maps: Tensor = self.backbone(images)
        return maps.flatten(1)

    def prototypes(self, task: Task) -> Float[Tensor, "episode way feature"]:
        """What stands for each class of embedded episodes."""
        return class_means(task.support, memberships(task.support_labels, task.way, like=task.inputs))

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        return -squared_distances(task.query, self.prototypes(task))


def memberships(
    labels: Int64[Tensor, "*episode node"], way: int, like: Float[Tensor, "..."]
) -> Float[Tensor, "*episode node way"]:
    """A one in the column of its class for each node."""
    return F.one_hot(labels, way).to(like)


def class_means(
    features: Float[Tensor, "*episode node feature"], share: Float[Tensor, "*episode node way"]
) -> Float[Tensor, "*episode way feature"]:
    """The mean of the nodes of each class, a node counting by its share in the class."""
    total: Tensor = share.mT @ features
    return total / share.sum(-2)[..., None]


def squared_distances(
    features: Float[Tensor, "*episode node feature"], prototypes: Float[Tensor, "*episode way feature"]
) -> Float[Tensor, "*episode node way"]:
    """The squared Euclidean distance of every node to every prototype, by a matrix product.

    The mean of the prototypes is taken off first: distances do not change by it, and float32 loses fewer digits.
    """
    middle = prototypes.detach().mean(-2, keepdim=True)
    features, prototypes = features - middle, prototypes - middle
    squares = features.square().sum(-1)[..., :, None] + prototypes.square().sum(-1)[..., None, :]
    return squares - 2 * features @ prototypes.mT
