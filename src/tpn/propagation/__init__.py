"""The mathematics of the paper as pure functions on tensors, in the order in which they are used."""

from tpn.propagation.affinity import affinity, mean_squared_distances, scale
from tpn.propagation.graph import connect, neighbour_mask, normalise
from tpn.propagation.length_scale import LengthScale, median_scale, typical_scale
from tpn.propagation.solvers import label_matrix, propagate, propagate_stepwise

__all__ = [
    "LengthScale",
    "affinity",
    "connect",
    "label_matrix",
    "mean_squared_distances",
    "median_scale",
    "neighbour_mask",
    "normalise",
    "propagate",
    "propagate_stepwise",
    "scale",
    "typical_scale",
]
