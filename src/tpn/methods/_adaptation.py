"""Networks that are adapted to each task, as functions of their weights."""

import math
from typing import TypeAlias

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.func import functional_call

from tpn.backbones._blocks import ConvBlock
from tpn.backbones.batch_norm import remove_running_statistics
from tpn.episodes.task import Task
from tpn.errors import TPNError
from tpn.methods._config import AdaptingConfig, check_rounds
from tpn.methods._method import Dimensions, Method

Weights: TypeAlias = dict[str, Tensor]
Support: TypeAlias = Float[Tensor, "support channel height width"]
Labels: TypeAlias = Int64[Tensor, "support"]
Query: TypeAlias = Float[Tensor, "query channel height width"]
Scores: TypeAlias = Float[Tensor, "query way"]


def check_inner(config: AdaptingConfig, inner_lr: float, *steps: tuple[str, int]) -> None:
    """Refuse an inner learning rate or a number of inner steps that is out of range."""
    for name, least in steps:
        check_rounds(config, name, least)
    if not 0 < inner_lr <= 10:
        raise TPNError(f"--inner-lr must be above 0 and at most 10, not {inner_lr}.")


class Classifier(nn.Module):
    """A backbone and a linear layer. Batch normalisation always uses the statistics of the batch."""

    def __init__(self, config: AdaptingConfig, dimensions: Dimensions) -> None:
        super().__init__()
        self.backbone = dimensions.build_backbone(config)
        self.head = nn.Linear(math.prod(self.backbone.map_shape), dimensions.way)
        if config.zero_head:
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)
        remove_running_statistics(self.backbone)

    def forward(
        self, images: Float[Tensor, "image channel height width"]
    ) -> tuple[Float[Tensor, "image way"], Float[Tensor, "image feature"]]:
        """Return the scores and the features of normalised images."""
        features = self.backbone.maps(images).flatten(1)
        return self.head(features), features


class Adapting(Method):
    """A method that adapts all weights of a classifier to the support of a task. Its linear layer fixes the way."""

    def __init__(self, config: AdaptingConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.network = Classifier(config, dimensions)

    def compile_backbone(self) -> None:
        """Compile what follows each convolution. A network with other weights in each task cannot be compiled whole."""
        blocks = list(self.network.backbone.blocks)
        if self.device.type != "cpu" or not all(isinstance(block, ConvBlock) and block.fuse() for block in blocks):
            raise TPNError(
                f"{self.info.name} runs its network with other weights in each task: it can use --compile only on a "
                "CPU, with a Conv-4."
            )

    def lower_precision(self, precision: torch.dtype) -> None:
        """Use this precision for the backbone wherever it learns: also in the tasks of validation and tests."""
        if precision == torch.float16:
            raise TPNError(f"The inner gradients of {self.info.name} are too small for --precision float16.")
        super().lower_precision(precision)
        self.network.backbone.precision_in_tests = precision

    @property
    def weights(self) -> Weights:
        """The weights from which every task starts."""
        return dict(self.network.named_parameters())

    def run(
        self, weights: Weights, images: Float[Tensor, "image channel height width"]
    ) -> tuple[Float[Tensor, "image way"], Float[Tensor, "image feature"]]:
        """Return the scores and features of normalised images from the network with these weights."""
        scores, features = functional_call(self.network, weights, (images,))
        return scores, features

    def normalised(self, task: Task) -> Task:
        """Return the task with normalised images."""
        images = self.network.backbone.prepare(task.inputs.flatten(0, 1))
        return task.with_inputs(images.view(*task.inputs.shape[:2], *images.shape[1:]))

    def classify(self, support: Support, labels: Labels, query: Query) -> Scores:
        """Adapt to one task, and score its queries."""
        raise NotImplementedError

    @torch.no_grad()  # no gradient of the whole; torch.func still computes those of the inner steps
    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        task = self.normalised(task)
        tasks = zip(task.support, task.support_labels, task.query, strict=True)
        return torch.stack([self.classify(*each) for each in tasks])
