"""What to label next."""

import numpy as np
import pytest
from scipy import sparse

from tpn.labelling import suggestions
from tpn.labelling.session_engine import Engine
from tpn.labelling.suggestions import suggest, suggest_amid_doubt


def doubtful_groups():
    """Three far groups of 20: one sure, one doubtful, one very doubtful."""
    points = np.repeat(np.eye(3) * 10, 20, axis=0) + np.random.default_rng(0).normal(0, 0.1, (60, 3))
    doubt = np.repeat([0.99, 0.7, 0.5], 20)
    return points, np.stack([doubt, 1 - doubt], 1)


def test_the_most_doubtful_groups_come_first_one_of_each():
    points, probabilities = doubtful_groups()
    chosen = suggest(points, probabilities, np.ones(60, bool), 3)
    assert (chosen // 20).tolist() == [2, 1, 0]
    middle = points[40:].mean(0)
    distances = np.linalg.norm(points[40:] - middle, axis=1)
    assert chosen[0] - 40 == distances.argmin(), "the one in the middle of its group"


@pytest.mark.parametrize("number", [0, 1, 5, 40, 1000])
def test_suggestions_are_distinct_and_without_a_label(number):
    points, probabilities = doubtful_groups()
    free = np.arange(60) % 3 > 0
    chosen = suggest(points, probabilities, free, number)
    assert len(chosen) == len(set(chosen)) == min(number, 40)
    assert free[chosen].all()
    assert len(suggest(points, probabilities, np.zeros(60, bool), number)) == 0


def test_copies_are_suggested_only_when_nothing_else_is_left():
    points = np.repeat(np.arange(4.0)[:, None], 10, axis=0)
    chosen = suggest(points, np.full((40, 2), 0.5), np.ones(40, bool), 6)
    assert len(set(chosen)) == 6
    assert sorted(chosen[:4] // 10) == [0, 1, 2, 3]


def test_more_suggestions_than_are_looked_at(monkeypatch):
    monkeypatch.setattr(suggestions, "MOST_POINTS", 15)
    points, probabilities = doubtful_groups()
    chosen = suggest(points, probabilities, np.ones(60, bool), 30)
    assert len(chosen) == len(set(chosen)) == 15
    assert (chosen >= 40).all(), "the most doubtful"


def test_a_class_without_a_label_is_found_next():
    """Its images are guessed to be of another class, perhaps with a wide margin, but they are unfamiliar."""
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(4), 15)
    points = rng.normal(0, 1, (4, 32))[truth] + rng.normal(0, 0.3, (60, 32))
    engine = Engine(points.astype(np.float32), {"n_jobs": 1})
    codes = np.full(60, -1)
    codes[[0, 1, 15, 16, 30, 31]] = [0, 0, 1, 1, 2, 2]
    guesses = engine.guess(codes)
    assert guesses is not None
    chosen = engine.suggest(guesses, codes < 0, 5)
    assert truth[chosen[0]] == 3
    assert len(set(chosen.tolist())) == 5
    assert (codes[chosen] < 0).all()


def test_suggestions_on_a_graph_are_not_neighbours_of_each_other():
    chain = sparse.csr_array(sparse.diags_array([np.full(29, 0.5), np.full(29, 0.5)], offsets=[-1, 1], shape=(30, 30)))
    chosen = suggest_amid_doubt(np.ones(30), np.ones(30, bool), chain, 8)
    assert np.abs(chosen[:, None] - chosen[None] + 99 * np.eye(8)).min() >= 2
    free = np.arange(30) < 3
    assert sorted(suggest_amid_doubt(np.ones(30), free, chain, 8).tolist()) == [0, 1, 2]
    assert not len(suggest_amid_doubt(np.ones(30), np.zeros(30, bool), chain, 8))
