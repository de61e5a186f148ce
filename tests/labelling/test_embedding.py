"""Embedding: each content once, then from the cache; what cannot be read is left out."""

import os
import shutil
import sqlite3
import threading
import warnings
from contextlib import closing
from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image

from tests.images.making import encode, smooth
from tests.labelling.making import NAMES, outcome, write_images
from tpn.errors import TPNError, TPNWarning
from tpn.images.dataset_index import Problems
from tpn.labelling import embedding_pipeline, page
from tpn.labelling.embedding import embed, embed_in_chunks
from tpn.labelling.feature_cache import FILE, FeatureCache, facts_of
from tpn.labelling.labelled_folder import find_images
from tpn.labelling.networks import LazyNetwork, Network
from tpn.labelling.page import make_page

CPU = torch.device("cpu")


def mean_colour(seen=None, key="fake"):
    """A network that is quick: the mean colour of an image."""

    def features(images):
        if seen is not None:
            seen.append(len(images))
        return images.mean((2, 3))

    return LazyNetwork(key, lambda: Network(key, 8, features, "a fake"))


def refuses_to_load():
    raise AssertionError("there is nothing to embed")


NOT_NEEDED = LazyNetwork("fake", refuses_to_load)


def embed_all(folder, network, cache, problems=None):
    return embed(folder, find_images(folder).names, network, cache, CPU, problems or Problems())


def test_features_are_those_of_the_images(photos, tmp_path):
    names, made = embed_all(photos, mean_colour(), tmp_path / "cache")
    assert names == sorted(NAMES)
    for name, features in zip(names, made, strict=True):
        pixels = np.asarray(Image.open(photos / name).convert("RGB"), np.float64)
        np.testing.assert_allclose(features, pixels.mean((0, 1)) / 255, atol=0.02)
    assert made.dtype == np.float32


def test_the_second_time_nothing_is_computed(photos, tmp_path):
    names, first = embed_all(photos, mean_colour(), tmp_path / "cache")
    same_names, again = embed_all(photos, NOT_NEEDED, tmp_path / "cache")
    assert (again == first).all()
    assert same_names == names


def test_what_is_known_is_not_even_read(photos, tmp_path, monkeypatch):
    embed_all(photos, mean_colour(), tmp_path / "cache")
    monkeypatch.setattr(embedding_pipeline, "_read", lambda *_: refuses_to_load())
    embed_all(photos, NOT_NEEDED, tmp_path / "cache")


def test_a_changed_file_is_embedded_again_and_no_other(photos, tmp_path):
    _, before = embed_all(photos, mean_colour(), tmp_path / "cache")
    write_images(photos, ["z.png"], seed=7)
    seen = []
    names, after = embed_all(photos, mean_colour(seen), tmp_path / "cache")
    assert seen == [1]
    changed = (after != before).any(1)
    assert changed.tolist() == [name == "z.png" for name in names]


