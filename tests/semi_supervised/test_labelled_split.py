"""Model selection where only some points have labels."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from tpn import LabelledSplit, LabelPropagator

from .test_label_propagator import blobs


def test_labels_are_hidden_and_unlabelled_points_never_tested_on():
    X, _, y = blobs(150, deviation=2.0, labels=10)
    labels = pd.Series(["abc"[label] if label >= 0 else None for label in y])
    for given_X, given_y in ((X, y), (X, labels), (pd.DataFrame(X), y), (sparse.csr_array(X), y)):
        split = LabelledSplit(4, random_state=0)
        tested = []
        for train, test in split.split(given_X, given_y):
            assert (y[test] >= 0).all()
            assert (np.sort(np.concatenate([train, test])) == np.arange(150)).all()
            tested += test.tolist()
        assert sorted(tested) == np.flatnonzero(y >= 0).tolist()
        twice_X, twice_y = split.with_twins(given_X, given_y)
        assert twice_X.shape == (180, 4)
        dense = twice_X.toarray() if sparse.issparse(twice_X) else np.asarray(twice_X)
        for train, test in split.split(twice_X, twice_y):
            assert len(train) == 150
            assert (np.sort(dense[train], 0) == np.sort(X, 0)).all(), "every point once, hidden ones as their twins"
            assert not set(train) & set(test)
            assert {tuple(row) for row in dense[test]} <= {tuple(row) for row in dense[train][-len(test) :]}


def test_a_search_over_partial_labels_finds_what_is_right():
    """Ordinary folds count -1 as the right answer."""
    X, truth, y = blobs(400, 4, 6, deviation=3.0, seed=5, labels=8)
    split = LabelledSplit(4, random_state=0)
    points, labels = split.with_twins(X, y)
    search = GridSearchCV(LabelPropagator(), {"alpha": [0.5, 0.9], "n_neighbors": [5, 10]}, cv=split, refit=False)
    search.fit(points, labels)
    right = (LabelPropagator(**search.best_params_).fit(X, y).transduction_ == truth)[y < 0].mean()
    assert abs(search.best_score_ - right) < 0.08
    assert cross_val_score(LabelPropagator(), X, y, cv=KFold(4, shuffle=True, random_state=0)).mean() < 0.2
    assert cross_val_score(LabelPropagator(), X, y, cv=LabelledSplit(4, random_state=0)).mean() > right - 0.1


def test_splits_that_make_no_sense():
    X, _, y = blobs()
    with pytest.raises(ValueError, match=r"fewer labelled points \(3\) than folds"):
        next(LabelledSplit(5).split(X, y))
    with pytest.raises(ValueError, match="'n_splits' parameter of LabelledSplit"):
        next(LabelledSplit(1).split(X, y))
    with pytest.raises(ValueError, match="not soft labels"):
        next(LabelledSplit(2).split(X, np.full((len(X), 3), 1 / 3)))
