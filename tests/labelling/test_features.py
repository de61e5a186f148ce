"""Features of one's own."""

import numpy as np

from tpn.labelling.features import read_features


def test_features_from_a_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(4, 3))
    for dtype in (np.float64, np.float32, np.float16, np.int32, np.uint8):
        np.save(tmp_path / "f.npy", X.astype(dtype))
        read = read_features(tmp_path / "f.npy", 4)
        assert read.dtype == np.float32
        np.testing.assert_allclose(read, X.astype(dtype).astype(np.float32))
