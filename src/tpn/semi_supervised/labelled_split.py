"""Cross-validation where only some points have labels."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import indexable
from sklearn.utils.validation import check_random_state

from tpn.semi_supervised.label_encoding import encode
from tpn.semi_supervised.parameters import check_integer


class LabelledSplit:
    """Cross-validation for semi-supervised estimators: only labelled points are tested on, and all others trained on.

    Ordinary splitters put unlabelled points into the test set, where -1 counts as the right answer. Here the labelled
    points are split into folds, each with the same classes as far as there are enough. One fold after the other is
    tested on; the other folds and all unlabelled points are trained on.

    A splitter chooses points, not labels, so a point that is tested on cannot also be trained on without its label. To
    have that too, as in transduction, append an unlabelled twin of each labelled point by `with_twins`: a twin is
    trained on while its original is tested on, so every point takes part in every training exactly once.

    Parameters
    ----------
    n_splits : int, default=5
        The number of folds, at least 2 and at most the number of labelled points.
    shuffle : bool, default=True
        Choose the folds at random.
    random_state : int, RandomState instance or None, default=None
        The random generator, or its seed, that draws the folds; an integer gives the same folds each time.

    See Also
    --------
    sklearn.model_selection.StratifiedKFold : the same where all points have labels.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from tpn import LabelledSplit, LabelPropagator
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(300) % 3
    >>> X = rng.normal(size=(300, 5)) + 4 * np.eye(5)[truth]
    >>> y = np.where(np.arange(300) < 30, truth, -1)
    >>> split = LabelledSplit(random_state=0)
    >>> search = GridSearchCV(LabelPropagator(), {"alpha": [0.5, 0.9]}, cv=split, refit=False)
    >>> search = search.fit(*split.with_twins(X, y))
    >>> bool(search.best_score_ > 0.9)
    True
    >>> model = LabelPropagator(**search.best_params_).fit(X, y)
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"LabelledSplit(n_splits={self.n_splits}, shuffle={self.shuffle}, random_state={self.random_state})"

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X : object
            Ignored.
        y : object
            Ignored.
        groups : object
            Ignored.

        Returns
        -------
        n_splits : int
        """
        return self.n_splits

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generate the indices to train and to test on.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points, with or without twins.
        y : array-like of shape (n_samples,)
            The labels; -1, NaN, None or pandas' NA for unlabelled points.
        groups : object
            Ignored.

        Yields
        ------
        train : ndarray of shape (n_train,)
            All unlabelled points but twins, the labelled points of the other folds, and the twins of this fold.
        test : ndarray of shape (n_test,)
            The labelled points of this fold.
        """
        check_integer("n_splits", self.n_splits, 2, type(self).__name__)
        X, y = indexable(X, y)
        number = X.shape[0] if hasattr(X, "shape") else len(X)
        labels = encode(y, number)
        labelled = np.unique(labels.points)
        if len(labelled) != len(labels.points):
            raise ValueError("LabelledSplit needs labels of one class each, not soft labels.")
        if len(labelled) < self.n_splits:
            raise ValueError(
                f"There are fewer labelled points ({len(labelled)}) than folds (n_splits={self.n_splits})."
            )
        twins = number - len(labelled) if _has_twins(X, labelled, number) else None
        state = check_random_state(self.random_state) if self.shuffle else None
        enough = np.bincount(labels.codes).min() >= self.n_splits
        folds = (StratifiedKFold if enough else KFold)(self.n_splits, shuffle=self.shuffle, random_state=state)
        for _, hidden in folds.split(labelled, labels.codes):
            train = np.ones(number, bool)
            train[labelled[hidden]] = False
            if twins is not None:
                train[twins:] = False
                train[twins + hidden] = True
            yield np.flatnonzero(train), labelled[hidden]

    def with_twins(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Append an unlabelled copy of each labelled point.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The points.
        y : array-like of shape (n_samples,)
            The labels; -1, NaN, None or pandas' NA for unlabelled points.

        Returns
        -------
        X_new : ndarray, sparse array or data frame of shape (n_samples + n_labelled, n_features)
        y_new : ndarray of shape (n_samples + n_labelled,)
            Unlabelled points are -1 if the labels are numbers, and None if they are text.
        """
        number = X.shape[0] if hasattr(X, "shape") else len(X)
        labels = encode(y, number)
        labelled = labels.points
        missing = None if labels.classes.dtype.kind in "US" else -1
        y_new = np.full(number + len(labelled), missing, object if missing is None else labels.classes.dtype)
        y_new[labelled] = labels.classes[labels.codes]
        if hasattr(X, "iloc"):
            import pandas

            return pandas.concat([X, X.iloc[labelled]], ignore_index=True), y_new
        if sparse.issparse(X):
            return sparse.vstack([X, X.tocsr()[labelled]]).tocsr(), y_new
        X = np.asarray(X)
        return np.concatenate([X, X[labelled]]), y_new


def _has_twins(X: Any, labelled: np.ndarray, number: int) -> bool:
    """Return whether the last points are unlabelled copies of the labelled ones, in their order."""
    first = number - len(labelled)
    if labelled[-1] >= first:
        return False
    if hasattr(X, "iloc"):
        return bool(X.iloc[first:].reset_index(drop=True).equals(X.iloc[labelled].reset_index(drop=True)))
    if sparse.issparse(X):
        rows = X.tocsr()
        return bool((rows[first:] != rows[labelled]).nnz == 0)
    rows = np.asarray(X)
    return bool((rows[first:] == rows[labelled]).all())
