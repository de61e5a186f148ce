"""The learned graph: neighbours chosen anew by a metric in which classes are compact."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from tpn import LabelPropagator
from tpn.semi_supervised.learned_graph import learn_graph, learned_metric
from tpn.semi_supervised.prior_models import DiscriminantModel


def directions(n_points=400, n_classes=4, seed=0, labels=3):
    """Directions that vary within classes mostly where class means do not differ; their classes, and a few labels."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n_points) % n_classes
    means = np.zeros((n_classes, 24))
    means[:, :n_classes] = 3 * np.eye(n_classes)
    deviations = np.concatenate([np.full(n_classes, 0.9), np.full(8, 2.5), np.full(16 - n_classes, 0.3)])
    X = normalize(means[truth] + deviations * rng.normal(size=(n_points, 24)))
    y = np.full(n_points, -1)
    for class_ in range(n_classes):
        y[rng.choice(np.flatnonzero(truth == class_), labels, replace=False)] = class_
    return X, truth, y


def right(model, truth, y):
    return (model.transduction_ == truth)[y < 0].mean()


def test_by_the_learned_metric_classes_are_round_and_their_means_twice_as_far():
    X, truth, _ = directions()
    model = DiscriminantModel()
    model.means = np.stack([X[truth == class_].mean(0) for class_ in range(4)])
    model.covariance = LinearDiscriminantAnalysis(store_covariance=True).fit(X, truth).covariance_ + 1e-6 * np.eye(24)
    metric = learned_metric(model)
    within = metric.T @ model.covariance @ metric
    variances = np.linalg.eigvalsh(within)
    np.testing.assert_allclose(variances, [1] * 21 + [4] * 3, rtol=1e-6)  # four means span three directions
    between = (model.means[:1] - model.means[1:]) @ metric
    mahalanobis = (model.means[:1] - model.means[1:]) @ np.linalg.inv(model.covariance)
    expected = np.vecdot(mahalanobis, model.means[:1] - model.means[1:])
    np.testing.assert_allclose(np.vecdot(between, between), 4 * expected, rtol=1e-6)


