"""Model-agnostic meta-learning."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor
from torch.func import grad as func_grad
from torch.func import vmap
from torch.utils.checkpoint import checkpoint

from tpn.backbones.batch_norm import make_twice_differentiable
from tpn.episodes.task import TrainingTask
from tpn.errors import TPNError
from tpn.methods._adaptation import Adapting, Labels, Query, Scores, Support, Weights, check_inner
from tpn.methods._config import AdaptingConfig
from tpn.methods._method import Backward, Dimensions, Info, Learned, backward
from tpn.methods._registry import register_method

LARGE_TASK = 250_000
"""Pixels in the images of a task from which on its inner steps are computed twice in training."""


@dataclass(frozen=True)
class MAMLConfig(AdaptingConfig):
    """MAML: learn initial weights from which a few steps of gradient descent on the support give a good classifier."""

    backbone: str = "conv4-32"
    episodes: int = 240_000
    episodes_per_step: int = 4
    halve_every: int = 240_000
    validate_every: int = 400
    inner_lr: float = 0.01
    """The learning rate of the steps on the support."""
    inner_steps: int = 5
    """Steps on the support in training."""
    test_steps: int = 10
    """Steps on the support in testing."""
    first_order: bool = False
    """Ignore second derivatives: faster, and usually a little less accurate."""
    vectorised: bool = False
    """Adapt to the tasks of a step in one vectorised pass instead of in turn. Slower on CPUs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_inner(self, self.inner_lr, ("inner_steps", 0), ("test_steps", 0))


@register_method
class MAML(Adapting):
    """Finn et al., "Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks", ICML 2017.

    Each task starts from the same weights of a network with a linear classifier and takes a few steps of gradient
    descent on the cross-entropy of its support. The queries are then classified by the adapted network, and the
    gradient of their cross-entropy, taken through those steps, improves the initial weights. Batch normalisation uses
    the statistics of the batch, in testing those of all queries of an episode: through them, queries share information.

    https://arxiv.org/abs/1703.03400
    """

    info = Info(
        name="maml",
        paper="Finn et al., Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks, ICML 2017",
        transduction="bn",
        fixed_way=True,
        equivariant=False,
    )
    Config = MAMLConfig
    config: MAMLConfig

    def __init__(self, config: MAMLConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        make_twice_differentiable(self.network)

    def compile_backbone(self) -> None:
        if self.config.vectorised:
            raise TPNError("--vectorised runs all tasks in one pass, which cannot be compiled: leave out --compile.")
        super().compile_backbone()

    def inner_loss(self, weights: Weights, support: Support, labels: Labels, query: Query) -> Float[Tensor, ""]:
        """Return the loss that a task minimises to adapt."""
        return F.cross_entropy(self.run(weights, support)[0], labels)

    def adapt(self, support: Support, labels: Labels, query: Query, steps: int) -> Weights:
        """Return the weights after this number of steps on a task.

        The backward pass of a large task computes each step again instead of keeping its intermediate results: with 80
        images of 84x84 pixels, five steps need 4 GB instead of 10, and a fifth more time (`python -m benchmarks maml`).
        """
        weights = self.weights
        names = list(weights)
        gradient = func_grad(self.inner_loss) if self.config.vectorised else partial(gradients, self.inner_loss)

        def step(*values: Tensor) -> tuple[Tensor, ...]:
            before = dict(zip(names, values, strict=True))
            start = {name: weight.detach() for name, weight in before.items()} if self.config.first_order else before
            along = gradient(start, support, labels, query)
            return tuple(before[name] - self.config.inner_lr * along[name] for name in names)

        pixels = (len(support) + len(query)) * support[0, 0].numel()
        twice = torch.is_grad_enabled() and not self.config.vectorised and pixels >= LARGE_TASK
        for _ in range(steps):
            values = tuple(weights.values())
            after = checkpoint(step, *values, use_reentrant=True, preserve_rng_state=False) if twice else step(*values)
            weights = dict(zip(names, after, strict=True))
        return weights

    def classify(self, support: Support, labels: Labels, query: Query) -> Scores:
        return self.run(self.adapt(support, labels, query, self.config.test_steps), query)[0]

    def outer_loss(
        self, support: Support, labels: Labels, query: Query, query_labels: Int64[Tensor, "query"]
    ) -> tuple[Float[Tensor, ""], Scores]:
        """Return the loss of one task after adapting to it, and the scores of its queries."""
        weights = self.adapt(support, labels, query, self.config.inner_steps)
        scores = self.run(weights, query)[0]
        return F.cross_entropy(scores, query_labels), scores

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        if self.config.vectorised:
            losses, scores = vmap(self.outer_loss, randomness="different")(*self.parts(task))
            return losses.mean(), scores
        each = [self.outer_loss(*one) for one in zip(*self.parts(task), strict=True)]
        return torch.stack([loss for loss, _ in each]).mean(), torch.stack([scores for _, scores in each])

    def learn(self, task: TrainingTask, backward: Backward = backward) -> Learned:
        """Add the gradients of the tasks in turn, which needs the memory of only one task at a time."""
        if self.config.vectorised:
            return super().learn(task)
        learned = []
        for one in zip(*self.parts(task), strict=True):
            loss, scores = self.outer_loss(*one)
            backward(loss / len(task.inputs))
            learned.append(Learned.of(loss, scores, one[-1]))
        return Learned.mean(learned)

    def parts(self, task: TrainingTask) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the support, its labels, the queries and their labels, with normalised images."""
        tasks = self.normalised(task)
        return tasks.support, tasks.support_labels, tasks.query, task.query_labels


def gradients(
    loss: Callable[..., Float[Tensor, ""]], weights: Weights, support: Support, labels: Labels, query: Query
) -> Weights:
    """Return the gradient of the loss at these weights; where gradients are recorded, it can be differentiated too."""
    recorded = torch.is_grad_enabled() and any(weight.requires_grad for weight in weights.values())
    with torch.enable_grad():
        at = weights if recorded else {name: weight.detach().requires_grad_() for name, weight in weights.items()}
        found = torch.autograd.grad(loss(at, support, labels, query), list(at.values()), create_graph=recorded)
    return dict(zip(at, found, strict=True))
