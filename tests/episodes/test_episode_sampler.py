import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import noise, refuses_setting, sampler
from tpn.episodes.setting import Setting
from tpn.episodes.task import Role, as_task, as_training_task
from tpn.errors import TPNError

SPLIT = noise(classes=12, per_class=40)


@given(
    way=st.integers(2, 6),
    shot=st.integers(1, 5),
    query=st.integers(1, 10),
    unlabelled=st.integers(0, 5),
    distractors=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_an_episode_has_what_was_asked_for_and_no_image_twice(way, shot, query, unlabelled, distractors, seed):
    distractors = distractors if unlabelled else 0
    episode = sampler(
        SPLIT, seed, way=way, shot=shot, query=query, unlabelled=unlabelled, distractors=distractors
    ).draw()
    assert len(set(episode.images)) == len(episode.images)
    assert len(set(episode.classes)) == way
    assert list(episode.role) == sorted(episode.role), "support, then queries, then unlabelled"
    for label in range(way):
        of_class = episode.labels == label
        assert [int((episode.role[of_class] == role).sum()) for role in Role] == [shot, query, unlabelled]
        classes = episode.images[of_class] // 40
        assert (classes == episode.classes[label]).all()
    distracting = episode.labels == -1
    assert (episode.role[distracting] == Role.UNLABELLED).all()
    strangers = episode.images[distracting] // 40
    assert len(set(strangers)) == distractors
    assert not set(strangers) & set(episode.classes)
    assert distracting.sum() == distractors * unlabelled


@given(
    way=st.integers(3, 6),
    present=st.integers(1, 3),
    opened=st.integers(0, 3),
    dirichlet=st.one_of(st.none(), st.floats(0.5, 5)),
    seed=st.integers(0, 1000),
)
def test_missing_classes_have_no_queries_and_open_classes_nothing_else(way, present, opened, dirichlet, seed):
    setting = {"query_classes": present, "open_classes": opened, "query_dirichlet": dirichlet}
    episode = sampler(SPLIT, seed, way=way, shot=2, query=4, **setting).draw()
    assert len(set(episode.images)) == len(episode.images), "support and queries are disjoint"
    queries = episode.labels[episode.role == Role.QUERY]
    counts = np.bincount(queries[queries >= 0], minlength=way)
    assert counts.sum() == 4 * present
    assert (counts > 0).sum() == present if dirichlet is None else (counts > 0).sum() <= present
    strangers = episode.images[(episode.role == Role.QUERY) & (episode.labels == -1)] // 40
    assert len(strangers) == 4 * opened
    assert len(set(strangers)) == opened
    assert not set(strangers) & set(episode.classes)
    assert (episode.labels[episode.role == Role.SUPPORT] == np.repeat(np.arange(way), 2)).all()


def test_a_whole_collection_is_one_episode():
    split = noise(4, [7, 9, 5, 6])
    episode = sampler(split, 3, shot=2, whole=True).draw()
    assert sorted(episode.images) == list(range(27))
    assert [int((episode.labels == label).sum()) for label in range(4)] == [
        split.counts[class_] for class_ in episode.classes
    ]
    assert (episode.role == Role.SUPPORT).sum() == 8
    assert str(Setting(shot=2, whole=True)) == "all classes, 2-shot, all other images as queries"


def test_the_order_of_queries_does_not_reveal_their_class():
    """Over many episodes each place among the queries has each class equally often."""
    drawn = sampler(SPLIT, 5, way=3, shot=1, query=4, open_classes=1)
    labels = np.stack([episode.labels[episode.role == Role.QUERY] for episode in (drawn.draw() for _ in range(600))])
    for label in (-1, 0, 1, 2):
        assert abs((labels == label).mean(0) - 0.25).max() < 0.1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"query_classes": 6}, "query_classes must be from 1 to the 5 classes, not 6"),
        ({"query_classes": 2, "query_counts": (1, 1, 1, 1, 1)}, "query_classes or query_counts, not both"),
        ({"open_classes": -1}, "open_classes must be at least 0"),
        ({"way": 10**40}, "way must be at most 1,000,000, not 1000"),
        ({"whole": True, "open_classes": 1}, "leave out open_classes"),
        ({"whole": True, "query_dirichlet": 1.0}, "leave out query_dirichlet"),
    ],
)
def test_realistic_settings_that_make_no_sense_are_refused(setting, message):
    with pytest.raises(TPNError, match=message):
        Setting(**setting)


def test_the_same_seed_draws_the_same_episodes_and_another_seed_others():
    def images(seed):
        drawn = sampler(SPLIT, seed, way=3)
        return np.concatenate([drawn.draw().images for _ in range(5)])

    assert (images(1) == images(1)).all()
    assert (images(1) != images(2)).any()


