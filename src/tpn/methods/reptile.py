"""Reptile."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from tpn.episodes.task import TrainingTask
from tpn.errors import TPNError
from tpn.methods._adaptation import Adapting, Labels, Query, Scores, Support, Weights, check_inner
from tpn.methods._config import AdaptingConfig, check_at_least
from tpn.methods._method import Backward, Info, Learned, backward
from tpn.methods._registry import register_method

TEST_SEED = 0


@dataclass(frozen=True)
class ReptileConfig(AdaptingConfig):
    """Reptile: repeatedly move the weights towards the weights after a few training steps on a task."""

    backbone: str = "conv4-32"
    episodes: int = 500_000
    episodes_per_step: int = 5
    optimiser: Literal["adam", "sgd"] = "sgd"
    lr: float = 1.0
    """The fraction of the way from the weights to the mean of the tasks' weights: 1 moves all the way."""
    schedule: Literal["halve", "linear", "step", "cosine"] = "linear"
    validate_every: int = 500
    patience: int = 0
    inner_lr: float = 1e-3
    """The learning rate on a task (Adam without momentum)."""
    inner_steps: int = 8
    """Steps on a task in training."""
    inner_batch: int = 10
    """Images in each of these steps, drawn from support and queries together: with --shot 5 --query 10, from 15 per
    class, as in the paper."""
    test_steps: int = 50
    """Steps on the support in testing."""
    test_batch: int = 15
    """Images in each of these steps (at most the whole support)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_inner(self, self.inner_lr, ("inner_steps", 1), ("test_steps", 0))
        check_at_least(self, "inner_batch", 1)
        check_at_least(self, "test_batch", 1)
        if self.optimiser != "sgd":
            raise TPNError("Reptile moves its weights towards those of the tasks, so --optimiser must be sgd.")


@register_method
class Reptile(Adapting):
    """Nichol et al., "On First-Order Meta-Learning Algorithms", 2018.

    In training, each task starts from the same weights of a network with a linear classifier and takes a few steps of
    Adam without momentum on small batches of its images, support and queries alike; then the common weights move
    towards the mean of the final weights of the tasks, by a fraction that falls linearly from 1 to 0. In testing, a
    task is learned from its support, and each query is classified in a batch with the support only: batch normalisation
    uses the statistics of the batch, which contains no other query. (`reptile-bn` classifies all queries in one batch.)
    Adam is reset for each task. `--shot 5 --query 10` gives the 15 images per class of the paper's training tasks.

    https://arxiv.org/abs/1803.02999
    """

    info = Info(
        name="reptile",
        paper="Nichol et al., On First-Order Meta-Learning Algorithms, 2018",
        transduction="no",
        fixed_way=True,
        equivariant=False,
    )
    Config = ReptileConfig
    config: ReptileConfig

    @torch.enable_grad()
    def fit_task(
        self,
        images: Float[Tensor, "image channel height width"],
        labels: Int64[Tensor, "image"],
        batches: Int64[Tensor, "step batch"],
    ) -> tuple[Weights, list[Learned]]:
        """Train on a task; return the weights, and the loss and accuracy before each step."""
        weights = {name: weight.detach().clone().requires_grad_() for name, weight in self.weights.items()}
        adam = torch.optim.Adam(weights.values(), lr=self.config.inner_lr, betas=(0.0, 0.999))
        learned = []
        for batch in batches:
            scores = self.run(weights, images[batch])[0]
            loss = F.cross_entropy(scores, labels[batch])
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            learned.append(Learned.of(loss, scores, labels[batch]))
        return {name: weight.detach() for name, weight in weights.items()}, learned

    @torch.no_grad()
    def learn(self, task: TrainingTask, backward: Backward = backward) -> Learned:
        """Add, as the gradient, the difference of the weights to the mean of those after training on the tasks."""
        tasks = self.normalised(task)
        learned: list[Learned] = []
        for index, inputs in enumerate(tasks.inputs):
            labels = torch.cat([task.support_labels[index], task.query_labels[index]])
            batches = mini_batches(len(labels), self.config.inner_steps, self.config.inner_batch)
            weights, seen = self.fit_task(inputs[: len(labels)], labels, batches)
            learned += seen
            for name, parameter in self.network.named_parameters():
                difference = (parameter - weights[name]) / len(tasks.inputs)
                parameter.grad = difference if parameter.grad is None else parameter.grad + difference
        return Learned.mean(learned)

    def adapted(self, support: Support, labels: Labels) -> Weights:
        """Return the weights for a test task. The order of its images has a fixed seed, so tests are repeatable."""
        generator = torch.Generator().manual_seed(TEST_SEED)
        batches = mini_batches(len(support), self.config.test_steps, self.config.test_batch, generator)
        return self.fit_task(support, labels, batches)[0]

    def classify(self, support: Support, labels: Labels, query: Query) -> Scores:
        """Classify each query in a batch with the support.

        In turn: under `vmap`, batch normalisation takes several times as long as the convolutions, and batches of this
        size stay in the processor's cache.
        """
        weights = self.adapted(support, labels)
        return torch.stack([self.run(weights, torch.cat([support, one[None]]))[0][-1] for one in query])


def mini_batches(
    images: int, steps: int, size: int, generator: torch.Generator | None = None
) -> Int64[Tensor, "step batch"]:
    """Return the images of each step: all of them in a random order, then in another, and so on."""
    size = min(size, images)
    rounds = -(-steps * size // images)
    order = [torch.randperm(images, generator=generator) for _ in range(rounds)] or [torch.empty(0, dtype=torch.int64)]
    return torch.cat(order)[: steps * size].view(steps, size)