def test_neighbours_are_the_nearest_candidates_by_angle():
    rng = np.random.default_rng(0)
    X, metric = rng.normal(size=(60, 5)), rng.normal(size=(5, 5))
    candidates = np.stack([rng.permutation(np.delete(np.arange(60), place))[:12] for place in range(60)])
    learned = learn_graph(lambda part: X[part], candidates, 4, None, metric, 1)
    Z = normalize(X @ metric)
    squares = ((Z[:, None] - Z[candidates]) ** 2).sum(-1)
    nearest = np.argsort(squares, 1)[:, :4]
    scales = np.sqrt(np.take_along_axis(squares, nearest, 1)[:, 3])
    W = np.zeros((60, 60))
    for place in range(60):
        for column in nearest[place]:
            other = candidates[place, column]
            W[place, other] = W[other, place] = np.exp(-squares[place, column] / (scales[place] * scales[other]))
    root = np.sqrt(W.sum(1))
    np.testing.assert_allclose(learned.scales, scales, rtol=1e-9)
    np.testing.assert_allclose(learned.graph.S.toarray(), W / root / root[:, None], rtol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_more_accurate_where_variance_within_classes_hides_them(seed):
    X, truth, y = directions(seed=seed)
    learned, fixed = LabelPropagator().fit(X, y), LabelPropagator(learn_graph=False).fit(X, y)
    assert right(learned, truth, y) > right(fixed, truth, y) + 0.02
    assert learned._result.learned is not None
    assert fixed._result.learned is None


def test_only_directions_are_compared_by_angle_unless_asked():
    X, _, y = directions()
    assert LabelPropagator().fit(3 * X, y)._graph.candidates is None
    assert LabelPropagator(metric="cosine").fit(3 * X, y)._graph.candidates is not None
    assert LabelPropagator(learn_graph=True).fit(3 * X, y)._graph.candidates is not None
    assert LabelPropagator(estimator="linear").fit(X, y)._graph.candidates is None
    assert LabelPropagator(rounds=0).fit(X, y)._graph.candidates is None
    assert LabelPropagator(length_scale=0.5).fit(X, y)._graph.candidates is None


def test_an_update_ends_as_a_new_fit_and_classes_come_and_go():
    X, truth, y = directions(n_classes=5)
    model = LabelPropagator(tol=1e-8).fit(X, np.where(y == 4, -1, y))
    more = y.copy()
    more[np.flatnonzero((y < 0) & (truth == 2))[:2]] = 2
    for labels in (y, more, np.where(y == 0, -1, y)):
        again = LabelPropagator(tol=1e-8).fit(X, labels)
        model.update(labels)
        np.testing.assert_allclose(model.label_distributions_, again.label_distributions_, atol=1e-5)
        np.testing.assert_allclose(model.familiarity_, again.familiarity_, atol=0.05)
        assert (model.transduction_ == again.transduction_).all()


def test_the_order_of_points_does_not_matter():
    X, _, y = directions()
    order = np.random.default_rng(1).permutation(len(X))
    one, other = LabelPropagator(tol=1e-9).fit(X, y), LabelPropagator(tol=1e-9).fit(X[order], y[order])
    np.testing.assert_allclose(other.label_distributions_, one.label_distributions_[order], atol=1e-6)


def test_new_points_are_connected_by_the_learned_metric():
    X, truth, y = directions(800)
    model = LabelPropagator().fit(X[:400], y[:400])
    assert (model.predict(X[400:]) == truth[400:]).mean() > right(model, truth[:400], y[:400]) - 0.05
    np.testing.assert_allclose(model.predict_proba(X[400:]).sum(1), 1)
    fixed = LabelPropagator(learn_graph=False).fit(X[:400], y[:400])
    assert (model.predict(X[400:]) == truth[400:]).mean() > (fixed.predict(X[400:]) == truth[400:]).mean()


def test_points_without_weight_are_labelled_as_new_points():
    X, _, y = directions()
    y[5] = -1
    weight = np.ones(len(X))
    weight[5] = 0
    model = LabelPropagator().fit(X, y, weight)
    assert model._result.learned is not None
    np.testing.assert_allclose(model.label_distributions_[5], model.predict_proba(X[5:6])[0])


@pytest.mark.parametrize("per_class", [30, 100])
def test_confidence_is_about_as_high_as_often_it_is_right(per_class):
    """Of few points the metric follows the labels that it was learned from: the graph confirms them."""
    X, truth, y = directions(4 * per_class, labels=5)
    model = LabelPropagator().fit(X, y)
    confidence = (model.label_distributions_.max(1) * model.familiarity_)[y < 0]
    assert abs(confidence.mean() - right(model, truth, y)) < 0.12


def test_candidates_are_saved_with_the_graph(tmp_path):
    X, _, y = directions()
    model = LabelPropagator(tol=1e-8).fit(X, y)
    model.save_graph(tmp_path)
    again = LabelPropagator.from_graph(tmp_path, tol=1e-8).update(y)
    np.testing.assert_allclose(again.label_distributions_, model.label_distributions_, atol=1e-6)
    np.testing.assert_allclose(again.predict_proba(X[:7]), model.predict_proba(X[:7]), atol=1e-6)


def test_a_graph_saved_before_there_were_candidates_is_not_learned(tmp_path):
    X, _, y = directions()
    LabelPropagator(learn_graph=False).fit(X, y).save_graph(tmp_path)
    description = json.loads((tmp_path / "graph.json").read_text())
    assert "candidates" not in description["arrays"]
    (tmp_path / "graph.json").write_text(json.dumps(description | {"format": 1}))
    model = LabelPropagator.from_graph(tmp_path).update(y)
    assert model._result.learned is None


@pytest.mark.parametrize("damage", [lambda found: found + 10**6, lambda found: found[:-1], lambda found: found[0]])
def test_candidates_that_are_not_nodes_are_refused(tmp_path, damage):
    X, _, y = directions()
    model = LabelPropagator().fit(X, y)
    model._graph.candidates = damage(model._graph.candidates)
    model.save_graph(tmp_path)
    with pytest.raises(Exception, match="cannot be used"):
        LabelPropagator.from_graph(tmp_path)


@pytest.mark.parametrize(
    "settings", [{"estimator": "linear"}, {"estimator": LogisticRegression()}, {"rounds": 0}, {"length_scale": 1.0}]
)
def test_a_graph_that_cannot_be_learned_is_refused_when_asked_for(settings):
    X, _, y = directions(100)
    with pytest.raises(ValueError, match="learn_graph=True needs discriminant analysis"):
        LabelPropagator(learn_graph=True, **settings).fit(X, y)


def test_sparse_points_and_graphs_cannot_be_learned():
    X, _, y = directions(100)
    with pytest.raises(ValueError, match="learn_graph=True needs"):
        LabelPropagator(learn_graph=True).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="'learn_graph' parameter"):
        LabelPropagator(learn_graph=True, metric="precomputed").fit(sparse.csr_array((100, 100)), y)
    with pytest.raises(ValueError, match="'learn_graph' parameter"):
        LabelPropagator().set_params(learn_graph="never").fit(X, y)


@settings(max_examples=60)
@given(
    st.integers(0, 10**6), st.sampled_from([1, 2, 3, 8]), st.sampled_from([3, 9, 31, 60]), st.sampled_from([1, 3, 10])
)
def test_directions_of_any_kind_give_probabilities(seed, n_features, n_points, n_neighbors):
    """Among them: copies, nearly copies, all the same, directions that vary in one dimension only."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_points, n_features))
    X = [X, X[[0] * n_points], X[rng.integers(0, n_points // 3, n_points)], X * ([1] + [1e-9] * (n_features - 1))][
        seed % 4
    ]
    X = normalize(X + 1e-8 * (seed % 3) * rng.normal(size=X.shape)).astype([np.float32, np.float64][seed % 2])
    y = np.where(rng.random(n_points) < 0.4, rng.integers(0, 3, n_points), -1)
    y[:2] = 0, 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LabelPropagator(n_neighbors).fit(X, y)
        new = model.predict_proba(X[:3] * X.dtype.type(1e6))
    for probabilities in (model.label_distributions_, new):
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-4)
    assert ((model.familiarity_ >= 0) & (model.familiarity_ <= 1)).all()