def test_a_sampler_continues_from_its_saved_state():
    drawn = sampler(SPLIT, 7, way=3)
    drawn.draw()
    state = drawn.state
    expected = [drawn.draw().images for _ in range(3)]
    other = sampler(SPLIT, 0, way=3)
    other.state = state
    np.testing.assert_array_equal(expected, [other.draw().images for _ in range(3)])


def test_every_image_and_class_is_drawn_equally_often():
    drawn = sampler(SPLIT, 0, way=4, shot=2, query=3)
    counts = np.bincount(np.concatenate([drawn.draw().images for _ in range(2400)]), minlength=480)
    assert counts.sum() == 2400 * 20
    assert abs(counts - 100).max() < 5 * 10  # Poisson: five standard deviations


def test_the_order_of_the_queries_does_not_tell_their_class():
    episode = sampler(SPLIT, 0, way=5, query=15).draw()
    labels = episode.labels[episode.role == Role.QUERY]
    assert (np.diff(labels) < 0).sum() > 15


def test_query_counts_are_dealt_to_the_classes_at_random():
    drawn = sampler(SPLIT, 0, way=3, query_counts=(1, 5, 20))
    seen = set()
    for _ in range(60):
        episode = drawn.draw()
        counts = tuple(np.bincount(episode.labels[episode.role == Role.QUERY], minlength=3))
        assert sorted(counts) == [1, 5, 20]
        seen.add(counts)
    assert len(seen) == 6


@pytest.mark.parametrize("concentration", [0.1, 1.0, 1000.0])
def test_dirichlet_queries_keep_their_total_and_never_exceed_a_class(concentration):
    drawn = sampler(noise(6, [40, 25, 40, 30, 22, 40]), 0, way=5, shot=2, query=20, query_dirichlet=concentration)
    spread = []
    for _ in range(50):
        episode = drawn.draw()
        assert len(set(episode.images)) == len(episode.images)
        counts = np.bincount(episode.labels[episode.role == Role.QUERY], minlength=5)
        assert counts.sum() == 100
        spread.append(counts.std())
    assert np.mean(spread) < 5 if concentration == 1000 else np.mean(spread) > 5


def test_a_task_shows_the_labels_of_the_support_only():
    drawn = sampler(SPLIT, 0, way=3, shot=2, query=4, unlabelled=1)
    episodes = [drawn.draw(), drawn.draw()]
    inputs = SPLIT.load(np.concatenate([episode.images for episode in episodes])).view(2, 21, 1, 28, 28)
    task = as_task(episodes, inputs)
    assert not hasattr(task, "query_labels")
    assert (task.n_support, task.n_query, task.way) == (6, 12, 3)
    assert [part.shape[1] for part in (task.support, task.query, task.unlabelled)] == [6, 12, 3]
    assert (task.support_labels[1].numpy() == episodes[1].labels[:6]).all()
    training = as_training_task(episodes, inputs)
    assert (training.query_labels[0].numpy() == episodes[0].labels[6:18]).all()
    assert not hasattr(training.with_inputs(inputs), "query_labels")


@pytest.mark.parametrize(
    "setting",
    [
        {"way": 1},
        {"shot": 0},
        {"query": -2},
        {"unlabelled": -1},
        {"labelled_share": 0.0},
        {"labelled_share": 1.5},
        {"labelled_share": float("nan")},
        {"split_seed": -1},
        {"query_dirichlet": 0.0},
        {"query_dirichlet": float("nan")},
    ],
)
def test_settings_out_of_range_are_refused(setting):
    refuses_setting(Setting, setting)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"distractors": 2}, "give unlabelled"),
        ({"query_counts": (1, 2)}, "5 classes; 2 were given"),
        ({"query_counts": (1, 2, 3, 4, -5)}, "negative"),
        ({"query_counts": (0, 0, 0, 0, 0)}, "above 0"),
        ({"query_dirichlet": 1.0, "query_counts": (1, 1, 1, 1, 1)}, "not both"),
    ],
)
def test_settings_that_make_no_sense_together_are_refused(setting, complaint):
    with pytest.raises(TPNError, match=complaint):
        Setting(**setting)


def test_a_split_too_small_for_the_setting_is_refused():
    with pytest.raises(TPNError, match="needs 13 classes, but the val split has 12"):
        sampler(SPLIT, way=13)
    with pytest.raises(TPNError, match="5 ways and 8 distractor classes needs 13 classes"):
        sampler(SPLIT, way=5, unlabelled=1, distractors=8)
    with pytest.raises(TPNError, match=r"needs 41 images of each class.*'class 0'.* has 40"):
        sampler(SPLIT, shot=5, query=36)
    with pytest.raises(TPNError, match="'class 1' of the val split has 3"):
        sampler(noise(5, [40, 3, 40, 40, 40]), shot=1, query=3)
