from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import noise, sampler
from tpn.episodes.partition import labelled_mask
from tpn.episodes.task import Role
from tpn.errors import TPNError

TRAIN = replace(noise(8, [20, 30, 40, 25, 20, 20, 50, 33], size=2), name="train")


@given(share=st.floats(0.01, 0.99), seed=st.integers(0, 2**62))
def test_every_class_is_partitioned_by_the_given_share(share, seed):
    labelled = labelled_mask(TRAIN, share, seed)
    for start, count in zip(TRAIN.starts, TRAIN.counts, strict=False):
        assert abs(labelled[start : start + count].sum() - share * count) <= 0.5


def test_a_seed_names_a_partition():
    partitions = [labelled_mask(TRAIN, 0.4, seed) for seed in range(10)]
    assert all((a != b).any() for i, a in enumerate(partitions) for b in partitions[:i])
    np.testing.assert_array_equal(partitions[3], labelled_mask(TRAIN, 0.4, 3))
    times = np.mean([labelled_mask(TRAIN, 0.4, seed) for seed in range(400)], axis=0)
    assert abs(times - 0.4).max() < 0.15, "every image has the same chance"


@pytest.mark.parametrize("share", [None, 0.4, 0.7])
def test_the_parts_are_never_mixed(share):
    setting = {"way": 3, "shot": 1, "query": 4, "unlabelled": 5, "distractors": 2, "split_seed": 7}
    labelled = labelled_mask(TRAIN, share or 0.4, 7)
    drawn = sampler(TRAIN, 0, labelled_share=share, **setting)
    seen = set()
    for _ in range(200):
        episode = drawn.draw()
        without = episode.role == Role.UNLABELLED
        assert labelled[episode.images[~without]].all()
        assert not labelled[episode.images[without]].any()
        assert len(set(episode.images)) == len(episode.images)
        seen |= set(episode.images)
    assert len(seen) == len(TRAIN), "all of both parts are drawn"


def test_without_unlabelled_images_only_a_given_share_partitions():
    assert len(images_of(sampler(TRAIN, 0, way=4, shot=2, query=4))) == len(TRAIN)
    labelled = labelled_mask(TRAIN, 0.4, 0)
    assert images_of(sampler(TRAIN, 0, way=4, shot=2, query=4, labelled_share=0.4)) == set(np.flatnonzero(labelled))
    whole = sampler(TRAIN, 0, way=4, shot=2, query=4, unlabelled=5, labelled_share=1.0)
    assert len(images_of(whole)) == len(TRAIN)


def test_validation_and_test_classes_are_not_partitioned():
    split = replace(TRAIN, name="test")
    drawn = sampler(split, 0, way=4, shot=5, query=10, unlabelled=5, labelled_share=0.1)
    assert len(images_of(drawn)) == len(split)


def images_of(drawn):
    return {int(row) for _ in range(400) for row in drawn.draw().images}


def test_the_default_share_is_that_of_the_source():
    tiered = replace(noise(6, 50, size=2), name="train", labelled_share=0.1)
    drawn = sampler(tiered, 0, way=3, shot=1, query=4, unlabelled=5)
    labelled = labelled_mask(tiered, 0.1, 0)
    for _ in range(50):
        episode = drawn.draw()
        np.testing.assert_array_equal(labelled[episode.images], episode.role != Role.UNLABELLED)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"shot": 4, "query": 5, "unlabelled": 2}, "needs 9 images of each class with labels.*'class 0'"),
        ({"shot": 1, "query": 2, "unlabelled": 13}, "needs 13 images of each class without labels"),
    ],
)
def test_too_small_parts_are_refused(setting, complaint):
    with pytest.raises(TPNError, match=complaint):
        sampler(TRAIN, 0, way=3, **setting)


def test_unbalanced_queries_stay_in_the_labelled_mask():
    labelled = labelled_mask(TRAIN, 0.5, 0)
    drawn = sampler(TRAIN, 0, way=3, shot=2, query=4, unlabelled=3, query_dirichlet=0.2, labelled_share=0.5)
    for _ in range(100):
        episode = drawn.draw()
        np.testing.assert_array_equal(labelled[episode.images], episode.role != Role.UNLABELLED)
        assert (episode.role == Role.QUERY).sum() == 12
