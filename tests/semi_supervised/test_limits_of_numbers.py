"""Numbers and labels at their limits: finite probabilities or a ValueError, never NaN."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import kneighbors_graph

from tpn import LabelPropagator
from tpn.errors import TPNWarning

from .test_label_propagator import blobs

HOSTILE = {
    "huge": lambda X: X * 1e300,
    "tiny": lambda X: X * 1e-300,
    "subnormal": lambda X: X * 1e-315,
    "one huge": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 5, 1e300, X),
    "constant": lambda X: np.ones_like(X),
    "zero": lambda X: np.zeros_like(X),
    "one column": lambda X: np.where(np.arange(4) == 2, X, 7.0),
    "float16": lambda X: X.astype(np.float16),
    "integers": lambda X: X.astype(np.int64),
    "boolean": lambda X: X > 0,
    "sparse": lambda X: sparse.csr_array(np.where(X > 0, X, 0) * 1e200),
    "sparse, huge": lambda X: sparse.csr_array(np.where(X > 0, X, 0) * 1e300),
    "sparse, tiny": lambda X: sparse.csr_array(np.where(X > 0, X, 0) * 1e-300),
    "sparse, empty": lambda X: sparse.csr_array(X.shape),
    "far": lambda X: X + 1e15,
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("labels", ["few", "all"])
def test_hostile_numbers_give_finite_probabilities(kind, labels):
    X, truth, y = blobs(90, labels=3)
    given = HOSTILE[kind](X)
    if not sparse.issparse(given):
        given.setflags(write=False)
    for params in ({}, {"length_scale": 1e-300}, {"length_scale": 1e300, "metric": "cosine"}, {"estimator": "linear"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TPNWarning)
            model = LabelPropagator(**params).fit(given, truth if labels == "all" else y)
        for found in (model.label_distributions_, model.predict_proba(given), model.familiarity(given)):
            assert np.isfinite(found).all(), params
        np.testing.assert_allclose(model.label_distributions_.sum(1), 1, rtol=1e-5)


def check(model, *new):
    """Everything that the model says is a finite number, and probabilities sum to one."""
    for found in (model.label_distributions_, *(model.predict_proba(points) for points in new)):
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    for found in (model.familiarity_, *(model.familiarity(points) for points in new)):
        assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.filterwarnings("ignore:No label reaches")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_thousands_of_copies_of_a_few_points(dtype, kind):
    X = blobs(6, 2)[0]
    copies = np.repeat(X, 1000, axis=0).astype(dtype)
    labels = np.full(6000, -1)
    labels[::1000] = np.arange(6) % 2
    given = sparse.csr_array(copies.astype(np.float32)) if kind == "sparse" else copies
    model = LabelPropagator().fit(given, labels)
    check(model, given[:5])
    labels[1:900] = 1  # copies of a point with another label than its first
    check(model.update(labels), given[:5])


@pytest.mark.filterwarnings("ignore:No label reaches")
@pytest.mark.parametrize("factor", [1e300, 1e-300, 0.0])
def test_graphs_and_weights_of_any_size(factor):
    X, _, y = blobs(90, labels=3)
    graph = kneighbors_graph(X, 5, mode="distance")
    graph.data *= factor
    graph.data.setflags(write=False)
    check(LabelPropagator(metric="precomputed").fit(graph, y))
    affinities = graph.maximum(graph.T)
    check(LabelPropagator(metric="precomputed_affinity").fit(affinities, y))
    if factor:
        check(LabelPropagator().fit(X, y, sample_weight=np.full(90, factor)), X)


@pytest.mark.parametrize("kind", ["dense", "sparse", "precomputed"])
def test_one_class_no_labels_and_numbers_that_are_none_are_refused(kind):
    X, truth, y = blobs(30, labels=3)
    given = {"dense": X, "sparse": sparse.csr_array(X), "precomputed": kneighbors_graph(X, 5, mode="distance")}[kind]
    model = LabelPropagator(metric="precomputed" if kind == "precomputed" else "euclidean")
    for labels, complaint in ((np.where(y == 0, 0, -1), "one class"), (np.full(30, -1), "no labels")):
        with pytest.raises(ValueError, match=complaint):
            model.fit(given, labels)
    for wrong in (np.nan, np.inf):
        broken = given.copy()
        (broken.data if sparse.issparse(broken) else broken[0])[:1] = wrong
        with pytest.raises(ValueError, match=r"NaN|infinity|finite"):
            model.fit(broken, y)
    check(model.fit(given, truth))


def test_half_precision_that_overflowed_is_refused():
    X, _, y = blobs(30)
    with np.errstate(over="ignore"):
        overflowed = np.abs(X * 1e5).astype(np.float16)
    with pytest.raises(ValueError, match="infinity"):
        LabelPropagator().fit(overflowed, y)
