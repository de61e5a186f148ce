"""A pickle is data here and nothing else."""

import os
import pickle
import random
import struct
import subprocess
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpn.errors import TPNError
from tpn.images.pickles.pickled_array import ElementType, PickledArray
from tpn.images.pickles.plain_data import as_array, as_strings, read_pickle, with_text_keys

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=200),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers() | st.binary(max_size=5), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(content=plain, protocol=st.integers(0, 5))
def test_plain_data_is_read_as_python_reads_it(content, protocol):
    assert read_pickle(pickle.dumps(content, protocol), "x.pkl") == content


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([1, -2, 3], ">i4"),
        np.zeros((0, 5), np.int64),
        np.array(["a", "längere"]),
        np.array([b"ab", b"c"]),
        np.array([True, False]),
        np.array(5.5, np.float32),
    ],
    ids=str,
)
def test_arrays(array, protocol):
    found = read_pickle(pickle.dumps({"a": array}, protocol), "x.pkl")["a"]
    assert isinstance(found, PickledArray)
    np.testing.assert_array_equal(found.array(), array)
    assert found.array().dtype.kind == array.dtype.kind


def test_large_arrays_stay_in_the_file(tmp_path):
    import mmap

    array = np.random.default_rng(0).integers(0, 256, (50, 84, 84, 3), dtype=np.uint8)
    (tmp_path / "x.pkl").write_bytes(pickle.dumps([array, b"x" * 1000], 4))
    with (tmp_path / "x.pkl").open("rb") as stream:
        mapped = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    found, raw = read_pickle(mapped, "x.pkl")
    assert isinstance(found.data, memoryview)
    assert found.data.obj is mapped.obj
    assert bytes(raw) == b"x" * 1000
    np.testing.assert_array_equal(found.array(), array)
    assert not found.array().flags.owndata


def test_numbers_of_numpy_ordered_dicts_and_shared_things():
    shared = np.arange(3)
    content = {"scalar": np.int64(7), "ordered": OrderedDict(a=1), "twice": [shared, shared]}
    found = read_pickle(pickle.dumps(content, 2), "x.pkl")
    assert found["scalar"] == 7
    assert found["ordered"] == {"a": 1}
    assert found["twice"][0] is found["twice"][1]


class Evil:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [os.system, subprocess.call, eval, exec, getattr, __import__, open])
def test_a_program_is_refused_before_anything_runs(tmp_path, monkeypatch, protocol, function):
    monkeypatch.chdir(tmp_path)
    for content in (Evil(function, "touch pwned"), {"image_data": np.zeros(3), "x": [Evil(function, "touch pwned")]}):
        with pytest.raises(TPNError, match="refused: it would call") as refusal:
            read_pickle(pickle.dumps(content, protocol), "evil.pkl")
        assert function.__name__ in str(refusal.value)
    assert os.listdir(tmp_path) == []


class Plain:
    pass


def test_objects_and_odd_instructions_are_refused():
    for content in (Plain(), {1, 2}, range(3), complex(1, 2), np.random.default_rng(0), slice(1)):
        with pytest.raises(TPNError, match="refused"):
            read_pickle(pickle.dumps(content, 4), "x.pkl")
    for code in (b"(imodule\nname\n.", b"Pid\n.", b"}\x91.", b"\x82\x01.", b"(dos\nsystem\n."):
        with pytest.raises(TPNError):
            read_pickle(b"\x80\x02" + code, "x.pkl")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<!DOCTYPE html><html>Google Drive can't scan this file for viruses", "a web page that was saved under"),
        (b"\n  <html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b"", "it is empty"),
        (b"\x80\x04]\x94", "damaged"),
        (b"PK\x03\x04", "damaged|refused"),
    ],
)
def test_what_is_no_pickle(content, why):
    with pytest.raises(TPNError, match=why):
        read_pickle(content, "mini-imagenet-cache-train.pkl")


def test_damaged_pickles_never_raise_anything_else():
    content = {"a": np.arange(12).reshape(3, 4), "b": {"x": [1, 2, (3, "y")]}, "c": b"z" * 500, "d": 10**30, "e": 1.5}
    rng = random.Random(0)
    for protocol in range(6):
        whole = pickle.dumps(content, protocol)
        for _ in range(400):
            damaged = bytearray(whole[: rng.randrange(1, len(whole) + 1)])
            for _ in range(rng.randrange(4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            try:
                found = read_pickle(bytes(damaged), "x.pkl")
                as_array(with_text_keys(found, "x.pkl").get("a"), "x.pkl")
            except TPNError:
                pass


def test_a_billion_laughs_take_no_time():
    bomb = b"\x80\x02" + b"]q\x00" + b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(100)) + b"."
    read_pickle(bomb, "x.pkl")
    as_key = b"\x80\x02}]q\x00" + b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60)) + b"K\x01s."
    with pytest.raises(TPNError):
        read_pickle(as_key, "x.pkl")


def test_a_string_encoded_over_and_over_does_not_fill_the_memory():
    text = b"X" + struct.pack("<I", 2**16) + b"x" * 2**16 + b"q\x00"
    call = b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R"
    with pytest.raises(TPNError, match="would fill the memory"):
        read_pickle(b"\x80\x02]" + text + b"0" + call * 3 + b".", "x.pkl")


@pytest.mark.parametrize("shape", [(0, 2**62, 2**62, 3), (2**70,), (1,) * 40])
def test_arrays_of_impossible_shapes(shape):
    array = PickledArray()
    array.set(shape, ElementType("u1"), False, b"x" if 0 not in shape else b"")
    with pytest.raises(TPNError, match="is damaged"):
        as_array(array, "x.pkl")


def test_what_was_expected_and_is_something_else():
    with pytest.raises(TPNError, match="not an array of numbers"):
        as_array("text", "x.pkl")
    with pytest.raises(TPNError, match="where a dict was expected"):
        with_text_keys([1], "x.pkl")
    with pytest.raises(TPNError, match="not a list of names"):
        as_strings(5, "x.pkl")
    assert as_strings([b"a", "b"], "x.pkl") == ["a", "b"]
    objects = read_pickle(pickle.dumps(np.array(["a", None], object)), "x.pkl")
    with pytest.raises(TPNError, match="array of objects"):
        as_array(objects, "x.pkl")
    records = np.zeros(3, [("a", "i4"), ("b", "f4")])
    with pytest.raises(TPNError, match=r"records|plain values"):
        as_array(read_pickle(pickle.dumps(records), "x.pkl"), "x.pkl")


def test_keys_that_were_chosen_to_collide_are_refused():
    def number(value):
        raw = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
        return b"\x8a" + bytes([len(raw)]) + raw

    keys = b"".join(number((index + 1) * (2**61 - 1)) + b"N" for index in range(5_000))
    with pytest.raises(TPNError, match="chosen to collide"):
        read_pickle(b"\x80\x02}(" + keys + b"u.", "x.pkl")