def test_a_change_that_keeps_size_and_time_is_noticed_by_a_new_file(photos, tmp_path):
    """As many programs write: to another file, which then takes the place of the first."""
    kept = (photos / "a.png").stat()
    embed_all(photos, mean_colour(), tmp_path / "cache")
    content = encode(smooth(np.random.default_rng(99), 16))
    (photos / "new").write_bytes(content + b"\0" * (kept.st_size - len(content)))
    os.utime(photos / "new", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    os.replace(photos / "new", photos / "a.png")
    seen = []
    embed_all(photos, mean_colour(seen), tmp_path / "cache")
    assert seen == [1]


def test_a_copy_or_a_new_name_is_known_by_its_content(photos, tmp_path):
    _, before = embed_all(photos, mean_colour(), tmp_path / "cache")
    shutil.copytree(photos, tmp_path / "copy")
    os.rename(tmp_path / "copy" / "a.png", tmp_path / "copy" / "renamed.png")
    seen = []
    names, after = embed_all(tmp_path / "copy", mean_colour(seen), tmp_path / "cache")
    assert seen == []
    assert (after[names.index("renamed.png")] == before[0]).all()


def test_copies_in_one_folder_are_embedded_once(photos, tmp_path):
    for index in range(4):
        shutil.copy(photos / "a.png", photos / f"copy {index}.png")
    seen = []
    names, _ = embed_all(photos, mean_colour(seen), tmp_path / "cache")
    assert sum(seen) == len(NAMES)
    assert len(names) == len(NAMES) + 4


def test_other_networks_have_features_of_their_own(photos, tmp_path):
    embed_all(photos, mean_colour(), tmp_path / "cache")
    seen = []
    embed_all(photos, mean_colour(seen, "other"), tmp_path / "cache")
    assert sum(seen) == len(NAMES)
    embed_all(photos, NOT_NEEDED, tmp_path / "cache")


def test_an_interruption_keeps_what_was_embedded(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_pipeline, "IMAGES_AT_ONCE", 2)
    seen = []

    def interrupted(images):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(len(images))
        return images.mean((2, 3))

    network = LazyNetwork("fake", lambda: Network("fake", 8, interrupted, "a fake"))
    with pytest.raises(KeyboardInterrupt):
        embed_all(photos, network, tmp_path / "cache")
    rest = []
    _, made = embed_all(photos, mean_colour(rest), tmp_path / "cache")
    assert (sum(seen), sum(rest)) == (4, 1)
    _, fresh = embed_all(photos, mean_colour(), tmp_path / "another")
    assert (made == fresh).all()


def test_unreadable_files_are_named_and_the_rest_goes_on(photos, tmp_path):
    (photos / "broken.png").write_bytes((photos / "a.png").read_bytes()[:60])
    (photos / "empty.jpg").write_bytes(b"")
    (photos / "gone.png").symlink_to("nowhere.png")
    os.mkfifo(photos / "pipe.png")
    problems = Problems()
    names, made = embed_all(photos, mean_colour(), tmp_path / "cache", problems)
    assert names == sorted(NAMES)
    assert len(made) == len(NAMES)
    (sentence,) = problems.sentences
    assert sentence.startswith("4 images ")
    assert all(name in sentence for name in ("broken.png: ", "empty.jpg: ", "gone.png: not a regular file"))


def test_warnings_are_heard_after_threads_have_silenced_them(photos, tmp_path, monkeypatch):
    """Python's way to silence warnings is not made for threads: the last to leave restores what the first has set."""
    entered = [threading.Event(), threading.Event()]
    left = threading.Event()

    def decode(content, size):
        first = content == (photos / "a.png").read_bytes()
        if not first:
            entered[0].wait(10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entered[0 if first else 1].set()
            (entered[1] if first else left).wait(10)
        if first:
            left.set()
        return np.zeros((size, size, 3), np.uint8)

    for name in NAMES[1:4]:
        os.remove(photos / name)
    monkeypatch.setattr(embedding_pipeline, "decode", decode)
    monkeypatch.setattr(page, "thumbnail", decode)
    monkeypatch.setattr(embedding_pipeline, "EMBEDDED_AT_ONCE", 1)
    before = list(warnings.filters)
    torch.set_num_threads(2)  # and so as many threads that decode
    try:
        embed_all(photos, mean_colour(), tmp_path / "cache")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert warnings.filters == before
    for event in (*entered, left):
        event.clear()
    make_page(outcome(["a.png", "z.png"], [0, 1], photos))
    assert warnings.filters == before


def test_when_none_can_be_read(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(b"not an image")
    with pytest.raises(TPNError, match=r"None of the files .*1 image cannot be read"):
        embed_all(tmp_path / "photos", mean_colour(), tmp_path / "cache")


def test_features_that_are_not_numbers(photos, tmp_path):
    network = LazyNetwork("bad", lambda: Network("bad", 8, lambda x: x.mean((2, 3)) * torch.nan, "A bad network"))
    with pytest.raises(TPNError, match="A bad network"):
        embed_all(photos, network, tmp_path / "cache")
    seen = []
    embed_all(photos, mean_colour(seen, "bad"), tmp_path / "cache")
    assert sum(seen) == len(NAMES), "they are not kept"


@pytest.mark.parametrize("damage", ["junk", "cut", "overwritten", "another schema", "empty"])
def test_a_cache_that_is_no_database_is_made_again(photos, tmp_path, damage):
    _, before = embed_all(photos, mean_colour(), tmp_path / "cache")
    file = tmp_path / "cache" / FILE
    content = bytearray(file.read_bytes())
    if damage == "another schema":
        with closing(sqlite3.connect(file)) as database:
            database.executescript("DROP TABLE features; CREATE TABLE features (other TEXT)")
    else:
        content[4096:] = b"\xa5" * len(content[4096:])
        junk = b"SQLite format 3\0" + b"junk" * 500
        file.write_bytes({"junk": junk, "cut": content[:5000], "overwritten": content, "empty": b""}[damage])
    seen = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        _, after = embed_all(photos, mean_colour(seen), tmp_path / "cache")
    assert [str(one.message) for one in heard] == (
        [] if damage == "empty" else [f"The cache of features {file} was damaged and is being rebuilt."]
    )
    assert sum(seen) == len(NAMES)
    assert (after == before).all()
    embed_all(photos, NOT_NEEDED, tmp_path / "cache")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE features SET numbers = substr(numbers, 1, 7)",
        "UPDATE features SET numbers = 'some text'",
        "UPDATE features SET numbers = x'0000c07f0000c07f0000c07f'",
        "UPDATE features SET numbers = x'0000803f0000803f0000803f'",
        "UPDATE features SET numbers = 3.5",
        "UPDATE features SET digest = 'x'",
        "UPDATE features SET network = 'other'",
        "UPDATE OR IGNORE files SET content = (SELECT content FROM files LIMIT 1)",
        "UPDATE files SET content = 7",
        "UPDATE files SET content = CAST(x'ff00fe' AS TEXT)",
        "UPDATE files SET facts = CAST(x'ff00fe' AS TEXT)",
    ],
)
def test_a_damaged_row_is_made_again(photos, tmp_path, damage):
    _, before = embed_all(photos, mean_colour(), tmp_path / "cache")
    with closing(sqlite3.connect(tmp_path / "cache" / FILE)) as database, database:
        assert database.execute(damage).rowcount > 0
    _, after = embed_all(photos, mean_colour(), tmp_path / "cache")
    assert (after == before).all()
    _, again = embed_all(photos, NOT_NEEDED, tmp_path / "cache")
    assert (again == before).all()


def test_no_flipped_bit_changes_features(photos, tmp_path):
    """Wherever the file is damaged: the same features, found or made again."""
    _, before = embed_all(photos, mean_colour(), tmp_path / "whole")
    content = (tmp_path / "whole" / FILE).read_bytes()
    rng = np.random.default_rng(5)
    filled = np.flatnonzero(np.frombuffer(content, np.uint8))  # most of a small database is empty
    for trial in range(25):
        cache = tmp_path / str(trial)
        cache.mkdir()
        damaged = bytearray(content)
        damaged[rng.choice(filled)] ^= 1 << rng.integers(8)
        (cache / FILE).write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TPNWarning)
            _, after = embed_all(photos, mean_colour(), cache)
        assert (after == before).all(), trial


