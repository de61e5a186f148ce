"""Relation networks."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tpn.backbones._blocks import ConvBlock
from tpn.episodes.task import Task, TrainingTask
from tpn.errors import TPNError
from tpn.methods._config import Config
from tpn.methods._method import Dimensions, Info, Method
from tpn.methods._prototypes import memberships
from tpn.methods._registry import register_method

SMALLEST_UNPADDED = 12
"""The smallest maps for which the two blocks of the relation module need no padding."""


@dataclass(frozen=True)
class RelationNetConfig(Config):
    """Relation network: learn a similarity of queries and classes from their concatenated feature maps."""

    backbone: str = "conv4-maps"
    halve_every: int = 100_000


@register_method
class RelationNet(Method):
    """Sung et al., "Learning to Compare: Relation Network for Few-Shot Learning", CVPR 2018.

    A network embeds all images as feature maps. The maps of a class are summed over its support and
    concatenated with those of a query; a second network, the relation module, turns the pair into a score between 0 and
    1. Training minimises the mean squared error against 1 for the right class and 0 for the others.

    https://arxiv.org/abs/1711.06025
    """

    info = Info(
        name="relation-net",
        paper="Sung et al., Learning to Compare: Relation Network for Few-Shot Learning, CVPR 2018",
        transduction="no",
    )
    Config = RelationNetConfig

    def __init__(self, config: RelationNetConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)
        if self.backbone.gives_vectors:
            raise TPNError(
                "relation-net compares feature maps, but the backbone returns one vector per image. Choose a backbone "
                "with maps, such as conv4-maps."
            )
        self.relation = RelationModule(self.backbone.map_shape)

    def embed(
        self, images: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image filter mapheight mapwidth"]:
        maps: Tensor = self.backbone(images)
        return maps

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        members = memberships(task.support_labels, task.way, like=task.inputs)
        classes = torch.einsum("esw,escxy->ewcxy", members, task.support)
        return torch.stack([self.relation(*pair) for pair in zip(task.query, classes, strict=True)])

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        """Return the mean squared error against 1 for the right class and 0 for the others, and the scores."""
        scores = self.score(self.embedded(task))
        return F.mse_loss(scores, memberships(task.query_labels, task.way, like=scores)), scores


class RelationModule(nn.Module):
    """The similarity of a query and a class from their maps: two convolutional blocks, then layers of 8 units and 1.

    The first convolution of concatenated maps is the sum of a convolution of each. So it is computed once for each
    query and each class, not for each pair.
    """

    def __init__(self, map_shape: tuple[int, int, int], filters: int = 64) -> None:
        super().__init__()
        channels, height, width = map_shape
        padded = min(height, width) < SMALLEST_UNPADDED
        pool = "up" if padded else "down"
        self.first = ConvBlock(2 * channels, filters, pool, padded)  # type: ignore[arg-type]
        self.second = ConvBlock(filters, filters, pool, padded)  # type: ignore[arg-type]
        for block in (self.first, self.second):
            height, width = block.output_size(height), block.output_size(width)
        self.hidden = nn.Linear(filters * height * width, 8)
        self.out = nn.Linear(8, 1)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(
        self, queries: Float[Tensor, "query channel height width"], classes: Float[Tensor, "way channel height width"]
    ) -> Float[Tensor, "query way"]:
        of_class, of_query = self.first.convolution.weight.chunk(2, dim=1)
        padding = self.first.convolution.padding
        concatenated = (
            F.conv2d(queries, of_query, padding=padding)[:, None] + F.conv2d(classes, of_class, padding=padding)[None]
        )
        pairs = concatenated.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        maps = self.second(self.first.after_convolution(pairs))
        relation = torch.sigmoid(self.out(F.relu(self.hidden(maps.flatten(1)))))
        return relation.view(len(queries), len(classes))
