"""TADAM: task-dependent adaptive metric."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.func import functional_call

from tpn.episodes.task import Task, TrainingTask
from tpn.errors import TPNError
from tpn.methods._method import Dimensions, Info, Method
from tpn.methods._prototypes import class_means, memberships, squared_distances
from tpn.methods._registry import register_method
from tpn.methods._transforms import of_length
from tpn.methods.protonet import ProtoNetConfig

DECAYS, DECAY = 20, 0.9
"""Number of times that the weight of the auxiliary loss decays during training, and the factor."""


@dataclass(frozen=True)
class TADAMConfig(ProtoNetConfig):
    """TADAM: prototypical network with task-conditioned features and a learned scale of distances."""

    conditioning: bool = True
    """Scale and shift the output of each batch normalisation as a function of the task."""
    conditioning_penalty: float = 0.01
    """The weight of the penalty that draws these scales to one and these shifts to zero."""
    auxiliary: float = 1.0
    """The initial weight of the auxiliary loss, which classifies the support into all training classes; it decays by a
    factor of 0.9 twenty times during training. 0 switches it off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("conditioning_penalty", "auxiliary"):
            if not 0 <= getattr(self, name) < float("inf"):
                flag = f"--{name.replace('_', '-')}"
                raise TPNError(f"{flag} must be a number of at least 0, not {getattr(self, name)}.")


@register_method
class TADAM(Method):
    """Oreshkin et al., "TADAM: Task dependent adaptive metric for improved few-shot learning", NeurIPS 2018.

    The task embedding is the mean of the class prototypes, from a first pass of the support (averaged over the
    positions of its maps). From it, small networks compute a scale and a shift for each channel after each batch
    normalisation of the backbone, which then embeds all images. The score of a query for a class is the negative
    squared distance to its prototype, times a learned factor. An auxiliary loss of decaying weight classifies all
    training classes.

    https://arxiv.org/abs/1805.10123
    """

    info = Info(
        name="tadam",
        paper="Oreshkin et al., TADAM: Task dependent adaptive metric for improved few-shot learning, NeurIPS 2018",
        transduction="no",
    )
    Config = TADAMConfig
    config: TADAMConfig
    seen: Tensor
    """Training episodes so far."""

    def __init__(self, config: TADAMConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)
        features = math.prod(self.backbone.map_shape)
        self.log_scale = nn.Parameter(torch.tensor(0.0))
        self.register_buffer("seen", torch.tensor(0))
        if config.auxiliary:
            self.head = nn.Linear(features, dimensions.train_classes)
        if config.conditioning:
            norms = {name: part for name, part in self.backbone.named_modules() if isinstance(part, nn.BatchNorm2d)}
            if not norms:
                raise TPNError(
                    "tadam conditions the batch normalisation of its backbone on the task, but the backbone has none. "
                    "Choose another backbone, or --no-conditioning."
                )
            self.norms = list(norms)
            channels = self.backbone.map_shape[0]
            self.conditions = nn.ModuleList(Condition(channels, norm.num_features) for norm in norms.values())

    def embed_task(self, task: Task) -> tuple[Task, Float[Tensor, "episode support feature"]]:
        """Return the task with conditioned features, and the features of the support from the first pass."""
        each = [
            self.embed_episode(images, labels, task.way)
            for images, labels in zip(task.inputs, task.support_labels, strict=True)
        ]
        embedded, first = (torch.stack(parts) for parts in zip(*each, strict=True))
        return task.with_inputs(embedded), first

    def embed_episode(
        self, images: Float[Tensor, "node channel height width"], labels: Int64[Tensor, "support"], way: int
    ) -> tuple[Float[Tensor, "node feature"], Float[Tensor, "support feature"]]:
        if not self.config.conditioning:
            features = self.backbone(images).flatten(1)
            return features, features[: len(labels)]
        first_maps: Tensor = self.backbone(images[: len(labels)])
        task_embedding = class_means(first_maps.mean((2, 3)), memberships(labels, way, like=first_maps)).mean(0)
        weights: dict[str, Tensor] = {}
        for name, condition in zip(self.norms, self.conditions, strict=True):
            norm, (scale, shift) = self.backbone.get_submodule(name), condition(task_embedding)
            weights[f"{name}.weight"] = norm.weight * scale
            weights[f"{name}.bias"] = norm.bias * scale + shift
        maps: Tensor = functional_call(self.backbone, weights, (images,))
        return maps.flatten(1), first_maps.flatten(1)

    def compare(self, embedded: Task) -> Float[Tensor, "episode query way"]:
        """Return the scores of the queries of embedded tasks."""
        if self.config.feature_length:
            embedded = embedded.with_inputs(of_length(embedded.inputs, self.config.feature_length))
        members = memberships(embedded.support_labels, embedded.way, like=embedded.inputs)
        prototypes = class_means(embedded.support, members)
        return -self.log_scale.exp() * squared_distances(embedded.query, prototypes)

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        return self.compare(self.embed_task(task)[0])

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        embedded, first = self.embed_task(task)
        scores = self.compare(embedded)
        loss = F.cross_entropy(scores.flatten(0, 1), task.query_labels.flatten())
        if self.config.auxiliary:
            classes = task.classes.gather(1, task.support_labels)
            weight = self.config.auxiliary * DECAY ** (DECAYS * int(self.seen) // self.config.episodes)
            loss = loss + weight * F.cross_entropy(self.head(first).flatten(0, 1), classes.flatten())
        if self.config.conditioning:
            sizes = torch.cat([size for name, size in self.conditions.named_parameters() if name.endswith("_size")])
            loss = loss + self.config.conditioning_penalty * sizes.square().sum()
        self.seen += len(task.inputs)
        return loss, scores


class Condition(nn.Module):
    """Map a task embedding to a scale and a shift for each channel of a layer, initially 1 and 0."""

    def __init__(self, features: int, channels: int) -> None:
        super().__init__()
        self.scale, self.shift = _Residual(features, channels), _Residual(features, channels)
        self.scale_size = nn.Parameter(torch.zeros(channels))
        self.shift_size = nn.Parameter(torch.zeros(channels))

    def forward(
        self, task_embedding: Float[Tensor, "feature"]
    ) -> tuple[Float[Tensor, "channel"], Float[Tensor, "channel"]]:
        return 1 + self.scale_size * self.scale(task_embedding), self.shift_size * self.shift(task_embedding)


class _Residual(nn.Module):
    """Three linear layers, the last two with residual connections."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, outputs)
        self.second = nn.Linear(outputs, outputs)
        self.third = nn.Linear(outputs, outputs)

    def forward(self, inputs: Float[Tensor, "input"]) -> Float[Tensor, "output"]:
        hidden = F.relu(self.first(inputs))
        hidden = F.relu(hidden + self.second(hidden))
        outputs: Tensor = hidden + self.third(hidden)
        return outputs
