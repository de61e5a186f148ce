from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import noise
from tpn.episodes.mini_batches import MiniBatches
from tpn.episodes.partition import ClassPools
from tpn.episodes.sampler import load_images
from tpn.episodes.setting import Setting
from tpn.errors import TPNError

SPLIT = noise(classes=6, per_class=[4, 9, 5, 7, 8, 7])
CLASSES = np.repeat(np.arange(6), SPLIT.counts)


@given(size=st.integers(1, 40), seed=st.integers(0, 100))
def test_no_image_comes_twice_in_a_round_and_each_has_its_class(size, seed):
    batches = MiniBatches(SPLIT, Setting(), size, seed)
    for _ in range(2):
        drawn = [batches.draw() for _ in range(40 // size)]
        images = np.concatenate([batch.images for batch in drawn])
        assert len(set(images)) == len(images) == size * (40 // size)
        for batch in drawn:
            assert (batch.classes == CLASSES[batch.images]).all()


def test_each_round_has_another_order_and_another_seed_another_one_too():
    orders = [MiniBatches(SPLIT, Setting(), 40, seed) for seed in (0, 0, 1)]
    first, again, other = (batches.draw().images for batches in orders)
    assert (first == again).all()
    assert (first != other).any()
    assert (orders[0].draw().images != first).any()
    assert set(first) == set(range(40))


@given(size=st.integers(1, 40), before=st.integers(0, 12))
def test_set_back_to_a_state_they_go_on_as_they_did(size, before):
    batches = MiniBatches(SPLIT, Setting(), size, seed=3)
    for _ in range(before):
        batches.draw()
    state = batches.state
    expected = [batches.draw().images for _ in range(9)]
    others = MiniBatches(SPLIT, Setting(), size, seed=3)
    others.state = state
    assert all((others.draw().images == images).all() for images in expected)


@pytest.mark.parametrize("drawn", [-1, 41, 1.5, None])
def test_a_damaged_state_is_refused(drawn):
    batches = MiniBatches(SPLIT, Setting(), 4, seed=0)
    with pytest.raises(ValueError, match="cannot have been drawn"):
        batches.state = {**batches.state, "drawn": drawn}


def test_of_partitioned_classes_only_labelled_images_come():
    split, setting = replace(SPLIT, name="train"), Setting(labelled_share=0.5, split_seed=3)
    labelled = np.concatenate(ClassPools(split, setting).labelled)
    batches = MiniBatches(split, setting, len(labelled), seed=0)
    assert sorted(batches.draw().images) == sorted(labelled)


def test_more_than_there_are_cannot_be_drawn_at_once():
    with pytest.raises(TPNError, match=r"batch_size must be at most 40.* not 41"):
        MiniBatches(SPLIT, Setting(), 41, seed=0)


def test_mini_batches_come_with_their_images_and_classes():
    batches = MiniBatches(SPLIT, Setting(), 10, seed=0)
    drawn = [batches.draw(), batches.draw()]
    batch = batches.collate(drawn, load_images(SPLIT, drawn))
    assert batch.inputs.shape == (2, 10, 1, 28, 28)
    assert batch.labels.tolist() == [CLASSES[one.images].tolist() for one in drawn]
