"""What users of scikit-learn and pandas expect: missing labels, graphs of others, weights, pipelines."""

import io

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import cosine_distances, rbf_kernel
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsTransformer, kneighbors_graph
from sklearn.pipeline import make_pipeline

from tpn import LabelPropagator
from tpn.errors import TPNWarning

from .test_label_propagator import blobs, labelled_first, solve


def test_missing_labels_as_pandas_writes_them():
    X, _, y = blobs(deviation=2.0)
    names = np.array(["ant", "bee", "cow"])
    text = [names[label] if label >= 0 else None for label in y]
    expected = LabelPropagator().fit(X, y).transduction_
    numbers = [label if label >= 0 else None for label in y.tolist()]
    for labels in (
        pd.Series(text),
        pd.Series(text, dtype="category"),
        pd.Series(text, dtype="string"),
        pd.Series(text, dtype=object).fillna(np.nan),
        pd.Categorical(text),
        text,
        [label if label is not None else float("nan") for label in text],
    ):
        model = LabelPropagator().fit(X, labels)
        assert model.classes_.tolist() == names.tolist()
        assert (model.transduction_ == names[expected]).all()
    for labels in (pd.Series(numbers, dtype="Int64"), pd.Series(numbers), np.where(y < 0, np.nan, y), numbers):
        model = LabelPropagator().fit(X, labels)
        assert (model.transduction_ == expected).all()
        assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("missing", ["", "-1"])
def test_text_that_looks_like_a_missing_label_is_warned_of(missing):
    X, _, y = blobs()
    labels = pd.Series(["abc"[label] if label >= 0 else missing for label in y], dtype=object)
    with pytest.warns(TPNWarning, match=f"the text '{missing}' as a label"):
        assert missing in LabelPropagator().fit(X, labels).classes_


def test_names_of_features_and_frames():
    X, _, y = blobs()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = LabelPropagator().fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert (model.predict(frame) == LabelPropagator().fit(X, y).predict(X)).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "d"]])


def test_soft_labels():
    X, _, y = blobs(deviation=2.0, labels=3)
    hard = LabelPropagator().fit(X, y)
    rows = np.where(y[:, None] >= 0, np.eye(3)[y], 0)
    for unknown in (0, -1, np.nan):
        soft = LabelPropagator().fit(X, np.where(y[:, None] >= 0, rows, unknown))
        np.testing.assert_allclose(soft.label_distributions_, hard.label_distributions_)
    rows[y == 0] = [0.7, 0.3, 0.0]
    frame = pd.DataFrame(rows, columns=["x", "y", "z"])
    model = LabelPropagator().fit(X, frame)
    np.testing.assert_allclose(model.label_distributions_[y == 0], rows[y == 0])
    assert model.classes_.tolist() == ["x", "y", "z"]
    for wrong, complaint in ((2 * rows, "sum to 1"), (rows * 0, "no labels"), (rows[:, :2] / 2, "sum to 1")):
        with pytest.raises(ValueError, match=complaint):
            LabelPropagator().fit(X, wrong)


def test_weights_count_as_copies():
    X, _, y = blobs(60, deviation=3.0, labels=4)
    weights = np.random.default_rng(0).integers(1, 4, 60)
    weights[y < 0] *= np.random.default_rng(1).integers(0, 2, 60)[y < 0]
    weighted = LabelPropagator(tol=1e-9).fit(X, y, sample_weight=weights)
    repeated = LabelPropagator(tol=1e-9).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    kept = np.repeat(np.arange(60), weights)
    np.testing.assert_allclose(weighted.label_distributions_[kept], repeated.label_distributions_, atol=1e-6)
    assert np.isfinite(weighted.label_distributions_).all()
    for wrong in (-weights, weights[1:], weights * 0, weights * np.nan):
        with pytest.raises(ValueError, match="sample_weight"):
            LabelPropagator().fit(X, y, sample_weight=wrong)


