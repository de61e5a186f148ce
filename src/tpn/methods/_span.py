"""The space that the points of an episode span: coordinates of the points, and inner products with sums of them."""

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.propagation.batched_solve import one_thread

SHORTEST = 1e-12
"""The least length by which a point is divided."""


def span_coordinates(
    points: Float[Tensor, "episode node feature"],
) -> Float[Tensor, "episode node coordinate"]:
    """Return points with the same inner products in as many dimensions as there are points, if that is fewer.

    An episode of 80 images with 1,600 features lies in 80 dimensions. Whatever depends on its points by distances,
    inner products and weighted means only is the same there, at a twentieth of the cost. The coordinates are the rows
    of the Cholesky factor of the points' inner products.
    """
    _, nodes, features = points.shape
    if nodes >= features:
        return points
    products = points @ points.mT
    typical = products.diagonal(dim1=-2, dim2=-1).mean(-1).clamp_min(torch.finfo(points.dtype).tiny)
    # points that depend on each other are moved apart by the size of the rounding error
    slack = nodes * torch.finfo(points.dtype).eps * typical
    identity = torch.eye(nodes, dtype=points.dtype, device=points.device)
    factor: Tensor
    with one_thread():
        factor, failed = torch.linalg.cholesky_ex(products + slack[:, None, None] * identity)
    if failed.any():
        with one_thread():
            values, vectors = torch.linalg.eigh(products)
        spectral = vectors * values.clamp_min(0).sqrt().unsqueeze(-2)
        return torch.where((failed > 0)[:, None, None], spectral, factor)
    return factor


class InnerProducts:
    """Inner products of the points of each episode with weighted sums of them, such as class prototypes.

    A prototype is held as its weights A, a number for each point, instead of its features. Its inner products with all
    points are AZZᵀ, by the matrix ZZᵀ of an episode that has fewer points than features, otherwise by the points.
    Classes come before points, which is faster: there are few of them.
    """

    def __init__(self, points: Float[Tensor, "episode node feature"]) -> None:
        self.points = points
        self.matrix = points @ points.mT if points.shape[1] < points.shape[2] else None
        squares = points.square().sum(-1) if self.matrix is None else self.matrix.diagonal(dim1=-2, dim2=-1)
        self.squares: Float[Tensor, "episode node"] = squares.contiguous()
        """The squared length of each point."""

    def of(self, A: Float[Tensor, "episode way node"]) -> Float[Tensor, "episode way node"]:
        """Return the inner products of the points with their sums weighted by A."""
        return A @ self.points @ self.points.mT if self.matrix is None else A @ self.matrix

    def squared_distances(
        self, A: Float[Tensor, "episode way node"], products: Float[Tensor, "episode way node"] | None = None
    ) -> Float[Tensor, "episode way node"]:
        """Return the squared distances of the points to their sums weighted by A. `products` are `of(A)`, if known."""
        products = self.of(A) if products is None else products
        return (self.squares.unsqueeze(1) + (A * products).sum(-1, keepdim=True)).sub_(products, alpha=2)

    def cosines(self, A: Float[Tensor, "episode way node"]) -> Float[Tensor, "episode way node"]:
        """Return the cosines between the points and their sums weighted by A."""
        products = self.of(A)
        squares = (A * products).sum(-1, keepdim=True).clamp_min(0)
        return products / squares.sqrt().clamp_min(SHORTEST) / self.squares.sqrt().clamp_min(SHORTEST).unsqueeze(1)


def mean_weights(membership: Float[Tensor, "episode way node"]) -> Float[Tensor, "episode way node"]:
    """Return the weights of the points in the mean of each class, given their membership."""
    return membership / membership.sum(-1, keepdim=True)
