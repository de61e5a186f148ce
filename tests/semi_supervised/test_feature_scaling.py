"""Feature scaling against its steps written out."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tpn import FeatureScaler, LabelPropagator


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


@parametrize_with_checks([FeatureScaler()])
def test_the_feature_scaler_is_a_transformer(estimator, check):
    if check.func.__name__ == "check_do_not_raise_errors_in_init_or_set_params":
        pytest.skip("the tests check types while they run, also those of parameters")
    check(estimator)


def test_features_of_new_points_are_scaled_alike():
    X = np.random.default_rng(4).normal(2.0, 1.0, (400, 30))
    scaler = FeatureScaler(8).set_output(transform="pandas")
    frame = scaler.fit_transform(X)
    assert list(frame.columns) == [f"featurescaler{i}" for i in range(8)]
    np.testing.assert_allclose(scaler.transform(X[:10]), frame[:10], atol=1e-5)
    pipeline = make_pipeline(StandardScaler(), FeatureScaler(8), LabelPropagator()).fit(X, np.arange(400) % 5 - 1)
    assert pipeline.predict(X[:3]).shape == (3,)
