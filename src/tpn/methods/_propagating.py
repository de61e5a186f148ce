"""Base class of methods that propagate labels over a graph: TPN, TPN-semi, label propagation."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tpn.backbones._backbone import Identity
from tpn.episodes.task import Task, TrainingTask
from tpn.errors import TPNError
from tpn.methods._config import Config, check_at_least, check_rounds
from tpn.methods._cosine_classifier import CosineClassifier
from tpn.methods._method import Dimensions, Method
from tpn.methods._transforms import of_length
from tpn.propagation.graph import connect, normalise
from tpn.propagation.solvers import label_matrix, propagate, propagate_stepwise

LARGEST_ALPHA = 0.9999
"""The largest α for which I - αS is not numerically singular in float32."""


@dataclass(frozen=True)
class PropagationConfig(Config):
    """Settings of methods that propagate labels over a graph."""

    k: int = 20
    """Nearest neighbours of each image in the graph, itself included."""
    mutual: bool = False
    """Keep an edge only if each node is among the nearest neighbours of the other; otherwise one of them suffices."""
    alpha: float = 0.99
    """How far labels propagate: the weight of the neighbours against the given labels, between 0 and 1."""
    learn_alpha: bool = False
    """Learn alpha, starting from --alpha."""
    test_k: int | None = None
    """Nearest neighbours in validation and testing, if other than --k: a graph that is best for learning need not be
    best for classifying. Choose it on validation classes."""
    test_alpha: float | None = None
    """How far labels propagate in validation and testing, if other than --alpha."""
    test_flip: bool = False
    """In validation and testing, embed each image and its mirror image, and average their feature maps: more accurate
    on photographs, at twice the cost. Not for pictures whose mirror images mean something else, such as letters."""
    solver: Literal["closed", "iterative"] = "closed"
    """Propagate by the closed form, equation (4), or by --steps iterations of equation (3)."""
    steps: int = 10
    """Iterations of the iterative solver."""
    unit_features: bool = False
    """Give all features the same length (a mean square of 1), so that the graph depends on angles, as a cosine
    classifier does. A backbone that such a classifier has pre-trained needs it."""
    loss_over: Literal["support+query", "query"] = "support+query"
    """The images in the loss."""
    tasks_per_episode: int = 1
    """Tasks made of the images of each training episode, which are embedded once: further tasks exchange images of a
    class between support and queries at random."""
    base_loss: float = 0.0
    """The weight of a second loss in training: the cross-entropy of a cosine classifier of all training classes on the
    same images. It preserves what a pre-trained backbone has learned."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, "k", 1)
        if self.test_k is not None:
            check_at_least(self, "test_k", 1)
        check_rounds(self, "steps", 1)
        check_rounds(self, "tasks_per_episode", 1)
        if not 0 <= self.base_loss < float("inf"):
            raise TPNError(f"--base-loss must be a number of at least 0, not {self.base_loss}.")
        for name in ("alpha", "test_alpha"):
            alpha = getattr(self, name)
            if alpha is not None and not 0 < alpha <= LARGEST_ALPHA:
                option = name.replace("_", "-")
                raise TPNError(f"--{option} must be above 0 and at most {LARGEST_ALPHA}, not {alpha}.")


