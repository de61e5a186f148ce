"""Prototypical networks."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from tpn.episodes.task import Task
from tpn.errors import TPNError
from tpn.methods._config import Config
from tpn.methods._method import Dimensions, Info, Method
from tpn.methods._prototypes import class_means, memberships, squared_distances
from tpn.methods._registry import register_method
from tpn.methods._transforms import of_length


@dataclass(frozen=True)
class ProtoNetConfig(Config):
    """Prototypical networks: classify a query by the nearest class mean of the support."""

    feature_length: float = 0.0
    """Scale all features to this length; 0 leaves them as the backbone gives them. A backbone that a cosine classifier
    has pre-trained needs a length of about 3: angles then decide, and the softmax of the squared distances, at most
    four times the square of the length, is neither flat nor saturated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.feature_length < float("inf"):
            raise TPNError(f"--feature-length must be a number of at least 0, not {self.feature_length}.")


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

    Config = ProtoNetConfig
    config: ProtoNetConfig

    def __init__(self, config: ProtoNetConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        maps: Tensor = self.backbone(images)
        features = maps.flatten(1)
        return of_length(features, self.config.feature_length) if self.config.feature_length else features

    def prototypes(self, task: Task) -> Float[Tensor, "episode way feature"]:
        """Return the prototype of each class of embedded episodes."""
        return class_means(task.support, memberships(task.support_labels, task.way, like=task.inputs))

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        return -squared_distances(task.query, self.prototypes(task))
