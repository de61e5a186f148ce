import numpy as np
import pytest
import torch

from tpn.propagation.affinity import affinity
from tpn.propagation.length_scale import LengthScale, typical_scale


@pytest.mark.parametrize(("size", "hidden"), [(1, 1), (2, 1), (3, 1), (5, 4), (10, 9), (21, 36)])
def test_it_takes_any_feature_map(size, hidden):
    network = LengthScale((64, size, size))
    assert network.hidden.in_features == hidden
    assert network(torch.rand(7, 64, size, size)).shape == (7,)


def test_it_is_as_large_as_the_papers():
    shapes = [tuple(parameter.shape) for parameter in LengthScale((64, 5, 5)).parameters() if parameter.ndim > 1]
    assert shapes == [(64, 64, 3, 3), (1, 64, 3, 3), (8, 4), (1, 8)]


def test_it_starts_where_it_is_told():
    torch.manual_seed(0)
    network = LengthScale((64, 5, 5))
    network.start_at(0.3)
    sigma = network(torch.rand(50, 64, 5, 5))
    assert (abs(sigma - 0.3) < 0.15).all()
    assert sigma.std() > 0


def test_at_the_typical_scale_neighbours_have_weights_near_one_over_e():
    f = torch.from_numpy(np.random.default_rng(0).normal(size=(100, 64))) * 7
    sigma = typical_scale(f, k=20)
    neighbours = affinity(f, sigma).topk(20).values[:, 1:]
    assert abs(float(neighbours.median()) - np.exp(-1)) < 0.02


def test_the_typical_scale_of_identical_or_lonely_images_is_positive():
    assert typical_scale(torch.ones(10, 4), k=5) > 0
    assert typical_scale(torch.ones(1, 4), k=20) > 0
    assert typical_scale(torch.ones(10, 4), k=1) > 0
