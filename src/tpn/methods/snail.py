"""SNAIL."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tpn.episodes.task import Task, TrainingTask
from tpn.methods._config import Config, check_rounds
from tpn.methods._method import Dimensions, Info, Method
from tpn.methods._prototypes import memberships
from tpn.methods._registry import register_method

Support: TypeAlias = Float[Tensor, "episode support channel"]
Query: TypeAlias = Float[Tensor, "episode query channel"]
Longer: TypeAlias = tuple[Float[Tensor, "episode support longer"], Float[Tensor, "episode query longer"]]


@dataclass(frozen=True)
class SNAILConfig(Config):
    """SNAIL: read the support as a sequence, by temporal convolutions and attention, with the query at its end."""

    embedding: int = 64
    """Numbers that stand for an image in the sequence."""
    filters: int = 128
    """Filters of each temporal convolution."""
    attention: bool = True
    """Look back by attention between the convolutions; without it, by convolutions only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "embedding", 1)
        check_rounds(self, "filters", 1)


@register_method
class SNAIL(Method):
    """Mishra et al., "A Simple Neural Attentive Meta-Learner", ICLR 2018.

    An episode is a sequence: each image of the support with its label, then a query without one. Dilated convolutions
    over time and causal attention, in turn, read it, and the last place says the query's class. Every query has a
    sequence to itself, but as nothing looks ahead, the support is read once for all of them. In training, the support
    comes in a random order.

    Left as it falls, it takes thousands of episodes to find out that it should look for similar images. So embeddings
    are normalised, labels are as large as they are, and attention starts with the same weights for both of its sides.

    https://arxiv.org/abs/1707.03141
    """

    info = Info(
        name="snail",
        paper="Mishra et al., A Simple Neural Attentive Meta-Learner, ICLR 2018",
        transduction="no",
        fixed_way=True,
        equivariant=False,
    )
    Config = SNAILConfig
    config: SNAILConfig

    def __init__(self, config: SNAILConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)
        features = math.prod(self.backbone.map_shape)
        self.projection = nn.Sequential(nn.Linear(features, config.embedding), nn.BatchNorm1d(config.embedding))
        layers: list[LookingBack] = []
        channels, length = config.embedding + dimensions.way, dimensions.way * dimensions.shot + 1

        def add(layer: LookingBack) -> int:
            layers.append(layer)
            return layer.out_channels

        for index, (keys, values) in enumerate([(64, 32), (256, 128), (512, 256)]):
            if index:
                for power in range(math.ceil(math.log2(length))):
                    channels = add(TemporalConvolution(channels, config.filters, dilation=2**power))
            if config.attention:
                channels = add(CausalAttention(channels, keys, values))
        self.layers = nn.ModuleList(layers)
        self.out = nn.Linear(channels, dimensions.way)

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        embedded: Tensor = self.projection(self.backbone(images).flatten(1))
        return embedded

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        labels = memberships(task.support_labels, task.way, like=task.inputs)
        support = torch.cat([task.support, labels * math.sqrt(self.config.embedding)], dim=-1)
        query = F.pad(task.query, (0, task.way))
        for layer in self.layers:
            support, query = layer(support, query)
        scores: Tensor = self.out(query)
        return scores

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        """The cross-entropy of the queries' scores, with the support in a random order."""
        embedded = self.embedded(task)
        order = torch.stack([torch.randperm(task.n_support) for _ in task.inputs]).to(task.inputs.device)
        support = embedded.support.gather(1, order[..., None].expand_as(embedded.support))
        inputs = torch.cat([support, embedded.inputs[:, task.n_support :]], dim=1)
        shuffled = Task(inputs, task.support_labels.gather(1, order), task.way, task.n_query)
        scores = self.score(shuffled)
        return F.cross_entropy(scores.flatten(0, 1), task.query_labels.flatten()), scores


class LookingBack(nn.Module):
    """A layer that adds channels made from the places before to each place of a sequence.

    Every query stands, by itself, right behind the support.
    """

    out_channels: int

    def forward(self, support: Support, query: Query) -> Longer:
        raise NotImplementedError


class TemporalConvolution(LookingBack):
    """A gated convolution of each place with the one `dilation` before it (a "dense block")."""

    def __init__(self, channels: int, filters: int, dilation: int) -> None:
        super().__init__()
        self.here = nn.Linear(channels, 2 * filters)
        self.before = nn.Linear(channels, 2 * filters, bias=False)
        self.dilation, self.out_channels = dilation, channels + filters

    def forward(self, support: Support, query: Query) -> Longer:
        past = F.pad(self.before(support), (0, 0, self.dilation, 0))  # nothing is before the beginning
        length = support.shape[1]
        return (
            torch.cat([support, gated(self.here(support) + past[:, :length])], dim=-1),
            torch.cat([query, gated(self.here(query) + past[:, length : length + 1])], dim=-1),
        )


def gated(activations: Float[Tensor, "*place twice"]) -> Float[Tensor, "*place half"]:
    """One half of the activations, as far as the other lets it through."""
    one, other = activations.chunk(2, dim=-1)
    return torch.tanh(one) * torch.sigmoid(other)


class CausalAttention(LookingBack):
    """Reads from a place itself and those before it, weighted by the softmax of how its query meets their keys."""

    def __init__(self, channels: int, keys: int, values: int) -> None:
        super().__init__()
        self.ask = nn.Linear(channels, keys)
        self.key = nn.Linear(channels, keys)
        self.ask.load_state_dict(self.key.state_dict())
        self.value = nn.Linear(channels, values)
        self.out_channels = channels + values

    def forward(self, support: Support, query: Query) -> Longer:
        keys, values = self.key(support), self.value(support)
        of_support = F.scaled_dot_product_attention(self.ask(support), keys, values, is_causal=True)
        asked = self.ask(query)
        to_support = asked @ keys.mT
        to_itself = (asked * self.key(query)).sum(-1, keepdim=True)
        weights = torch.softmax(torch.cat([to_support, to_itself], dim=-1) / math.sqrt(keys.shape[-1]), dim=-1)
        of_query = weights[..., :-1] @ values + weights[..., -1:] * self.value(query)
        return torch.cat([support, of_support], dim=-1), torch.cat([query, of_query], dim=-1)
