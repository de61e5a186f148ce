"""What every backbone is."""

from jaxtyping import Float
from torch import Tensor, nn


class Backbone(nn.Module):
    """A network from pictures to feature maps."""

    map_shape: tuple[int, int, int]
    """Filters, height and width of the maps."""

    def forward(
        self, pictures: Float[Tensor, "picture channel height width"]
    ) -> Float[Tensor, "picture filter mapheight mapwidth"]:
        raise NotImplementedError
