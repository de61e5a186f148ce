"""A classifier by cosine, for the training classes."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

SCALE = 10.0
"""The factor of the cosines; where it is learned, its initial value."""


class CosineClassifier(nn.Linear):
    """Gidaris and Komodakis, "Dynamic Few-Shot Visual Learning without Forgetting", CVPR 2018: the score of a class is
    the cosine between the features and the weights of the class, times a learned factor."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes, bias=False)
        self.scale = nn.Parameter(torch.tensor(SCALE))

    def forward(self, features: Float[Tensor, "*image feature"]) -> Float[Tensor, "*image class"]:
        cosines: Tensor = F.normalize(features, dim=-1) @ F.normalize(self.weight, dim=-1).T
        return self.scale * cosines
