"""Base class of methods that train a classifier of all training classes, without episodes."""

import math

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tpn.episodes.mini_batches import MiniBatches
from tpn.episodes.setting import Setting
from tpn.episodes.task import LabelledBatch
from tpn.images.split import Split
from tpn.methods._config import ClassifierConfig, Config
from tpn.methods._method import Backward, Dimensions, Learned, Method, backward


class ClassifierTraining(Method):
    """A backbone and a linear layer, trained to classify all training classes. Subclasses define `score`."""

    config: ClassifierConfig

    def __init__(self, config: Config, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        self.backbone = dimensions.build_backbone(config)
        self.head = nn.Linear(math.prod(self.backbone.map_shape), dimensions.train_classes)

    @classmethod
    def sampler(cls, split: Split, setting: Setting, config: Config, seed: int) -> MiniBatches:
        assert isinstance(config, ClassifierConfig)
        return MiniBatches(split, setting, config.batch_size, seed)

    def embed(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image feature"]:
        maps: Tensor = self.backbone(images)
        return maps.flatten(1)

    def regularisation(
        self, features: Float[Tensor, "image feature"], classes: Int64[Tensor, "image"]
    ) -> float | Float[Tensor, ""]:
        """Return a further loss on the features of a mini-batch. By default, none."""
        return 0.0

    def learn(self, task: LabelledBatch, backward: Backward = backward) -> Learned:
        """Add the gradients of classifying the images of each mini-batch."""
        learned = []
        for images, classes in zip(task.inputs, task.labels, strict=True):
            features = self.embed(images)
            scores = self.head(features)
            loss = F.cross_entropy(scores, classes, label_smoothing=self.config.label_smoothing)
            loss = loss + self.regularisation(features, classes)
            backward(loss / len(task.inputs))
            learned.append(Learned.of(loss, scores, classes))
        return Learned.mean(learned)
