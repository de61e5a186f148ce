"""Coordinates of the points of an episode in the space that they span."""

import torch
from jaxtyping import Float
from torch import Tensor

from tpn.propagation.batched_solve import one_thread


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
