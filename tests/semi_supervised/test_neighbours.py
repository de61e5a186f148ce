"""Neighbours: exact ones against all differences written out, approximate ones by how many of those they find."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from tpn.semi_supervised import kmeans_forest
from tpn.semi_supervised.kmeans_forest import LARGEST_LEAF, SMALLEST_LEAF, KMeansForest
from tpn.semi_supervised.neighbours import Neighbours
from tpn.semi_supervised.selection import smallest
from tpn.semi_supervised.threads import threads


def brute_force(X, k):
    """Squared distances and indices of the k nearest others, all differences written out in double precision."""
    X = np.asarray(X, np.float64)
    squares = np.stack([((X - x) ** 2).sum(1) for x in X])
    np.fill_diagonal(squares, np.inf)
    found = np.argsort(squares, 1, kind="stable")[:, :k]
    return np.take_along_axis(squares, found, 1), found


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 5), st.booleans())
def test_the_smallest_values_of_each_row(width, k, rows, ties):
    values = np.random.default_rng(width).normal(size=(rows, width)).astype(np.float32)
    values = np.round(values, 1) if ties else values
    k = min(k, width)
    places = smallest(values, k)
    assert all(len(set(row)) == k for row in places.tolist()), "none of them twice"
    found = np.sort(np.take_along_axis(values, places, 1), 1)
    assert (found == np.sort(values, 1)[:, :k]).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_exact_neighbours_are_those_of_brute_force(dtype, offset):
    X = (np.random.default_rng(5).normal(size=(300, 8)) + offset).astype(dtype)
    squares, found = Neighbours(X, 10).query_self()
    expected, indices = brute_force(X, 10)
    assert (found == indices).all()
    assert squares.dtype == dtype
    np.testing.assert_allclose(squares, expected, rtol=1e-5 if dtype == np.float32 else 1e-9)


def test_more_points_than_are_compared_at_once():
    X = np.random.default_rng(9).normal(size=(9_000, 3))
    squares, found = Neighbours(X, 5).query(X[:50])
    distances, expected = NearestNeighbors(n_neighbors=5).fit(X).kneighbors(X[:50])
    assert (found == expected).all()
    np.testing.assert_allclose(squares, distances**2, atol=1e-12)


@pytest.mark.parametrize("kind", ["exact", "approximate"])
def test_points_that_are_nearly_alike_are_told_apart(kind):
    """In single precision, and far from zero, a point would be as near as its twin."""
    rng = np.random.default_rng(13)
    X = np.repeat(rng.normal(size=(200, 256)), 3, axis=0) + 100
    X += 1e-6 * rng.normal(size=X.shape)
    assert (Neighbours(X, 2, kind).query_self()[1] == brute_force(X, 2)[1]).all()


def test_dense_clusters_in_many_dimensions():
    """Each a thousand times smaller than the whole."""
    rng = np.random.default_rng(14)
    X = np.repeat(rng.normal(size=(8, 256)), 100, axis=0)
    X = (X + 1e-3 * rng.normal(size=X.shape)).astype(np.float32)
    assert (Neighbours(X, 10).query_self()[1] == brute_force(X, 10)[1]).mean() > 0.999


@pytest.mark.parametrize("kind", ["exact", "approximate", "sparse"])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_one_query_at_a_time_finds_what_many_at_once_find(kind, offset):
    rng = np.random.default_rng(6)
    X = (rng.normal(size=(4_000, 5)) + offset).astype(np.float32)
    queries = (rng.normal(size=(60, 5)) + offset).astype(np.float32)
    if kind == "sparse":
        X, queries = sparse.csr_array(X), sparse.csr_array(queries)
    neighbours = Neighbours(X, 7, "exact" if kind == "sparse" else kind)
    squares, found = neighbours.query(queries)
    each = [neighbours.query(queries[index : index + 1]) for index in range(60)]
    assert (found == np.concatenate([one[1] for one in each])).all()
    assert (squares == np.concatenate([one[0] for one in each])).all()


@pytest.mark.parametrize("branches", [128, 4])
def test_an_approximate_search_finds_nearly_all(branches, monkeypatch):
    monkeypatch.setattr(kmeans_forest, "BRANCHES", branches)  # with few of them, clusters are split again
    X = np.random.default_rng(7).normal(size=(10_500, 6)).astype(np.float32)
    neighbours = Neighbours(X, 10)
    assert not neighbours.exact
    asked = np.arange(0, 10_500, 21)
    squares, found = neighbours.query(X[asked])
    distances, expected = NearestNeighbors(n_neighbors=10).fit(X).kneighbors(X[asked])
    recall = np.mean([len(np.intersect1d(*pair)) / 10 for pair in zip(found, expected, strict=True)])
    assert recall > 0.95
    assert (squares[:, 0] == 0).all(), "each finds itself"
    assert (np.sqrt(squares) >= distances * (1 - 1e-4)).all(), "nothing is nearer than the nearest"
    of_all = neighbours.query_self()
    assert (of_all[1][asked, :9] == found[:, 1:]).mean() > 0.999, "whether they are asked for as points or as queries"
    np.testing.assert_allclose(of_all[0][asked, :9], squares[:, 1:], rtol=1e-6)


def test_threads_change_nothing():
    X = np.random.default_rng(8).normal(size=(6_000, 4)).astype(np.float32)
    one, three = (Neighbours(X, 5, "approximate", jobs).query_self() for jobs in (1, 3))
    assert all((left == right).all() for left, right in zip(one, three, strict=True))


@pytest.mark.parametrize("number", [1, 40, 700, 5_000, 30_000])
def test_leaves_hold_all_points_and_are_neither_large_nor_small(number):
    X = np.random.default_rng(number).normal(size=(number, 3)).astype(np.float32) ** 3
    found = KMeansForest(X, min(6, number), 1)
    for root, leaves in found._trees:
        assert (np.sort(np.concatenate(leaves)) == np.arange(number)).all()
        assert root.leaves == len(leaves)
        assert max(map(len, leaves)) <= LARGEST_LEAF
        assert min(map(len, leaves)) >= min(SMALLEST_LEAF, number)
        places = np.empty(number, int)
        places[np.concatenate(leaves)] = np.repeat(np.arange(len(leaves)), list(map(len, leaves)))
        assert (root.leaf_of(X - X[:: max(1, number // 12_800)].mean(0)) == places).mean() > 0.999


def test_more_neighbours_than_a_leaf_would_hold():
    X = np.random.default_rng(10).normal(size=(5_000, 3))
    squares, found = Neighbours(X, 1_500, "approximate").query_self()
    assert found.shape == (5_000, 1_500)
    assert all(len(set(row)) == 1_500 for row in found[::500].tolist())
    assert (np.diff(squares, axis=1) >= 0).all()
    assert Neighbours(X[:100], 1_500, "approximate").query_self()[1].shape == (100, 99)


def test_thousands_of_copies():
    """Of one point, and of one among others."""
    rng = np.random.default_rng(11)
    squares, found = Neighbours(np.ones((9_000, 3), np.float32), 5, "approximate").query_self()
    assert (squares == 0).all()
    X = np.concatenate([np.ones((6_000, 3)), rng.normal(size=(600, 3))])
    neighbours = Neighbours(X, 5, "approximate")
    squares, found = neighbours.query_self()
    assert (found != np.arange(len(X))[:, None]).all(), "none is its own neighbour"
    assert (squares[:6_000] == 0).all()
    expected = brute_force(X[6_000:], 5)[1] + 6_000
    near = np.square(X[6_000:] - 1).sum(1) < 1  # to these the copies may be nearest
    assert (found[6_000:][~near] == expected[~near]).mean() > 0.95
    assert (neighbours.query(np.ones((1, 3)))[0] == 0).all()


@pytest.mark.parametrize("unit", [1e-30, 1e-12, 1e12, 1e30])
def test_any_unit_will_do(unit):
    X = np.random.default_rng(12).normal(size=(3_000, 4))
    expected = Neighbours(X, 5, "approximate").query_self()[1]
    assert (Neighbours(X * unit, 5, "approximate").query_self()[1] == expected).mean() > 0.99


def test_far_away_queries_find_something():
    X = np.random.default_rng(15).normal(size=(3_000, 4)).astype(np.float32)
    squares, found = Neighbours(X, 5, "approximate").query(np.full((2, 4), 1e15, np.float32))
    assert ((found >= 0) & (found < 3_000)).all()
    assert np.isfinite(squares).all()


@pytest.mark.parametrize("kind", ["exact", "approximate"])
def test_they_can_be_kept_in_a_file(kind):
    X = np.random.default_rng(16).normal(size=(3_000, 4))
    neighbours = Neighbours(X, 5, kind)
    again = pickle.loads(pickle.dumps(neighbours))
    assert (again.query(X[:20])[1] == neighbours.query(X[:20])[1]).all()


def test_an_error_in_a_thread_is_raised_and_stops_the_others():
    done = []

    def fail(number):
        done.append(number)
        if number == 3:
            raise IndexError("the third")
        return number

    with threads(3) as run, pytest.raises(IndexError, match="the third"):
        run(fail, range(10_000))
    assert len(done) < 10_000
    with threads(3) as run:
        assert list(run(lambda left, right: left + right, range(50), range(50))) == list(range(0, 100, 2))
