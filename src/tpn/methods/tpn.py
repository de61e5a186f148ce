"""Transductive Propagation Network."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tpn.episodes.task import Task, TrainingTask
from tpn.errors import TPNError
from tpn.methods._method import Config, Dimensions, Info, Method, check_at_least, check_rounds
from tpn.methods._registry import register
from tpn.propagation.affinity import affinity, scale
from tpn.propagation.graph import connect, normalise
from tpn.propagation.length_scale import LengthScale, typical_scale
from tpn.propagation.solvers import label_matrix, propagate, propagate_stepwise

LARGEST_ALPHA = 0.9999
"""With more, float32 could not tell I - αS from a singular matrix."""


@dataclass(frozen=True)
class PropagationConfig(Config):
    """The settings of methods that spread labels over a graph."""

    k: int = 20
    """Neighbours of each image in the graph, itself included."""
    mutual: bool = False
    """Keep an edge only if both its ends chose it; otherwise either end suffices."""
    alpha: float = 0.99
    """How far labels spread: the share of a label that comes from the neighbours, between 0 and 1."""
    learn_alpha: bool = False
    """Learn alpha, starting from --alpha."""
    solver: Literal["closed", "iterative"] = "closed"
    """Propagate by the closed form, equation (4), or by --steps iterations of equation (3)."""
    steps: int = 10
    """Iterations of the iterative solver."""
    loss_over: Literal["support+query", "query"] = "support+query"
    """The images whose classification the loss counts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, "k", 1)
        check_rounds(self, "steps", 1)
        if not 0 < self.alpha <= LARGEST_ALPHA:
            raise TPNError(f"--alpha must be above 0 and at most {LARGEST_ALPHA}, not {self.alpha}.")


class Propagating(Method):
    """A method that spreads the labels of the support over a graph of all images of an episode.

    What it embeds an image by, and how a graph comes of that, is the subclass's business.
    """

    config: PropagationConfig

    def __init__(self, config: PropagationConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)
        if config.learn_alpha:
            share = min(config.alpha / LARGEST_ALPHA, 1 - 1e-6)
            self.alpha_logit = nn.Parameter(torch.logit(torch.tensor(share, dtype=torch.float32)))

    @property
    def alpha(self) -> float | Float[Tensor, ""]:
        """The share of a label that comes from the neighbours."""
        if self.config.learn_alpha:
            return LARGEST_ALPHA * torch.sigmoid(self.alpha_logit)
        return self.config.alpha

    def weights(self, features: Float[Tensor, "*episode node feature"]) -> Float[Tensor, "*episode node node"]:
        """W, the weights of all edges between the nodes of embedded episodes."""
        raise NotImplementedError

    def graph(self, task: Task) -> Float[Tensor, "episode node node"] | None:
        return self.strongest(self.weights(task.inputs))

    def strongest(self, W: Float[Tensor, "*episode node node"]) -> Float[Tensor, "*episode node node"]:
        """W with each node's k strongest edges only."""
        return connect(W, self.config.k, self.config.mutual)

    def spread(
        self, W: Float[Tensor, "*episode node node"], labels: Int64[Tensor, "*episode support"], way: int
    ) -> Float[Tensor, "*episode node way"]:
        """F*, the score of every node for every class, when the first nodes have these labels."""
        S = normalise(self.strongest(W))
        Y = label_matrix(labels, way, S.shape[-1], like=S)
        if self.config.solver == "iterative":
            return propagate_stepwise(S, Y, self.alpha, self.config.steps)
        return propagate(S, Y, self.alpha)

    def propagate(self, task: Task) -> Float[Tensor, "episode node way"]:
        """F* of embedded episodes."""
        return self.spread(self.weights(task.inputs), task.support_labels, task.way)

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        return self.propagate(task)[:, task.n_support : task.n_support + task.n_query]

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        """Equation (6): cross-entropy of the softmax of F*, over the support and the queries."""
        known = task.n_support + task.n_query
        scores = self.propagate(self.embedded(task))[:, :known]
        labels = torch.cat([task.support_labels, task.query_labels], dim=1)
        first = task.n_support if self.config.loss_over == "query" else 0
        loss = F.cross_entropy(scores[:, first:].flatten(0, 1), labels[:, first:].flatten())
        return loss, scores[:, task.n_support :]


@dataclass(frozen=True)
class TPNConfig(PropagationConfig):
    """Transductive Propagation Network: learn a graph on which the labels of the support spread to the queries."""

    initial_scale: Literal["from-data", "plain"] = "from-data"
    """Let the length scales start where neighbours of a first batch are connected, or as the layers fall."""


@register
class TPN(Propagating):
    """Liu et al., "Learning to Propagate Labels: Transductive Propagation Network for Few-shot Learning", ICLR 2019.

    A network f embeds all images of an episode. Another, g, finds a length scale σ for each from its feature map. The
    images become nodes of a k-nearest-neighbour graph with weights exp(-d(f_i/σ_i, f_j/σ_j)/2), on which the labels
    of the support spread to the queries in closed form. f and g are trained through all of that.
    """

    info = Info(
        name="tpn",
        paper="Liu et al., Learning to Propagate Labels: Transductive Propagation Network, ICLR 2019",
        transduction="yes",
        unlabelled="uses",
    )
    Config = TPNConfig
    config: TPNConfig

    def __init__(self, config: TPNConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.length_scale = LengthScale(self.backbone.map_shape)

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        """f/σ: all that the graph needs to know of an image."""
        maps = self.backbone(images)
        return scale(maps.flatten(1), self.length_scale(maps))

    def weights(self, features: Float[Tensor, "*episode node feature"]) -> Float[Tensor, "*episode node node"]:
        """W, equation (2)."""
        return affinity(features)

    def start(self, task: TrainingTask) -> None:
        """Set the length scales so that neighbours among these images start with weights near exp(-1)."""
        if self.config.initial_scale == "from-data":
            with torch.no_grad():
                maps = self.backbone(task.inputs[0])
            self.length_scale.start_at(typical_scale(maps.flatten(1), self.config.k))
