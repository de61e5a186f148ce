"""Transductive fine-tuning of the classifier of an episode."""

from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tpn.episodes.task import LabelledBatch
from tpn.methods._config import check_rounds
from tpn.methods._head import Head, HeadConfig, check_positive, together
from tpn.methods._information import Adam, InformationLoss
from tpn.methods._method import Backward, Info, Learned, backward
from tpn.methods._prototypes import class_means
from tpn.methods._registry import register_method
from tpn.methods._span import span_coordinates


@dataclass(frozen=True)
class TransductiveFineTuningConfig(HeadConfig):
    """Transductive fine-tuning: adapt a classifier to the labels of the support and to certain labels of queries."""

    steps: int = 25
    """Rounds; each is a step on the support and a step on the queries."""
    step_size: float = 1e-3
    """The learning rate. The paper has 5e-5 for the whole network."""
    scale: float = 10.0
    """The factor of the cosines."""
    entropy_weight: float = 1.0
    """The factor of the learning rate in the steps on the queries; tiny values leave the queries out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self, "steps", 0)
        check_positive(self, "step_size", "scale", "entropy_weight")


@register_method
class TransductiveFineTuning(Head):
    """Dhillon et al., "A Baseline for Few-Shot Image Classification", ICLR 2020, on a fixed backbone.

    The features are the outputs of the classifier of the training classes, after a ReLU and at unit length (or those of
    the backbone, where no such classifier was trained). A linear classifier begins with the class means. 25 times it
    takes a step that lowers the cross-entropy of the support, and a step that lowers the entropy of the queries. In the
    paper the backbone is adapted too; here it is not, so that features are computed once.

    https://arxiv.org/abs/1909.02729
    """

    info = Info(
        name="transductive-fine-tuning",
        paper="Dhillon et al., A Baseline for Few-Shot Image Classification, ICLR 2020",
        transduction="yes",
        learns_from="mini-batches",
        head=True,
    )
    Config = TransductiveFineTuningConfig
    config: TransductiveFineTuningConfig

    def learn(self, task: LabelledBatch, backward: Backward = backward) -> Learned:
        self.has_classifier = True
        return super().learn(task, backward)

    def prepared(self, embedded: Float[Tensor, "episode node feature"]) -> Float[Tensor, "episode node feature2"]:
        if self.has_classifier and self.config.transform == "auto":
            return F.normalize(F.relu(self.head(embedded)), dim=-1)
        return super().prepared(embedded)

    def classify(
        self,
        support: Float[Tensor, "episode support feature"],
        Y: Float[Tensor, "episode support way"],
        query: Float[Tensor, "episode query feature"],
    ) -> Float[Tensor, "episode query way"]:
        features, config = support.shape[-1], self.config
        points = span_coordinates(together(support, query))
        support, query = points[:, : support.shape[1]], points[:, support.shape[1] :]
        entropy, adam = InformationLoss(support=0, marginal=0, conditional=1), Adam(config.step_size, entries=features)
        w = F.normalize(class_means(support, Y), dim=-1)
        for _ in range(config.steps):
            errors = (config.scale * support @ w.mT).softmax(-1) - Y
            w = adam.step(w, config.scale * errors.mT @ support / support.shape[1])
            slopes = entropy.slopes(config.scale * w @ query.mT, Y[:, :0].mT)
            w = adam.step(w, config.scale * slopes @ query, config.entropy_weight)
        return config.scale * query @ w.mT
