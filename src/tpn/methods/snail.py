"""SNAIL: simple neural attentive meta-learner."""

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
Extended: TypeAlias = tuple[Float[Tensor, "episode support extended"], Float[Tensor, "episode query extended"]]


@dataclass(frozen=True)
class SNAILConfig(Config):
    """SNAIL: read the support and then the query as a sequence, by temporal convolutions and attention."""

    embedding: int = 64
    """Size of the embedding of an image in the sequence."""
    filters: int = 128
    """Filters of each temporal convolution."""
    attention: bool = True
    """Use attention between the temporal convolutions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "embedding", 1)
        check_rounds(self, "filters", 1)


@register_method
class SNAIL(Method):
    """Mishra et al., "A Simple Neural Attentive Meta-Learner", ICLR 2018.

    An episode is a sequence: the images of the support with their labels, then a query without one. Dilated temporal
    convolutions alternate with causal attention, and the output at the last position gives the query's class. Every
    query has its own sequence but, as all layers are causal, the support is processed once for all of them. In
    training, the support is in random order.

    With default initialisation it takes thousands of episodes to learn to look for similar images. Therefore embeddings
    are normalised, labels are scaled to the same norm, and the queries and keys of attention start with the same
    weights.

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
        layers: list[CausalLayer] = []
        channels, length = config.embedding + dimensions.way, dimensions.way * dimensions.shot + 1

        def add(layer: CausalLayer) -> int:
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
        """Return the cross-entropy of the queries' scores, with the support in random order, and the scores."""
        embedded = self.embedded(task)
        order = torch.stack([torch.randperm(task.n_support) for _ in task.inputs]).to(task.inputs.device)
        support = embedded.support.gather(1, order[..., None].expand_as(embedded.support))
        inputs = torch.cat([support, embedded.inputs[:, task.n_support :]], dim=1)
        shuffled = Task(inputs, task.support_labels.gather(1, order), task.way, task.n_query)
        scores = self.score(shuffled)
        return F.cross_entropy(scores.flatten(0, 1), task.query_labels.flatten()), scores


class CausalLayer(nn.Module):
    """A causal layer: it appends to each position of a sequence channels computed from the positions up to it.

    Every query, in its own sequence, comes right after the support.
    """

    out_channels: int

    def forward(self, support: Support, query: Query) -> Extended:
        raise NotImplementedError


class TemporalConvolution(CausalLayer):
    """A gated convolution of each position with the one `dilation` before it (a "dense block")."""

    def __init__(self, channels: int, filters: int, dilation: int) -> None:
        super().__init__()
        self.here = nn.Linear(channels, 2 * filters)
        self.before = nn.Linear(channels, 2 * filters, bias=False)
        self.dilation, self.out_channels = dilation, channels + filters

    def forward(self, support: Support, query: Query) -> Extended:
        past = F.pad(self.before(support), (0, 0, self.dilation, 0))  # zeros before the first position
        length = support.shape[1]
        return (
            torch.cat([support, gated(self.here(support) + past[:, :length])], dim=-1),
            torch.cat([query, gated(self.here(query) + past[:, length : length + 1])], dim=-1),
        )


def gated(activations: Float[Tensor, "*position twice"]) -> Float[Tensor, "*position half"]:
    """Return one half of the activations, gated by the other half."""
    one, other = activations.chunk(2, dim=-1)
    return torch.tanh(one) * torch.sigmoid(other)


class CausalAttention(CausalLayer):
    """Attention of each position to itself and the positions before it."""

    def __init__(self, channels: int, keys: int, values: int) -> None:
        super().__init__()
        self.ask = nn.Linear(channels, keys)
        self.key = nn.Linear(channels, keys)
        self.ask.load_state_dict(self.key.state_dict())
        self.value = nn.Linear(channels, values)
        self.out_channels = channels + values

    def forward(self, support: Support, query: Query) -> Extended:
        keys, values = self.key(support), self.value(support)
        of_support = F.scaled_dot_product_attention(self.ask(support), keys, values, is_causal=True)
        asked = self.ask(query)
        to_support = asked @ keys.mT
        to_itself = (asked * self.key(query)).sum(-1, keepdim=True)
        weights = torch.softmax(torch.cat([to_support, to_itself], dim=-1) / math.sqrt(keys.shape[-1]), dim=-1)
        of_query = weights[..., :-1] @ values + weights[..., -1:] * self.value(query)
        return torch.cat([support, of_support], dim=-1), torch.cat([query, of_query], dim=-1)
