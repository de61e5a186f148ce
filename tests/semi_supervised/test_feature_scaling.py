"""Feature scaling against its steps written out."""

import numpy as np
import pytest

from tpn.semi_supervised.feature_scaling import FeatureScaler


@pytest.mark.parametrize("factor", [1.0, 1e-30, 1e30])
def test_scaled_features_are_directions(factor):
    X = np.random.default_rng(0).normal(2.0, 1.0, (300, 20))
    centred = X - X.mean(0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    ready = FeatureScaler().fit_transform((X * factor).astype(np.float32))
    np.testing.assert_allclose(ready, expected, atol=1e-4)
    fewer = FeatureScaler(5).fit_transform((X * factor).astype(np.float32))
    assert fewer.shape == (300, 5)
    np.testing.assert_allclose(np.linalg.norm(fewer, axis=1), 1, atol=1e-5)
    components = np.linalg.svd(expected - expected.mean(0))[2][:5]
    projected = expected @ components.T
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    np.testing.assert_allclose(fewer @ fewer.T, projected @ projected.T, atol=1e-3)


def test_features_all_alike_stay_numbers():
    assert np.isfinite(FeatureScaler().fit_transform(np.full((5, 3), 7.0))).all()
