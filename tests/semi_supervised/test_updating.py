"""Other labels on the same points: the same answer as a new fit; and graphs in files."""

import json
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from tpn import LabelPropagator, TPNError
from tpn.semi_supervised.graph_files import DESCRIPTION

from .test_label_propagator import labelled_first


@pytest.fixture(autouse=True)
def _single_precision_labels_may_not_reach_everything():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No label reaches")
        yield


def points(seed=0, number=1200, classes=6):
    X, truth = make_blobs(number, 16, centers=classes, cluster_std=6.0, random_state=seed)
    return X, truth, labelled_first(truth, 3)


@pytest.mark.parametrize("estimator", ["discriminant", "linear", "prototypes", "none"])
def test_an_update_is_a_new_fit(estimator):
    X, truth, y = points()
    model = LabelPropagator(estimator=estimator, tol=1e-4).fit(X, y)
    rng = np.random.default_rng(0)
    for _ in range(3):
        more = rng.choice(np.flatnonzero(y < 0), 2)
        y[more] = truth[more]
        assert model.update(y) is model
        fresh = LabelPropagator(estimator=estimator, tol=1e-4).fit(X, y)
        assert (model.transduction_ == fresh.transduction_).mean() >= 0.998
        assert np.abs(model.label_distributions_ - fresh.label_distributions_).mean() < 2e-3
        np.testing.assert_allclose(model.familiarity_, fresh.familiarity_, atol=0.1)
        assert (model.transduction_[y >= 0] == y[y >= 0]).all()


def test_classes_may_appear_vanish_and_change_their_name():
    X, truth, y = points(1)
    names = np.array(list("abcdef"))

    def named(labels):
        return np.array([names[label] if label >= 0 else None for label in labels], object)

    model = LabelPropagator().fit(X, named(np.where(y == 5, -1, y)))
    assert model.classes_.tolist() == list("abcde")
    for labels in (y, np.where(y == 0, -1, y), np.where(y > 1, -1, y), y):
        model.update(named(labels))
        fresh = LabelPropagator().fit(X, named(labels))
        assert model.classes_.tolist() == fresh.classes_.tolist()
        assert (model.transduction_ == fresh.transduction_).mean() > 0.995
        assert (model.predict(X[:50]) == fresh.predict(X[:50])).mean() > 0.95
    names = np.array(list("fedcba"))
    model.update(named(y))
    assert (model.transduction_ == names[truth]).mean() > 0.9


def test_an_update_that_is_refused_changes_nothing():
    X, _, y = points(2)
    model = LabelPropagator().fit(X, y)
    before = model.label_distributions_.copy()
    for wrong, complaint in ((y[:-1], "inconsistent"), (np.full_like(y, -1), "no labels"), (y + 0.5, "continuous")):
        with pytest.raises(ValueError, match=complaint):
            model.update(wrong)
    model.set_params(class_prior=[1, 2])
    with pytest.raises(ValueError, match="6 positive numbers"):
        model.update(y)
    assert (model.label_distributions_ == before).all()
    assert len(model.classes_) == 6
    with pytest.raises(NotFittedError):
        LabelPropagator().update(y)


@pytest.mark.parametrize("kind", ["dense", "sparse", "copies"])
def test_a_graph_from_a_file_is_as_good_as_the_first(tmp_path, kind):
    X, _, y = points(3)
    X = X.astype(np.float32)
    if kind == "copies":
        X[500:520] = X[0]
    given = sparse.csr_array(np.where(np.abs(X) < 2, 0, X)) if kind == "sparse" else X
    model = LabelPropagator(7, length_scale=9.0 if kind == "dense" else "local").fit(given, y)
    model.save_graph(tmp_path / "graph")
    again = LabelPropagator.from_graph(tmp_path / "graph")
    with pytest.raises(NotFittedError):
        again.predict(given)
    again.update(y)
    np.testing.assert_allclose(again.label_distributions_, model.label_distributions_, atol=1e-5)
    np.testing.assert_allclose(again.predict_proba(given[:30]), model.predict_proba(given[:30]), atol=1e-5)
    assert again.get_params()["n_neighbors"] == 7
    with pytest.raises(ValueError, match="n_neighbors is a property of the saved graph"):
        LabelPropagator.from_graph(tmp_path / "graph", n_neighbors=3)


def test_a_damaged_graph_is_refused(tmp_path):
    X, _, y = points(4, 60)
    LabelPropagator().fit(X, y).save_graph(tmp_path)
    files = sorted(tmp_path.glob("*.npy"))
    for file in files:
        content = file.read_bytes()
        for damage in (content[:-3], content[:-1] + bytes([content[-1] ^ 64]), b"", content[:20]):
            file.write_bytes(damage)
            with pytest.raises(TPNError, match="cannot be used"):
                LabelPropagator.from_graph(tmp_path)
        file.write_bytes(content)
    description = json.loads((tmp_path / DESCRIPTION).read_text())
    for wrong in ({"format": 99}, {"shape": [3, 3]}, {"arrays": {}}):
        (tmp_path / DESCRIPTION).write_text(json.dumps(description | wrong))
        with pytest.raises(TPNError, match=r"cannot be used|has format 99"):
            LabelPropagator.from_graph(tmp_path)
    with pytest.raises(TPNError, match="holds no graph"):
        LabelPropagator.from_graph(tmp_path / "elsewhere")


def test_half_precision_and_memory_maps_become_single_precision(tmp_path):
    X, _, y = points(5, 300)
    np.save(tmp_path / "points.npy", X.astype(np.float16))
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    model = LabelPropagator().fit(mapped, y)
    assert model.label_distributions_.dtype == np.float32
    again = LabelPropagator().fit(X.astype(np.float16).astype(np.float32), y)
    np.testing.assert_allclose(model.label_distributions_, again.label_distributions_, atol=1e-6)
