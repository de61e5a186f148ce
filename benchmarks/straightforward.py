"""TPN as one would first write it: differences of all pairs of features, an explicit inverse, default memory format.

It is what ours is measured against, and computes the same loss from the same weights.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def block(channels: int, filters: int, ceil_mode: bool = False) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, 3, padding=1),
        nn.BatchNorm2d(filters),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=ceil_mode),
    )


class Straightforward(nn.Module):
    """The paper's text, line by line."""

    def __init__(self, channels: int, k: int = 20, alpha: float = 0.99) -> None:
        super().__init__()
        self.k, self.alpha = k, alpha
        self.embedding = nn.Sequential(block(channels, 64), block(64, 64), block(64, 64), block(64, 64, True))
        self.scale = nn.Sequential(block(64, 64, True), block(64, 1, True), nn.Flatten())
        self.head = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 1))

    def embed(self, images: Tensor) -> Tensor:
        maps = self.embedding(images)
        sigma = self.head(self.scale(maps))
        features: Tensor = maps.flatten(1) / sigma
        return features

    def propagate(self, features: Tensor, support_labels: Tensor, way: int) -> Tensor:
        n = len(features)
        distances = ((features.unsqueeze(0) - features.unsqueeze(1)) ** 2).mean(2)
        W = torch.exp(-distances / 2)
        mask = torch.zeros_like(W).scatter(1, W.topk(min(self.k, n), 1).indices, 1)
        W = W * ((mask + mask.t()) > 0).float()
        D = torch.sqrt(1 / W.sum(1))
        S = D.unsqueeze(1) * W * D.unsqueeze(0)
        Y = torch.zeros(n, way)
        Y[torch.arange(len(support_labels)), support_labels] = 1
        return torch.inverse(torch.eye(n) - self.alpha * S) @ Y

    def forward(self, images: Tensor, support_labels: Tensor, query_labels: Tensor, way: int) -> Tensor:
        scores = self.propagate(self.embed(images), support_labels, way)
        return F.cross_entropy(scores, torch.cat([support_labels, query_labels]))

    def copy_weights(self, ours: nn.Module) -> None:
        """Take the weights of our TPN. Its convolutions have no biases, which batch norm would cancel: zeros here."""
        theirs = ours.state_dict()
        names = {"0.weight": "convolution.weight", "1.": "norm."}
        for name, tensor in self.state_dict().items():
            place = name.replace("embedding.", "backbone.blocks.").replace("scale.", "length_scale.blocks.")
            place = place.replace("head.0.", "length_scale.hidden.").replace("head.2.", "length_scale.out.")
            for mine, other in names.items():
                if "blocks" in place:
                    start, _, rest = place.rpartition("blocks.")
                    index, _, rest = rest.partition(".")
                    place = f"{start}blocks.{index}.{rest.replace(mine, other, 1)}" if rest.startswith(mine) else place
            if place in theirs:
                tensor.copy_(theirs[place])
            else:
                assert place.endswith(".0.bias"), place
                tensor.zero_()
