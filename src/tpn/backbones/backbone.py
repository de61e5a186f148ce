"""What every backbone is."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Backbone(nn.Module):
    """A network from pictures to feature maps."""

    map_shape: tuple[int, int, int]
    """Filters, height and width of the maps."""

    def __init__(self) -> None:
        super().__init__()
        self.normalise: nn.Module = nn.Identity()
        """What is done to pictures before anything else."""

    def maps(
        self, pictures: Float[Tensor, "picture channel height width"]
    ) -> Float[Tensor, "picture filter mapheight mapwidth"]:
        """From normalised pictures, in channels-last memory, to feature maps."""
        raise NotImplementedError

    def forward(
        self, pictures: Float[Tensor, "picture channel height width"]
    ) -> Float[Tensor, "picture filter mapheight mapwidth"]:
        return self.maps(self.normalise(pictures).contiguous(memory_format=torch.channels_last))
