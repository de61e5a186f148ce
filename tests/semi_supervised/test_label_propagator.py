"""The estimator: its equations against NumPy, what scikit-learn asks of it, and what users rely on."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import brentq
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

import tpn
from tpn.errors import TPNWarning
from tpn.propagation import graph as episode_graph
from tpn.propagation.affinity import affinity
from tpn.propagation.solvers import propagate
from tpn.semi_supervised import conjugate_gradients as solver
from tpn.semi_supervised import sparse_graph as graphs
from tpn.semi_supervised.conjugate_gradients import SparsePropagation, conjugate_gradients
from tpn.semi_supervised.label_propagator import LabelPropagator
from tpn.semi_supervised.neighbours import Neighbours
from tpn.semi_supervised.postprocessing import (
    CALIBRATION,
    balance_classes,
    calibrate,
    class_balance_factors,
    familiarity,
    most_confident,
    usual_walks,
)

from .test_neighbours import brute_force

PRIOR_MODELS = ["linear", "prototypes", "none"]


def blobs(number=120, classes=3, dimensions=4, deviation=1.0, seed=0, labels=1):
    """Points, which cluster each is of, and labels for the first few of each."""
    X, truth = make_blobs(number, dimensions, centers=classes, cluster_std=deviation, random_state=seed)
    return X, truth, labelled_first(truth, labels)


def labelled_first(truth, labels=1):
    y = np.full(len(truth), -1)
    for class_ in np.unique(truth):
        y[np.flatnonzero(truth == class_)[:labels]] = class_
    return y


def weight_matrix(X, k, scale=None):
    """The graph as the docstring of LabelPropagator describes it, as a dense matrix."""
    squares, found = brute_force(X, k)
    sigma = np.sqrt(squares[:, min(7, k) - 1]) if scale is None else np.full(len(X), scale)
    W = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        for square, j in zip(squares[i], found[i], strict=True):
            W[i, j] = W[j, i] = np.exp(-square / (sigma[i] * sigma[j]))
    return W


def graph_of(W):
    return graphs.normalise(sparse.csr_array(W.copy()))


def solve(W, labels, fixed, prior, alpha):
    """F = α D^-1 W F + (1 - α) P where nothing is known, F = labels where they are, by Gaussian elimination."""
    T = W / np.maximum(W.sum(1, keepdims=True), 1e-300)
    free = ~fixed
    A = np.eye(free.sum()) - alpha * T[np.ix_(free, free)]
    F = np.zeros_like(prior)
    F[fixed] = labels
    F[free] = np.linalg.solve(A, alpha * T[np.ix_(free, fixed)] @ labels + (1 - alpha) * prior[free])
    return F


# what scikit-learn asks of an estimator


def test_it_is_where_users_look_for_it():
    assert tpn.LabelPropagator is LabelPropagator


def test_it_needs_neither_torch_nor_any_other_step_of_ours():
    code = "import sys, tpn; tpn.LabelPropagator; print(*(name for name in sys.modules if name[:3] in ('tor', 'tpn')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "tpn.semi_supervised.label_propagator" in loaded
    assert {name for name in loaded if not name.startswith("tpn.semi_supervised")} == {"tpn", "tpn.errors"}


def test_it_takes_part_in_a_pipeline():
    X, truth, y = blobs(seed=1)
    stretched = X * np.array([1e6, 1.0, 1e-3, 10.0])
    pipeline = make_pipeline(StandardScaler(), LabelPropagator()).fit(stretched, y)
    assert (pipeline.predict(stretched) == truth).mean() > 0.95


# the equations


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 2e-4)])
def test_propagation_solves_its_equation(alpha, dtype, tolerance):
    rng = np.random.default_rng(0)
    W = weight_matrix(rng.normal(size=(60, 3)), 6)
    fixed = np.arange(60) % 10 == 0
    labels = np.eye(3)[np.arange(6) % 3]
    prior = rng.dirichlet(np.ones(3), 60)
    graph = graph_of(W.astype(dtype))
    solution = SparsePropagation(graph, fixed).solve(labels.astype(dtype), prior.astype(dtype), alpha, tolerance / 100)
    assert solution.converged
    assert solution.values.dtype == dtype
    np.testing.assert_allclose(solution.values, solve(W, labels, fixed, prior, alpha), atol=tolerance)
    np.testing.assert_allclose(solution.values.sum(1), 1, atol=3 * tolerance)


def test_propagation_has_many_classes_and_any_start():
    rng = np.random.default_rng(1)
    W = weight_matrix(rng.normal(size=(150, 2)), 8)
    fixed = np.arange(150) < 130
    labels = np.eye(130)
    prior = rng.dirichlet(np.ones(130), 150)
    propagation = SparsePropagation(graph_of(W), fixed)
    expected = solve(W, labels, fixed, prior, 0.9)
    for start in (None, rng.normal(size=(150, 130)), expected):
        found = propagation.solve(labels, prior, 0.9, 1e-10, 1000, start)
        np.testing.assert_allclose(found.values, expected, atol=1e-8)
    assert found.iterations < 3, "from the solution it is not far"


def test_a_point_without_edges_has_its_prior():
    W = weight_matrix(np.random.default_rng(2).normal(size=(30, 2)), 4)
    W[7] = W[:, 7] = 0
    prior = np.tile([0.2, 0.8], (30, 1))
    fixed = np.arange(30) < 2
    found = SparsePropagation(graph_of(W), fixed).solve(np.eye(2), prior, 0.9, 1e-10)
    np.testing.assert_allclose(found.values[7], [0.2, 0.8])


def test_conjugate_gradients_say_when_they_did_not_arrive():
    W = weight_matrix(np.random.default_rng(3).normal(size=(80, 2)), 5)
    S = sparse.csr_array(W / np.sqrt(np.outer(W.sum(1), W.sum(1))))
    B = np.random.default_rng(4).normal(size=(80, 3))
    found = conjugate_gradients(S, 0.99, B, np.zeros_like(B), 1e-10, 3)
    assert (found.iterations, found.converged) == (3, False)
    found = conjugate_gradients(S, 0.99, B, np.zeros_like(B), 1e-10, 500)
    assert found.converged
    np.testing.assert_allclose(found.values, np.linalg.solve(np.eye(80) - 0.99 * S.toarray(), B), atol=1e-7)


def test_the_solution_does_not_depend_on_how_the_work_is_shared(monkeypatch):
    rng = np.random.default_rng(5)
    W = weight_matrix(rng.normal(size=(90, 2)), 6)
    fixed = np.arange(90) < 5
    prior = rng.dirichlet(np.ones(5), 90)
    alone = SparsePropagation(graph_of(W), fixed).solve(np.eye(5), prior, 0.9, 1e-12)
    monkeypatch.setattr(solver, "BLOCK", 35)
    monkeypatch.setattr(solver, "FEWEST_ROWS", 7)
    shared = SparsePropagation(graph_of(W), fixed, workers=3).solve(np.eye(5), prior, 0.9, 1e-12)
    np.testing.assert_allclose(shared.values, alone.values, atol=1e-10)


def test_the_engine_of_few_shot_episodes_agrees():
    """Affinities of equation (1), S, and F* = (I - αS)^-1 Y: on dense tensors, and on a sparse graph."""
    X = torch.randn(70, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sigma, alpha = 0.8, 0.95
    W = episode_graph.connect(affinity(X, sigma), 9)  # a node is its own first neighbour
    W.fill_diagonal_(0)
    scales = np.full(70, sigma * (2 * 5) ** 0.5)
    graph = graphs.connect(*Neighbours(X.numpy(), 8).query_self(), scales)
    np.testing.assert_allclose(graph.toarray(), W, atol=1e-12)
    S = episode_graph.normalise(W)
    Y = torch.eye(3, dtype=torch.float64)[torch.arange(70) % 3] * (torch.arange(70) < 9)[:, None]
    found = conjugate_gradients(sparse.csr_array(S.numpy()), alpha, Y.numpy(), np.zeros((70, 3)), 1e-12, 500)
    np.testing.assert_allclose(found.values, propagate(S, Y, alpha), atol=1e-9)


@pytest.mark.parametrize("scale", [None, 0.7])
@pytest.mark.parametrize("k", [1, 3, 7, 10])
def test_the_graph_is_that_of_the_docstring(scale, k):
    X = np.random.default_rng(k).gamma(2.0, 1.0, (50, 3))
    squares, found = Neighbours(X, k).query_self()
    scales = np.full(50, scale) if scale else graphs.length_scales(squares)
    graph = graphs.connect(squares, found, scales)
    np.testing.assert_allclose(graph.toarray(), weight_matrix(X, k, scale), rtol=1e-9, atol=1e-300)
    assert (graph != graph.T).nnz == 0
    expected = np.full(50, scale) if scale else np.sqrt(brute_force(X, min(7, k))[0][:, -1])
    np.testing.assert_allclose(scales, expected)


def test_without_a_prior_model_the_whole_is_its_equation():
    """Every step from points to probabilities, written out."""
    X, _, y = blobs(60, 2, 2, deviation=4.0, labels=2)
    model = LabelPropagator(6, estimator="none", class_prior=None, alpha=0.8, tol=1e-10).fit(X, y)
    F = solve(weight_matrix(X, 6), np.eye(2)[y[y >= 0]], y >= 0, np.full((60, 2), 0.5), 0.8)
    expected = np.exp(CALIBRATION * F) - 1
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(model.label_distributions_, expected, atol=1e-7)
    assert (model.transduction_ == F.argmax(1)).all()


@pytest.mark.parametrize(("classes", "apart"), [(2, 1.2), (12, 2.0), (40, 2.0)])
def test_probabilities_are_about_as_high_as_often_they_are_right(classes, apart):
    """Of overlapping normal distributions, in ten parts from the least to the most confident points."""
    rng = np.random.default_rng(classes)
    truth = np.arange(60 * classes) % classes
    X = apart * rng.normal(size=(classes, 8))[truth] + rng.normal(size=(len(truth), 8)) * 1.5
    model = LabelPropagator().fit(X, y := labelled_first(truth, 5))
    confidence, right = model.label_distributions_[y < 0].max(1), (model.transduction_ == truth)[y < 0]
    parts = np.array_split(np.argsort(confidence), 10)
    error = np.mean([abs(confidence[part].mean() - right[part].mean()) for part in parts])
    assert 0.5 < right.mean() < 0.97
    assert error < 0.08


def test_calibration_keeps_the_order_of_the_classes():
    scores = np.random.default_rng(0).dirichlet(np.full(7, 0.3), 200).astype(np.float32)
    probabilities = calibrate(scores)
    assert probabilities.dtype == np.float32
    assert (np.argsort(probabilities, 1)[:, -2:] == np.argsort(scores, 1)[:, -2:]).all()
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(calibrate(np.full((1, 4), 0.25)), 0.25)


def test_the_more_confident_half_of_each_class_is_learned_from():
    scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.1, 0.9], [0.3, 0.7], [0.2, 0.8]])
    free = np.array([True, True, True, True, False, True, True])
    assert sorted(most_confident(scores, free, 100)) == [0, 1, 6]
    assert sorted(most_confident(scores, free, 2)) == [0, 6], "no more than there is room for"


def test_walks_that_arrive_at_a_label():
    """The chance of it, by simulation of the walks."""
    X, _, y = blobs(40, 2, 2, deviation=3.0)
    W = weight_matrix(X, 5)
    fixed = y >= 0
    found = SparsePropagation(graph_of(W), fixed).solve(np.ones((2, 1)), np.zeros((40, 1)), 0.8, 1e-10)
    rng = np.random.default_rng(0)
    starts = np.flatnonzero(~fixed)[:4]
    for start in starts:
        arrived = 0
        for _ in range(4000):
            place = start
            while not fixed[place] and rng.random() < 0.8:
                place = rng.choice(40, p=W[place] / W[place].sum())
            arrived += fixed[place]
        assert abs(found.values[start, 0] - arrived / 4000) < 0.03


def test_familiarity_compares_with_others_of_the_class_and_with_all():
    arrived = np.array([0.4, 0.4, 0.1, 0.0, 0.02, 0.02, 0.01, 1.0, 0.0])
    best = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])
    free = np.arange(9) != 7
    usual = usual_walks(arrived, best, free, 4)
    np.testing.assert_allclose(
        familiarity(arrived, usual[best]),
        [1, 1, (0.25 / 0.55) ** 2, 0, (0.2 / 0.55) ** 2, (0.2 / 0.55) ** 2, (0.1 / 0.55) ** 2, 1, 0],
    )


def test_points_of_none_of_the_classes_are_not_familiar():
    """Two of three clusters have labels."""
    X, truth, y = blobs(300, 3, 6, deviation=1.5, labels=5)
    y[truth == 2] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TPNWarning)
        model = LabelPropagator().fit(X, y)
    confidence = model.label_distributions_.max(1) * model.familiarity_
    assert confidence[truth == 2].max() < 0.1
    assert confidence[(truth < 2) & (y < 0)].mean() > 0.8
    assert (model.familiarity_[y >= 0] == 1).all()


# points that are alike


def test_many_copies_of_a_point():
    X = np.repeat(np.array([[0.0, 0.0], [5.0, 5.0], [5.0, 6.0]]), [40, 40, 3], axis=0)
    y = np.full(83, -1)
    y[[0, 40]] = 0, 1
    model = LabelPropagator(5).fit(X, y)
    assert np.isfinite(model.label_distributions_).all()
    assert not model.unreached_.any()
    assert (model.transduction_ == np.repeat([0, 1], [40, 43])).all()


def test_all_points_alike():
    y = np.full(30, -1)
    y[:2] = 0, 1
    model = LabelPropagator().fit(np.ones((30, 3)), y)
    assert np.isfinite(model.label_distributions_).all()
    assert (model.transduction_[:2] == [0, 1]).all()
    assert np.isfinite(model.predict_proba(np.zeros((1, 3)))).all()


# labels


def test_given_labels_stay_and_rows_sum_to_one():
    X, _, y = blobs(90, 3, 2, deviation=5.0, labels=8)
    y[:6] = (y[:6] + 1) % 3  # some of them wrong: they are given all the same
    for prior_model in PRIOR_MODELS:
        model = LabelPropagator(estimator=prior_model).fit(X, y)
        assert (model.transduction_[y >= 0] == y[y >= 0]).all()
        assert (model.label_distributions_[y >= 0] == np.eye(3)[y[y >= 0]]).all()
        np.testing.assert_allclose(model.label_distributions_.sum(1), 1, rtol=1e-12)
        np.testing.assert_allclose(model.predict_proba(X + 0.1).sum(1), 1, rtol=1e-12)


def test_text_labels_with_minus_one_where_there_is_none():
    X, truth, y = blobs()
    names = np.array(["öl", "wasser", "luft"])
    as_objects = np.array([names[label] if label >= 0 else -1 for label in y], object)
    as_text = np.array([names[label] if label >= 0 else -1 for label in y])  # NumPy makes "-1" of it
    for labels in (as_objects, as_text, list(as_objects)):
        model = LabelPropagator().fit(X, labels)
        assert model.classes_.tolist() == sorted(names)
        assert model.classes_.dtype.kind == "U"
        assert (model.transduction_ == names[truth]).mean() > 0.98
        assert (model.predict(X[:5]) == model.transduction_[:5]).all()


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        ([-1] * 6, "all of y is -1"),
        ([3, 3, -1, -1, -1, -1], "at least two classes; there is one class only: .*3"),
        (np.array(["a", 1, -1, -1, -1, -1], object), "all text or all numbers"),
        ([0.5, 1.5, -1, -1, -1, -1], "continuous"),
        ([0, 1, -1, -1, -1, np.inf], "infinity"),
        ([0, 1], "inconsistent numbers of samples"),
        (None, "requires y"),
    ],
)
def test_labels_that_make_no_sense(labels, complaint):
    with pytest.raises(ValueError, match=complaint):
        LabelPropagator().fit(np.arange(12.0).reshape(6, 2), labels)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_neighbors", 0),
        ("n_neighbors", 2.5),
        ("alpha", 1.0),
        ("alpha", -0.1),
        ("estimator", "deep"),
        ("rounds", -1),
        ("class_prior", "even"),
        ("length_scale", 0.0),
        ("length_scale", "global"),
        ("search", "none"),
        ("tol", 0.0),
        ("max_iter", 0),
    ],
)
def test_settings_out_of_range(name, value):
    X, _, y = blobs(30)
    with pytest.raises(ValueError, match=f"The '{name}' parameter"):
        LabelPropagator().set_params(**{name: value}).fit(X, y)


def test_when_all_have_labels_nothing_is_left_to_do():
    X, truth, _ = blobs()
    model = LabelPropagator().fit(X, truth)
    assert (model.transduction_ == truth).all()
    assert (model.label_distributions_ == np.eye(3)[truth]).all()
    assert (model.predict(X) == truth).mean() > 0.98
    assert model.n_iter_ == 1


def test_more_neighbours_than_points():
    X, truth, y = blobs(12, 3)
    model = LabelPropagator(500).fit(X, y)
    assert (model.transduction_ == truth).all()
    assert model.predict(X[:1]).shape == (1,)
    two = LabelPropagator().fit([[0.0], [1.0]], [0, 1])
    assert two.predict([[0.1], [0.8]]).tolist() == [0, 1]


def test_unbalanced_classes_and_labels():
    rng = np.random.default_rng(9)
    truth = np.repeat([0, 1, 2], [300, 60, 15])
    X = rng.normal(size=(375, 3)) + 6 * np.eye(3)[truth]
    y = np.full(375, -1)
    y[[0, 1, 2, 3, 4, 5, 6, 7, 300, 360]] = [0] * 8 + [1, 2]
    model = LabelPropagator().fit(X, y)
    assert all((model.transduction_[truth == class_] == class_).mean() > 0.9 for class_ in range(3))


# precision and kinds of input


def test_single_precision_stays_single():
    X, _, y = blobs()
    single = LabelPropagator().fit(X.astype(np.float32), y)
    double = LabelPropagator().fit(X, y)
    assert single.label_distributions_.dtype == single.predict_proba(X).dtype == np.float32
    assert double.label_distributions_.dtype == np.float64
    np.testing.assert_allclose(single.label_distributions_, double.label_distributions_, atol=5e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("power", [-120, -60, 60, 120])
def test_the_unit_of_measurement_does_not_matter(dtype, power):
    """Squares of very small or large numbers are none that can be written; powers of two change no digit."""
    X, _, y = blobs(deviation=3.0)
    X = X.astype(dtype)
    factor = dtype(2.0 ** (power if dtype == np.float64 else power // 2))
    for scale in ("local", 2.0):
        plain = LabelPropagator(length_scale=scale).fit(X, y)
        other = LabelPropagator(length_scale=scale if scale == "local" else scale * float(factor)).fit(X * factor, y)
        np.testing.assert_allclose(other.label_distributions_, plain.label_distributions_, atol=1e-4)
        np.testing.assert_allclose(other.predict_proba(X * factor), plain.predict_proba(X), atol=1e-4)


def test_far_from_zero_it_is_the_same():
    X, _, y = blobs(deviation=3.0)
    near = LabelPropagator().fit(X, y)
    far = LabelPropagator().fit(X + 1e5, y)
    np.testing.assert_allclose(far.label_distributions_, near.label_distributions_, atol=1e-3)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_points_are_as_good_as_dense_ones(kind):
    rng = np.random.default_rng(10)
    X = rng.normal(size=(150, 20)) * (rng.random((150, 20)) < 0.3)
    truth = np.arange(150) % 3
    X[np.arange(150), truth] += 4
    y = labelled_first(truth, 2)
    for prior_model in ("none", "prototypes"):
        plain = LabelPropagator(estimator=prior_model).fit(X, y)
        packed = LabelPropagator(estimator=prior_model).fit(kind(X), y)
        if prior_model == "none":  # the others see points that are moved around zero, which sparse ones cannot be
            np.testing.assert_allclose(packed.label_distributions_, plain.label_distributions_, atol=1e-9)
            np.testing.assert_allclose(packed.predict_proba(kind(X)), plain.predict_proba(X), atol=1e-9)
        assert (packed.transduction_ == truth).mean() > 0.95
        assert (packed.predict(kind(X)) == packed.transduction_).mean() > 0.95


# the graph does not reach everything


def test_what_no_label_reaches_is_told_of_and_has_the_prior():
    X = np.concatenate([np.random.default_rng(11).normal(middle, 1, (30, 2)) for middle in (0, 100, 200)])
    y = np.full(90, -1)
    y[[0, 1, 30]] = 0, 0, 1
    with pytest.warns(TPNWarning, match="No label reaches 30 of 90 points"):
        model = LabelPropagator(4, estimator="none", class_prior=None).fit(X, y)
    assert (model.unreached_ == (np.arange(90) >= 60)).all()
    np.testing.assert_allclose(model.label_distributions_[60:], 0.5, rtol=1e-3)
    assert (model.transduction_[:60] == np.repeat([0, 1], 30)).all()
    with pytest.warns(TPNWarning, match="No label reaches 30"):
        linear = LabelPropagator(4).fit(X, y)
    assert np.isfinite(linear.label_distributions_).all()
    assert (linear.transduction_[60:] == 1).all(), "a linear model says that they lie beyond the second"


def test_a_length_scale_too_small_for_any_edge():
    X, _, y = blobs(30)
    with pytest.warns(TPNWarning, match="No label reaches 27 of 30"):
        model = LabelPropagator(length_scale=1e-9, estimator="none", class_prior=None).fit(X, y)
    np.testing.assert_allclose(model.label_distributions_[y < 0], 1 / 3)
    np.testing.assert_allclose(model.predict_proba(X + 1), 1 / 3)


def test_too_few_iterations_are_told_of():
    X, _, y = blobs(deviation=4.0)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        LabelPropagator(alpha=0.99, max_iter=1, tol=1e-8).fit(X, y)


# class balance


def before_calibration(probabilities):
    """The scores that sum to one and were turned into these probabilities."""

    def scores(total):
        return np.log1p(probabilities * total) / CALIBRATION

    return scores(brentq(lambda total: scores(total).sum() - 1, 1e-9, 1e9))


@pytest.mark.parametrize("prior", [[0.6, 0.3, 0.1], [1, 1, 8], (0.2, 0.2, 0.6)])
def test_classes_have_the_balance_that_is_known(prior):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(400, 2)) * 2  # nothing to tell the classes apart by: only their balance is known
    y = np.full(400, -1)
    y[:30] = np.arange(30) % 3
    expected = np.array(prior) / np.sum(prior)
    model = LabelPropagator(class_prior=prior, estimator="prototypes").fit(X, y)
    scores = np.array([before_calibration(row) for row in model.label_distributions_[y < 0]])
    np.testing.assert_allclose(scores.mean(0), expected, atol=0.011)
    left = LabelPropagator(class_prior=None, estimator="prototypes").fit(X, y).label_distributions_[y < 0].mean(0)
    assert np.abs(left - expected).max() > 0.1, "by itself it would have come out otherwise"


@pytest.mark.parametrize("prior", [[0.5, 0.5], [1, 1, 0], [1, -1, 1], [np.nan, 1, 1], [np.inf, 1, 1], [[1, 1, 1]]])
def test_a_class_balance_that_makes_no_sense(prior):
    X, _, y = blobs(30)
    with pytest.raises(ValueError, match="class_prior must be 3 positive numbers"):
        LabelPropagator(class_prior=prior).fit(X, y)


# what must not matter


@settings(max_examples=12)
@given(st.integers(0, 1000), st.permutations(range(4)), st.sampled_from(PRIOR_MODELS))
def test_what_the_classes_are_called_does_not_matter(seed, names, prior_model):
    X, _, y = blobs(60, 4, 3, deviation=3.0, seed=seed, labels=2)
    names = np.array(names)
    renamed = np.where(y >= 0, names[y], -1)
    one = LabelPropagator(estimator=prior_model, tol=1e-8).fit(X, y).label_distributions_
    other = LabelPropagator(estimator=prior_model, tol=1e-8).fit(X, renamed).label_distributions_
    np.testing.assert_allclose(other[:, names], one, atol=1e-6 if prior_model != "linear" else 2e-3)


@settings(max_examples=12)
@given(st.integers(0, 1000), st.sampled_from(PRIOR_MODELS))
def test_the_order_of_the_points_does_not_matter(seed, prior_model):
    X, _, y = blobs(60, 4, 3, deviation=3.0, seed=seed, labels=2)
    order = np.random.default_rng(seed).permutation(60)
    one = LabelPropagator(estimator=prior_model, tol=1e-8).fit(X, y).label_distributions_
    other = LabelPropagator(estimator=prior_model, tol=1e-8).fit(X[order], y[order]).label_distributions_
    np.testing.assert_allclose(other, one[order], atol=1e-6 if prior_model != "linear" else 2e-3)


def test_input_is_left_as_it_was():
    X, _, y = blobs()
    points, labels = X.copy(), y.copy()
    LabelPropagator().fit(X, y).predict_proba(X)
    assert (points == X).all()
    assert (labels == y).all()


# new points


def test_new_points_are_of_the_cluster_they_are_near():
    X, truth = make_blobs(500, 3, centers=4, cluster_std=1.0, random_state=3)
    y = labelled_first(truth[:300])
    model = LabelPropagator().fit(X[:300], y)
    assert (model.predict(X[300:]) == truth[300:]).mean() > 0.97
    one_by_one = np.concatenate([model.predict_proba(X[index : index + 1]) for index in range(300, 340)])
    np.testing.assert_allclose(one_by_one, model.predict_proba(X[300:340]), rtol=1e-12)


@pytest.mark.parametrize("kind", ["exact", "approximate", "sparse"])
def test_it_can_be_kept_in_a_file(kind):
    X, _, y = blobs(400, deviation=4.0)
    points = sparse.csr_array(X) if kind == "sparse" else X
    model = LabelPropagator(search="exact" if kind == "sparse" else kind).fit(points, y)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(points) == model.predict_proba(points)).all()
    assert (again.transduction_ == model.transduction_).all()


# how good it is


def test_it_is_better_than_spreading_alone_and_than_the_labels_alone():
    """8 classes of long, turned clouds in 20 dimensions with one label each."""
    accuracies = {"ours": [], "spreading": [], "labels": []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = np.arange(600) % 8
        shapes = rng.normal(size=(8, 20, 20)) * np.linspace(0.1, 0.75, 20)[:, None]
        X = 1.6 * rng.normal(size=(8, 20))[truth] + np.einsum("nd,nde->ne", rng.normal(size=(600, 20)), shapes[truth])
        y = labelled_first(truth)
        free = y < 0
        accuracies["ours"].append((LabelPropagator().fit(X, y).transduction_ == truth)[free].mean())
        spreading = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=200).fit(X, y)
        accuracies["spreading"].append((spreading.transduction_ == truth)[free].mean())
        linear = LogisticRegression().fit(X[~free], y[~free])
        accuracies["labels"].append((linear.predict(X) == truth)[free].mean())
    mean = {name: np.mean(values) for name, values in accuracies.items()}
    assert 0.3 < mean["labels"] < 0.9, "neither easy nor hopeless"
    assert mean["ours"] > mean["spreading"] + 0.08, mean
    assert mean["ours"] > mean["labels"] + 0.2, mean


def test_a_class_that_the_scores_deny_overflows_nothing():
    scores = np.zeros((50, 3), np.float32)
    scores[:, 0] = 1
    factors = class_balance_factors(scores, 3)
    assert np.isfinite(factors).all()
    assert np.isfinite(factors.astype(np.float32)).all()
    assert np.isfinite(balance_classes(scores, factors)).all()
