"""Feature scaling before propagation: directions of fewer dimensions, and numbers that can be squared."""

from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted, validate_data

from tpn.semi_supervised.neighbours import Points
from tpn.semi_supervised.parameters import check_choice, check_integer, check_number

MOST_DIMENSIONS = 256
BLOCK = 8192
SAFE_EXPONENT = 40
"""Numbers between 2**-40 and 2**40 are squared as they are."""


class FeatureScaler(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Take square roots of features, centre them, scale them to length one, and keep their principal components.

    After the projection they are scaled to length one again. The nearest neighbours of such features are those of the
    highest cosine similarity. Fewer dimensions save time, and cost no accuracy. `tpn label` does this to the features
    of images.

    Parameters
    ----------
    n_components : int, default=256
        The number of principal components to keep. With at most as many features or samples, all features are kept.
    power : "auto" or float, default="auto"
        The power to which features are raised; their sign is kept. "auto" is 0.5 if no feature in `fit` is negative,
        as after a ReLU, which leaves few large features among many small ones; and 1 otherwise.

    Attributes
    ----------
    power_ : float
        The power of the features.
    mean_ : ndarray of shape (n_features,)
        The mean of the features to that power, in range.
    components_ : ndarray of shape (n_components, n_features) or None
        The principal components of the directions; None if all features are kept.
    n_features_in_ : int
        The number of features of `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the features of `fit`, if they were given as a data frame with names that are text.

    Examples
    --------
    >>> import numpy as np
    >>> from tpn import FeatureScaler
    >>> X = np.random.default_rng(0).normal(size=(500, 300))
    >>> FeatureScaler(n_components=64).fit_transform(X).shape
    (500, 64)
    """

    def __init__(self, n_components: int = MOST_DIMENSIONS, *, power: Literal["auto"] | float = "auto") -> None:
        self.n_components = n_components
        self.power = power

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> "FeatureScaler":
        """Compute the mean and the principal components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features of any scale.
        y : None
            Ignored.

        Returns
        -------
        self : FeatureScaler
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Compute the mean and the principal components, and scale the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features of any scale.
        y : None
            Ignored.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components) and dtype float32
        """
        check_integer("n_components", self.n_components, 1, type(self).__name__)
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        if isinstance(self.power, str):
            check_choice("power", self.power, ("auto",), type(self).__name__)
            self.power_ = 0.5 if X.min() >= 0 else 1.0
        else:
            check_number("power", self.power, 0, owner=type(self).__name__)
            self.power_ = float(self.power)
        self._range = SafeRange(X)
        features = self._powers(X)
        self.mean_ = features.mean(0, dtype=np.float64).astype(np.float32)
        directions = _unit(features - self.mean_)
        self.components_ = None
        if min(directions.shape) > self.n_components:
            _, vectors = np.linalg.eigh(_covariance(directions))
            self.components_ = np.ascontiguousarray(vectors[:, -self.n_components :].T.astype(np.float32))
        self._n_features_out = X.shape[1] if self.components_ is None else self.n_components
        return self._project(directions)

    def transform(self, X: Any) -> np.ndarray:
        """Scale features with the mean and the components of `fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components) and dtype float32
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return self._project(_unit(self._powers(X) - self.mean_))

    def _powers(self, X: np.ndarray) -> np.ndarray:
        features = self._range(X)
        if self.power_ == 1:
            return features
        return np.asarray(np.sign(features) * np.abs(features) ** features.dtype.type(self.power_))

    def _project(self, directions: np.ndarray) -> np.ndarray:
        return directions if self.components_ is None else _unit(directions @ self.components_.T)


class SafeRange:
    """Brings points into a range in which squares neither overflow nor vanish, by a power of two.

    New points that lie further out than any of `fit` by a factor of at least 32 are moved towards zero until they do
    not: they keep their direction.
    """

    def __init__(self, points: Points) -> None:
        largest = max(float(points.max()), -float(points.min())) if points.shape[0] and points.shape[1] else 0.0
        exponent = int(np.frexp(largest)[1])
        most = np.finfo(points.dtype).maxexp - 2
        self.factor = 1.0 if abs(exponent) < SAFE_EXPONENT else 2.0 ** -min(max(exponent, -most), most)

    @classmethod
    def with_factor(cls, factor: float) -> "SafeRange":
        """Return a range whose factor is known."""
        found = cls(np.zeros((0, 0)))
        found.factor = factor
        return found

    def __call__(self, points: Points) -> Points:
        kind = points.dtype.type
        limit = 2.0 ** (SAFE_EXPONENT + 5)
        if max(float(points.max()), -float(points.min())) <= limit / self.factor:
            return points if self.factor == 1 else points * kind(self.factor)
        rows = abs(points).max(1)
        rows = (rows.toarray() if sparse.issparse(rows) else rows).ravel().astype(np.float64)
        far = rows > limit / self.factor
        near = np.where(far, 1 / np.where(rows > 0, rows, 1), self.factor)
        moved = _times(points, near.astype(points.dtype))
        return _times(moved, np.where(far, limit, 1).astype(points.dtype))


def unit_length(points: Points) -> Points:
    """Return points scaled to length one; those that are zero stay so."""
    return normalize(points) if sparse.issparse(points) else _unit(points, points.dtype)


def _times(points: Points, factors: np.ndarray) -> Points:
    return (
        sparse.csr_array(sparse.diags_array(factors) @ points) if sparse.issparse(points) else points * factors[:, None]
    )


def _covariance(directions: np.ndarray) -> np.ndarray:
    """Return the covariance of the dimensions (unnormalised), summed in double precision block by block."""
    mean = directions.mean(0, dtype=np.float64).astype(np.float32)
    total = np.zeros((directions.shape[1],) * 2)
    for start in range(0, len(directions), BLOCK):
        part = directions[start : start + BLOCK] - mean
        total += part.T @ part
    return total


def _unit(vectors: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype)
