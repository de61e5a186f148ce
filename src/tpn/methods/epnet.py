"""EPNet: embedding propagation, then label propagation."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.episodes.task import TrainingTask
from tpn.errors import TPNError
from tpn.images.split import Split
from tpn.methods._head import Head, TransformConfig, together
from tpn.methods._method import AnyConfig, Backward, Info, Learned, backward
from tpn.methods._registry import register_method
from tpn.methods._transforms import Transform
from tpn.methods._transport import log_probabilities
from tpn.propagation.affinity import mean_squared_distances
from tpn.propagation.graph import normalise
from tpn.propagation.solvers import propagate


@dataclass(frozen=True)
class EPNetConfig(TransformConfig):
    """EPNet: smooth the features over a graph of the episode, then propagate the labels over a graph of those."""

    transform: Transform = "none"
    embedding_alpha: float = 0.5
    """How far features propagate; 0 leaves them as they are."""
    label_alpha: float = 0.2
    """How far labels propagate."""
    classifier_weight: float = 0.1
    """In training: the weight of classifying the training classes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("embedding_alpha", 0), ("label_alpha", 1e-6)):
            if not least <= getattr(self, name) < 1:
                flag = name.replace("_", "-")
                raise TPNError(f"--{flag} must be at least {least:g} and below 1, not {getattr(self, name)}.")
        if not 0 <= self.classifier_weight < float("inf"):
            raise TPNError(f"--classifier-weight must be at least 0, not {self.classifier_weight}.")


@register_method
class EPNet(Head):
    """Rodríguez et al., "Embedding Propagation: Smoother Manifold for Few-Shot Classification", ECCV 2020.

    Over the full graph of an episode, with weights exp(-d²) of distances divided by their deviation, the features z
    propagate to (I - 0.5S)⁻¹z. On the graph of those the labels of the support propagate in the same way with α = 0.2.
    It is trained by episodes, with a tenth of the loss of classifying all training classes.

    https://arxiv.org/abs/2003.04151
    """

    info = Info(
        name="epnet",
        paper="Rodríguez et al., Embedding Propagation: Smoother Manifold for Few-Shot Classification, ECCV 2020",
        transduction="yes",
        head=True,
    )
    Config = EPNetConfig  # type: ignore[assignment]
    config: EPNetConfig
    most_nodes = 15_000

    @classmethod
    def sampler(cls, split: Split, setting: Setting, config: AnyConfig, seed: int) -> EpisodeSampler:  # type: ignore[override]
        return EpisodeSampler(split, setting, seed)

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        return self.propagated_labels(self.smooth(together(support, query)), Y)

    def smooth(self, points: Float[Tensor, "episode node feature"]) -> Float[Tensor, "episode node feature"]:
        """Propagate the features over the graph of an episode."""
        if self.config.embedding_alpha == 0:
            return points
        return propagate(normalise(full_graph(points)), points, self.config.embedding_alpha)

    def propagated_labels(
        self, points: Float[Tensor, "episode node feature"], Y: Float[Tensor, "episode support way"]
    ) -> Float[Tensor, "episode query way"]:
        """Propagate the labels of the support, with a propagator whose rows sum to one; return logarithms."""
        S, n_support = normalise(full_graph(points)), Y.shape[1]
        labels = F.pad(Y, (0, 0, 0, points.shape[1] - n_support))
        # the last column counts what reaches a node from all others: the row sums of the propagator
        spread = propagate(S, torch.cat([labels, torch.ones_like(labels[..., :1])], dim=-1), self.config.label_alpha)
        return log_probabilities(spread[:, n_support:, :-1] / spread[:, n_support:, -1:])

    def learn(self, task: TrainingTask, backward: Backward = backward) -> Learned:  # type: ignore[override]
        """Add the gradients of the episodes, and of classifying the training classes."""
        self.has_classifier = True
        points = self.prepared(self.embedded(task).inputs[:, : task.n_support + task.n_query])
        smooth, Y = self.smooth(points), F.one_hot(task.support_labels, task.way).to(points)
        scores = self.propagated_labels(smooth, Y)
        loss = F.cross_entropy(scores.flatten(0, 1), task.query_labels.flatten())
        classes = task.classes.gather(1, torch.cat([task.support_labels, task.query_labels], dim=1))
        known = F.cross_entropy(self.head(smooth).flatten(0, 1), classes.flatten())
        backward(loss + self.config.classifier_weight * known)
        return Learned.of(loss, scores, task.query_labels)


def full_graph(points: Float[Tensor, "episode node feature"]) -> Float[Tensor, "episode node node"]:
    """Return exp(-d²) for every two nodes, with d² = ‖·‖²/√C divided by its standard deviation; no loops."""
    distances = mean_squared_distances(points) * points.shape[-1] ** 0.5
    deviation = distances.flatten(1).std(-1).clamp_min(torch.finfo(points.dtype).eps)
    loops = torch.eye(points.shape[1], dtype=torch.bool, device=points.device)
    return torch.exp(-distances / deviation[:, None, None]).masked_fill(loops, 0)