@pytest.mark.parametrize("copies", [1, 9, 3000])
def test_copies_of_a_point_are_as_sure_as_one(copies):
    """Nine copies of a photograph were an island that no label reached."""
    X, _, y = blobs(120, deviation=2.0, labels=2)
    free = int(np.flatnonzero(y < 0)[0])
    alone = LabelPropagator().fit(X, y)
    model = LabelPropagator().fit(
        np.concatenate([X, np.repeat(X[free : free + 1], copies, axis=0)]), [*y, *[-1] * copies]
    )
    assert (model.transduction_[120:] == alone.transduction_[free]).all()
    assert (model.label_distributions_[120:] == model.label_distributions_[free]).all()
    assert model.label_distributions_[free].max() > alone.label_distributions_[free].max() - 0.1
    assert model.familiarity_[free] > 0.4 * alone.familiarity_[free]
    assert not model.unreached_.any()


def test_the_mass_of_copies_in_the_equation():
    """The graph of all copies with an edge between any two copies of neighbours, solved without merging."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 2))
    copies = rng.integers(1, 4, 20)
    fixed = np.arange(20) < 2
    model = LabelPropagator(5, alpha=0.9, estimator="none", class_prior=None, tol=1e-11, length_scale=1.0)
    y = np.where(fixed, np.arange(20), -1)
    model.fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    squares = np.square(X[:, None] - X[None]).sum(2)
    near = np.argsort(squares + 1e9 * np.eye(20), 1)[:, :5]
    W = np.zeros((20, 20))
    for i in range(20):
        for j in near[i]:
            W[i, j] = W[j, i] = np.exp(-squares[i, j])
    of = np.repeat(np.arange(20), copies)
    full = W[np.ix_(of, of)]
    known = fixed[of]
    F = solve(full, np.eye(2)[y[of][known]], known, np.full((len(of), 2), 0.5), 0.9)
    np.testing.assert_allclose(model._result.propagated[model._graph.nodes.node_of], F, atol=1e-8)


def test_copies_with_different_labels_keep_them():
    X = np.concatenate([np.zeros((4, 2)), np.ones((3, 2)) + np.arange(3)[:, None]])
    model = LabelPropagator().fit(X, [0, 0, 1, -1, 1, -1, -1])
    assert model.transduction_[:3].tolist() == [0, 0, 1]
    np.testing.assert_allclose(model.label_distributions_[3], [2 / 3, 1 / 3], atol=1e-6)


def test_a_graph_of_distances_in_a_pipeline():
    X, truth, y = blobs(150, deviation=1.5)
    features = LabelPropagator(10, estimator="none").fit(X, y)
    pipeline = make_pipeline(
        KNeighborsTransformer(n_neighbors=10, mode="distance"), LabelPropagator(metric="precomputed")
    ).fit(X, y)
    np.testing.assert_allclose(pipeline[-1].label_distributions_, features.label_distributions_, atol=1e-6)
    assert (pipeline.predict(X + 0.01) == truth).mean() > 0.98
    moved = pipeline[-1].familiarity(pipeline[0].transform(X + 1e4))
    assert moved.max() < 0.01
    huge = LabelPropagator(metric="precomputed").fit(pipeline[0].transform(X) * 1e200, y)
    np.testing.assert_allclose(huge.label_distributions_, features.label_distributions_, atol=1e-6)


def test_copies_in_a_graph_of_distances():
    X, _, y = blobs(60, labels=2)
    X[30:45] = X[int(np.flatnonzero(y < 0)[0])]
    y[30:45] = -1
    graph = kneighbors_graph(X, 5, mode="distance")
    model = LabelPropagator(metric="precomputed").fit(graph, y)
    assert np.isfinite(model.label_distributions_).all()
    assert (model.label_distributions_[30:45] == model.label_distributions_[30]).all()


def test_a_graph_of_affinities():
    X, truth, y = blobs(90, deviation=2.0)
    W = rbf_kernel(X, gamma=0.1)
    np.fill_diagonal(W, 0)
    model = LabelPropagator(metric="precomputed_affinity", alpha=0.9, class_prior=None, tol=1e-9).fit(
        sparse.csr_array(W), y
    )
    F = solve(W, np.eye(3)[y[y >= 0]], y >= 0, np.full((90, 3), 1 / 3), 0.9)
    np.testing.assert_allclose(model._result.propagated, F, atol=1e-6)
    assert (model.predict(rbf_kernel(X, gamma=0.1)) == truth).mean() > 0.8
    with pytest.raises(ValueError, match="must be symmetric"):
        LabelPropagator(metric="precomputed_affinity").fit(sparse.csr_array(np.triu(W)), y)


def test_what_is_no_graph_or_no_features_is_refused():
    X, _, y = blobs(60)
    graph = kneighbors_graph(X, 5, mode="distance")
    for wrong in (graph, graph.maximum(graph.T)):
        with pytest.raises(ValueError, match='metric="precomputed"'):
            LabelPropagator().fit(wrong, y)
    model = LabelPropagator(metric="precomputed")
    with pytest.raises(ValueError, match="must be square"):
        model.fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="not negative"):
        model.fit(graph * -1, y)
    with pytest.raises(ValueError, match="no features"):
        LabelPropagator(metric="precomputed", estimator="linear").fit(graph, y)
    with pytest.raises(ValueError, match="precomputed graph"):
        model.fit(graph, y).save_graph("anywhere")


def test_the_cosine_metric():
    rng = np.random.default_rng(3)
    truth = np.arange(120) % 3
    X = (np.eye(5)[truth] + 0.2 * rng.normal(size=(120, 5))) * rng.gamma(1, 5, (120, 1))
    y = labelled_first(truth, 2)
    model = LabelPropagator(metric="cosine").fit(X, y)
    assert (model.transduction_ == truth).mean() > 0.95
    np.testing.assert_allclose(model.predict_proba(X * 1e3), model.predict_proba(X), atol=1e-9)
    found = model._graph.neighbours.query_self()[1][:, :10]
    distances = cosine_distances(X) + 10 * np.eye(120)
    assert (np.sort(found, 1) == np.sort(np.argsort(distances, 1)[:, :10], 1)).mean() > 0.999


@pytest.mark.parametrize("estimator", [LogisticRegression(), RandomForestClassifier(20, random_state=0)])
def test_any_classifier_can_be_the_prior_model(estimator):
    X, truth, y = blobs(deviation=2.0, labels=3)
    model = LabelPropagator(estimator=estimator).fit(X, y)
    assert (model.transduction_ == truth).mean() > 0.9
    assert not hasattr(estimator, "classes_"), "it is cloned"
    assert model.get_params()["estimator"] is estimator
    with pytest.raises(ValueError, match="'estimator' parameter"):
        LabelPropagator(estimator=KFold()).fit(X, y)


def test_a_class_balance_by_name():
    X, _, y = blobs(deviation=3.0)
    names = np.array(["a", "b", "c"])
    labels = np.where(y >= 0, names[y], None)
    one = LabelPropagator(class_prior=[1, 2, 3]).fit(X, y).label_distributions_
    other = LabelPropagator(class_prior={"c": 3, "a": 1, "b": 2}).fit(X, labels).label_distributions_
    np.testing.assert_allclose(one, other)
    with pytest.raises(ValueError, match="one entry for each class; these differ: c"):
        LabelPropagator(class_prior={"a": 1, "b": 2}).fit(X, labels)
    assert np.isfinite(LabelPropagator(class_prior=[1e308] * 3).fit(X, y).label_distributions_).all()


def test_threads_are_those_of_joblib():
    X, _, y = blobs()
    model = LabelPropagator().fit(X, y)
    assert model._transduction.workers == 1
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert LabelPropagator().fit(X, y)._transduction.workers == 2
    stream = io.BytesIO()
    joblib.dump(model, stream)
    stream.seek(0)
    assert (joblib.load(stream).predict_proba(X) == model.predict_proba(X)).all()
    assert (model.fit_predict(X, y) == model.transduction_).all()


def test_new_points_far_away_are_not_familiar():
    X, _, y = blobs(300, labels=3)
    for dtype in (np.float32, np.float64):
        model = LabelPropagator().fit(X.astype(dtype), y)
        assert model.familiarity(X[y < 0] + 0.01).mean() > 0.8
        for far in (1e6, 2e19, 1e38):
            new = np.full((2, 4), far, dtype)
            assert model.familiarity(new).max() < 1e-3
            assert np.isfinite(model.predict_proba(new)).all()
    assert np.isfinite(model.predict_proba(np.full((1, 4), 1e300))).all()
