"""The engine behind a session: guesses, near-duplicates, labels that are contradicted."""

import numpy as np
import pytest

from tpn import LabelPropagator
from tpn.labelling.session_checks import check_labels
from tpn.labelling.session_engine import Engine, copy_labels
from tpn.labelling.session_neighbours import find_neighbours, near_duplicates, nearest_labelled
from tpn.semi_supervised.feature_scaling import FeatureScaler


def groups_of_points(classes=3, members=30, dimensions=40, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(classes), members)
    return FeatureScaler().fit_transform(
        rng.normal(0, 1, (classes, dimensions))[truth] + rng.normal(0, 0.4, (len(truth), dimensions))
    ), truth


def some_labels(truth, number):
    codes = np.full(len(truth), -1)
    for class_ in np.unique(truth):
        codes[np.flatnonzero(truth == class_)[:number]] = class_
    return codes


def test_guesses_are_those_of_the_estimator():
    points, truth = groups_of_points()
    codes = some_labels(truth, 2)
    engine = Engine(points, {"n_jobs": 1})
    guesses = engine.guess(codes)
    model = LabelPropagator(n_jobs=1).fit(points, codes)
    order = np.argsort(-model.label_distributions_, axis=1)
    np.testing.assert_array_equal(guesses.best, order[:, :3])
    np.testing.assert_allclose(guesses.probability, np.sort(model.label_distributions_, axis=1)[:, ::-1])
    free = codes < 0
    expected = np.minimum(model.label_distributions_.max(1) * model.familiarity_, 0.9999)
    np.testing.assert_allclose(guesses.confidence[free], expected[free])
    assert (guesses.confidence[~free] == 1).all()
    assert (guesses.confidence[free] < 1).all()


def test_classes_come_and_go():
    points, truth = groups_of_points()
    engine = Engine(points, {"n_jobs": 1})
    assert engine.guess(np.full(90, -1)) is None
    assert engine.guess(np.where(np.arange(90) == 0, 5, -1)) is None, "one class says nothing yet"
    two = engine.guess(some_labels(np.where(truth == 2, -1, truth), 2) * 10 + (some_labels(truth, 2) < 0) * 0)
    assert two is not None
    three = engine.guess(some_labels(truth, 2))
    assert (three.best[:, 0] == truth).mean() > 0.95
    again = Engine(points, {"n_jobs": 1}).guess(some_labels(truth, 2))
    np.testing.assert_allclose(three.probability, again.probability, atol=2e-2)


def test_near_duplicates_share_a_label():
    points, _ = groups_of_points()
    rng = np.random.default_rng(1)
    copies = np.array([0, 1, 40])
    points = np.concatenate([points, points[copies] + rng.normal(0, 0.001, (3, 40))]).astype(np.float32)
    found = near_duplicates(*find_neighbours(points, 1), points.shape[1])
    assert [found[one] for one in copies] == found[90:].tolist()
    assert len(set(found[90:])) == 3
    assert (found[np.setdiff1d(np.arange(90), copies)] == -1).all()
    codes = np.full(93, -1)
    codes[[0, 50]] = 0, 1
    guesses = Engine(points, {"n_jobs": 1}, found).guess(codes)
    assert guesses.best[90, 0] == 0
    assert guesses.confidence[90] == 0.999
    assert not guesses.given[90]


def test_few_features_have_no_near_duplicates_but_copies():
    points = np.random.default_rng(0).normal(0, 1, (200, 3)).astype(np.float32)
    points[7] = points[3]
    found = near_duplicates(*find_neighbours(FeatureScaler().fit_transform(points), 1), 3)
    assert np.flatnonzero(found >= 0).tolist() == [3, 7]


def test_labels_of_copies_that_disagree_are_not_copied():
    groups = np.array([0, 0, 0, 1, 1, -1])
    assert copy_labels(np.array([2, -1, -1, 1, -1, -1]), groups).tolist() == [2, 2, 2, 1, 1, -1]
    assert copy_labels(np.array([2, 3, -1, -1, -1, -1]), groups).tolist() == [2, 3, -1, -1, -1, -1]


def test_a_wrong_label_is_contradicted():
    points, truth = groups_of_points()
    codes = some_labels(truth, 8)
    codes[2], codes[33] = 1, 2
    check = check_labels(Engine(points, {"n_jobs": 1}), codes)
    assert {(one.index, one.given, one.other) for one in check.contradictions} == {(2, 1, 0), (33, 2, 1)}
    assert all(one.probability > 0.6 for one in check.contradictions)
    assert (check.checked, check.right) == (24, 22)
    assert check.expected == pytest.approx(24, abs=4)


def test_too_few_labels_are_not_checked():
    points, truth = groups_of_points()
    assert check_labels(Engine(points, {"n_jobs": 1}), some_labels(truth, 2)).checked == 0


def test_the_labelled_images_that_are_nearest():
    points, _ = groups_of_points()
    labelled = np.array([1, 5, 31, 60, 61])
    expected = sorted(set(labelled) - {5}, key=lambda other: np.linalg.norm(points[other] - points[5]))
    assert nearest_labelled(points, labelled, 5, 3).tolist() == expected[:3]