class Propagating(Method):
    """A method that propagates the labels of the support over a graph of all images of an episode.

    Subclasses define the embedding and the edge weights.
    """

    config: PropagationConfig

    def __init__(self, config: PropagationConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)
        if config.learn_alpha:
            share = min(config.alpha / LARGEST_ALPHA, 1 - 1e-6)
            self.alpha_logit = nn.Parameter(torch.logit(torch.tensor(share, dtype=torch.float32)))
        if config.base_loss:
            self.base_classifier = CosineClassifier(math.prod(self.backbone.map_shape), dimensions.train_classes)

    @property
    def alpha(self) -> float | Float[Tensor, ""]:
        """α, the weight of the neighbours."""
        if not self.training and self.config.test_alpha is not None:
            return self.config.test_alpha
        if self.config.learn_alpha:
            return LARGEST_ALPHA * torch.sigmoid(self.alpha_logit)
        return self.config.alpha

    def maps(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image filter height2 width2"]:
        """Return the feature maps of images; with `test_flip`, outside training, the mean of both mirror images.

        Features that were computed elsewhere have no mirror image.
        """
        maps: Tensor = self.backbone(images)
        if self.training or not self.config.test_flip or isinstance(self.backbone, Identity):
            return maps
        mirrored: Tensor = self.backbone(images.flip(-1))
        return (maps + mirrored) / 2

    def features(self, maps: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        """Return f, the flattened feature maps; with `unit_features`, of mean square 1."""
        features = maps.flatten(1)
        return of_length(features, math.sqrt(features.shape[-1])) if self.config.unit_features else features

    @property
    def k(self) -> int:
        """The number of nearest neighbours."""
        return self.config.k if self.training else self.config.test_k or self.config.k

    def weights(self, features: Float[Tensor, "*episode node feature"]) -> Float[Tensor, "*episode node node"]:
        """Return W, the weights of all edges between the nodes of embedded episodes."""
        raise NotImplementedError

    def graph(self, task: Task) -> Float[Tensor, "episode node node"] | None:
        return self.strongest(self.weights(task.inputs))

    def strongest(self, W: Float[Tensor, "*episode node node"]) -> Float[Tensor, "*episode node node"]:
        """Keep each node's k strongest edges of W."""
        return connect(W, self.k, self.config.mutual)

    def spread(
        self, W: Float[Tensor, "*episode node node"], labels: Int64[Tensor, "*episode support"], way: int
    ) -> Float[Tensor, "*episode node way"]:
        """Return F*, the score of every node for every class, given the labels of the first nodes."""
        S = normalise(self.strongest(W))
        Y = label_matrix(F.pad(labels, (0, S.shape[-1] - labels.shape[-1]), value=-1), way, like=S)
        if self.config.solver == "iterative":
            return propagate_stepwise(S, Y, self.alpha, self.config.steps)
        return propagate(S, Y, self.alpha)

    def propagate(self, task: Task) -> Float[Tensor, "episode node way"]:
        """Return F* of embedded episodes."""
        return self.spread(self.weights(task.inputs), task.support_labels, task.way)

    def score(self, task: Task) -> Float[Tensor, "episode query way"]:
        return self.propagate(task)[:, task.n_support : task.n_support + task.n_query]

    def loss(self, task: TrainingTask) -> tuple[Float[Tensor, ""], Float[Tensor, "episode query way"]]:
        """Equations (5) and (6): cross-entropy of the softmax of F*, over the support and the queries.

        The paper sums over these images; here it is their mean.
        """
        embedded = self.training_task(task)
        known = task.n_support + task.n_query
        scores = self.propagate(embedded)[:, :known]
        first = task.n_support if self.config.loss_over == "query" else 0
        loss = F.cross_entropy(scores[:, first:].flatten(0, 1), embedded.labels[:, first:].flatten())
        return loss + self.base_class_loss(embedded, len(task.inputs)), scores[: len(task.inputs), task.n_support :]

    def training_task(self, task: TrainingTask) -> TrainingTask:
        """Embed the images of a training task, and add further tasks made of them."""
        return replace(task, inputs=self.embedded(task).inputs).rearranged(self.config.tasks_per_episode)

    def base_class_loss(self, embedded: TrainingTask, episodes: int) -> float | Float[Tensor, ""]:
        """Return the weighted cross-entropy of the training classes, on the images of the first episodes.

        Length scales make no difference to cosines.
        """
        if not self.config.base_loss:
            return 0.0
        labels = embedded.labels[:episodes]
        scores = self.base_classifier(embedded.inputs[:episodes, : labels.shape[1]])
        classes = embedded.classes[:episodes].gather(1, labels)
        return self.config.base_loss * F.cross_entropy(scores.flatten(0, 1), classes.flatten())
