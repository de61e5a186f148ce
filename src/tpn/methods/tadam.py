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
from tpn.methods._config import Config
from tpn.methods._method import Dimensions, Info, Method
from tpn.methods._prototypes import class_means, memberships, squared_distances
from tpn.methods._registry import register_method

FALLS, FACTOR = 20, 0.9
"""How often the weight of base-class training falls, and by which factor."""


@dataclass(frozen=True)
class TADAMConfig(Config):
    """TADAM: prototypes of features that depend on the task, at a learned scale of distances."""

    conditioning: bool = True
    """Let the task scale and shift what each batch normalisation gives; without it, features do not depend on it."""
    conditioning_penalty: float = 0.01
    """How strongly these scales are drawn to one, and shifts to zero."""
    auxiliary: float = 1.0
    """The weight, at the start, of learning also to which training class each image of the support belongs; it falls
    by a tenth twenty times during the training. 0 leaves it out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("conditioning_penalty", "auxiliary"):
            if not 0 <= getattr(self, name) < float("inf"):
                flag = f"--{name.replace('_', '-')}"
                raise TPNError(f"{flag} must be a number of at least 0, not {getattr(self, name)}.")


@register_method
class TADAM(Method):
    """Oreshkin et al., "TADAM: Task dependent adaptive metric for improved few-shot learning", NeurIPS 2018.

    The mean of the class prototypes, from a first look at the support (and over the places of its maps), stands for the
    task. A small network makes of it a scale and a shift for each channel behind each batch normalisation of the
    backbone, and images are embedded so. The score of a query for a class is the negative squared distance to its
    prototype, times a learned factor. Beside its episodes it learns, less and less, to tell all training classes apart.

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
                    "tadam conditions the batch normalisation of its backbone on the task, but the backbone has none: "
                    "choose another, or switch it off (--no-conditioning)."
                )
            self.norms = list(norms)
            channels = self.backbone.map_shape[0]
            self.conditions = nn.ModuleList(Condition(channels, norm.num_features) for norm in norms.values())

    def embed_task(self, task: Task) -> tuple[Task, Float[Tensor, "episode support feature"]]:
        """The features that its images have in each task, and those of the support at the first look."""
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
        looked_at: Tensor = self.backbone(images[: len(labels)])
        of_task = class_means(looked_at.mean((2, 3)), memberships(labels, way, like=looked_at)).mean(0)
        weights: dict[str, Tensor] = {}
        for name, condition in zip(self.norms, self.conditions, strict=True):
            norm, (scale, shift) = self.backbone.get_submodule(name), condition(of_task)
            weights[f"{name}.weight"] = norm.weight * scale
            weights[f"{name}.bias"] = norm.bias * scale + shift
        maps: Tensor = functional_call(self.backbone, weights, (images,))
        return maps.flatten(1), looked_at.flatten(1)

    def compare(self, embedded: Task) -> Float[Tensor, "episode query way"]:
        """The scores of the queries of embedded tasks."""
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
            weight = self.config.auxiliary * FACTOR ** (FALLS * int(self.seen) // self.config.episodes)
            loss = loss + weight * F.cross_entropy(self.head(first).flatten(0, 1), classes.flatten())
        if self.config.conditioning:
            sizes = torch.cat([size for name, size in self.conditions.named_parameters() if name.endswith("_size")])
            loss = loss + self.config.conditioning_penalty * sizes.square().sum()
        self.seen += len(task.inputs)
        return loss, scores


class Condition(nn.Module):
    """From what stands for a task to a scale and a shift for each channel of a layer; they start at 1 and 0."""

    def __init__(self, features: int, channels: int) -> None:
        super().__init__()
        self.scale, self.shift = _Residual(features, channels), _Residual(features, channels)
        self.scale_size = nn.Parameter(torch.zeros(channels))
        self.shift_size = nn.Parameter(torch.zeros(channels))

    def forward(self, of_task: Float[Tensor, "feature"]) -> tuple[Float[Tensor, "channel"], Float[Tensor, "channel"]]:
        return 1 + self.scale_size * self.scale(of_task), self.shift_size * self.shift(of_task)


class _Residual(nn.Module):
    """Three linear layers, the last two of which add to what they get."""

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