def test_a_cache_of_the_first_format_is_not_trusted(photos, tmp_path):
    (tmp_path / "cache").mkdir()
    with closing(sqlite3.connect(tmp_path / "cache" / FILE)) as database, database:
        database.execute("CREATE TABLE files (path TEXT PRIMARY KEY, facts TEXT NOT NULL, content BLOB NOT NULL)")
        database.execute("CREATE TABLE features (network TEXT, content BLOB, numbers BLOB NOT NULL)")
    embed_all(photos, mean_colour(), tmp_path / "cache")
    embed_all(photos, NOT_NEEDED, tmp_path / "cache")


def test_a_cache_that_cannot_be_written(photos, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TPNError, match=r"Cannot write .*file"):
        embed_all(photos, mean_colour(), tmp_path / "file")
    (tmp_path / "cache" / FILE).mkdir(parents=True)
    with pytest.raises(TPNError, match=f"{FILE} cannot be used.*another cache"):
        embed_all(photos, mean_colour(), tmp_path / "cache")


def test_files_with_new_times_only_are_read_but_not_decoded(photos, tmp_path, monkeypatch):
    _, before = embed_all(photos, mean_colour(), tmp_path / "cache")
    for name in NAMES:
        os.utime(photos / name, ns=(1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(embedding_pipeline, "decode", lambda *_: refuses_to_load())
        _, after = embed_all(photos, NOT_NEEDED, tmp_path / "cache")
    assert (after == before).all()
    monkeypatch.setattr(embedding_pipeline, "_read", lambda *_: refuses_to_load())
    embed_all(photos, NOT_NEEDED, tmp_path / "cache")  # and now the new times are known


def test_chunks_come_while_the_work_goes_on(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_pipeline, "IMAGES_AT_ONCE", 2)
    names, whole = embed_all(photos, mean_colour(), tmp_path / "another")
    (photos / "broken.png").write_bytes(b"not an image")
    shutil.copy(photos / "broken.png", photos / "zz.png")
    shutil.copy(photos / "a.png", photos / "zzz.png")
    every, problems = find_images(photos).names, Problems()

    def chunks(network, limit=None):
        found = embed_in_chunks(photos, every, network, tmp_path / "cache", CPU, problems)
        with closing(found):
            return list(islice(found, limit))

    assert [chunk.names for chunk in chunks(mean_colour(), 2)] == [["a.png", "b c.png"], ["dir/Ünï.png"]]
    first, *rest = chunks(mean_colour())
    assert first.names == ["a.png", "b c.png", "dir/Ünï.png"], "what was yielded is kept"
    assert [chunk.done for chunk in (first, *rest)] == sorted(chunk.done for chunk in (first, *rest))
    assert rest[-1].done == rest[-1].total == len(every) == 8
    made = {name: row for chunk in (first, *rest) for name, row in zip(chunk.names, chunk.features, strict=True)}
    assert sorted(made) == sorted([*NAMES, "zzz.png"])
    for name, features in zip(names, whole, strict=True):
        assert (made[name] == features).all()
    assert (made["zzz.png"] == made["a.png"]).all()
    assert "broken.png: " in problems.sentences[0]
    assert "zz.png: " in problems.sentences[0]


def test_large_files_are_read_again_instead_of_kept(photos, tmp_path, monkeypatch):
    _, before = embed_all(photos, mean_colour(), tmp_path / "another")
    monkeypatch.setattr(embedding_pipeline, "KEPT_BYTES", 10)
    _, after = embed_all(photos, mean_colour(), tmp_path / "cache")
    assert (after == before).all()


def test_the_cache_holds_names_that_are_no_text_and_many_of_them(tmp_path):
    names = [tmp_path / os.fsdecode(b"caf\xe9.png"), *(tmp_path / f"{index}.png" for index in range(1200))]
    for name in names:
        name.touch()
    with FeatureCache(tmp_path) as cache:
        assert cache.contents(names) == [None] * 1201
        cache.put_files((name, facts_of(name), str(index).encode()) for index, name in enumerate(names))
        cache.put_features("n", ((str(index).encode(), np.full(3, index)) for index in range(1201)))
    with FeatureCache(tmp_path) as cache:
        assert cache.contents(names) == [str(index).encode() for index in range(1201)]
        found = cache.features("n", [str(index).encode() for index in range(1300)])
    assert len(found) == 1201
    assert (found[b"777"] == np.full(3, 777, np.float32)).all()
