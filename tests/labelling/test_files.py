"""From files to files: lists of labels, the cache of features, sorted folders, the page, what to label next."""

import csv
import html
import os
import re
import shutil
import threading
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.images.making import encode, smooth
from tpn.errors import TPNError
from tpn.images.dataset_index import Problems
from tpn.labelling import embedding, page, suggestions
from tpn.labelling.embedding import embed
from tpn.labelling.feature_cache import FILE, FeatureCache, facts_of
from tpn.labelling.labelled_folder import label_by_folders, label_by_lists
from tpn.labelling.labelling import Labelled, read_features, write_labels, write_suggestions
from tpn.labelling.networks import Network, NetworkName
from tpn.labelling.page import make_page
from tpn.labelling.sorting import check_sorting, class_folders, plan
from tpn.labelling.suggestions import suggest
from tpn.semi_supervised.feature_scaling import prepare

CPU = torch.device("cpu")
NAMES = ["a.png", "b c.png", "dir/Ünï.png", "写真/猫.png", "z.png"]


def write_make_images(folder, names=NAMES, seed=0):
    """Images that all differ, with these names."""
    rng = np.random.default_rng(seed)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encode(smooth(rng, 16)))
    return folder


@pytest.fixture
def photos(tmp_path):
    return write_make_images(tmp_path / "photos")


def labels_of(folder, content, encoding="utf-8"):
    """The labels that a list with this content gives to the images of a folder."""
    file = folder.parent / "few.csv"
    file.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
    images = find_make_images(folder)
    label_by_lists(images, [file])
    return images.labels


# lists of labels


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le-sig"])
def test_a_list_as_any_program_writes_it(photos, delimiter, end, encoding):
    rows = [["path", "label"], ["a.png", "cat"], ["b c.png", "dög"], ["写真/猫.png", "猫"]]
    content = end.join(delimiter.join(row) for row in rows) + end
    if encoding == "utf-16-le-sig":
        content, encoding = "\ufeff" + content, "utf-16-le"
    assert labels_of(photos, content, encoding) == {"a.png": "cat", "b c.png": "dög", "写真/猫.png": "猫"}


def test_a_list_in_the_encoding_of_western_windows(photos):
    content = "path;label\r\ndir/Ünï.png;Käse – gut\r\n"
    assert labels_of(photos, content, "cp1252") == {"dir/Ünï.png": "Käse – gut"}


def test_other_columns_and_capitals_and_spaces_do_not_matter(photos):
    content = "confidence, Label ,PATH\n0.5, big cat , a.png \n,dog,b c.png\n\n , , \n1,,z.png\n"
    assert labels_of(photos, content) == {"a.png": "big cat", "b c.png": "dog"}


def test_commas_and_quotes_in_names(tmp_path):
    names = ["a, b.png", 'say "hi".png', "semi;colon.png", "two\nlines.png", " around .png"]
    photos = write_make_images(tmp_path / "photos", names)
    file = tmp_path / "few.csv"
    with open(file, "w", newline="") as stream:
        csv.writer(stream).writerows([("path", "label"), *((name, name.strip()) for name in names)])
    assert labels_of(photos, file.read_bytes()) == {name: name.strip() for name in names}


@pytest.mark.parametrize(
    "path",
    ["dir\\Ünï.png", "./dir/Ünï.png", "dir//Ünï.png", "写真/../dir/Ünï.png", unicodedata.normalize("NFD", NAMES[2])],
)
def test_a_path_however_it_is_written(photos, path):
    assert labels_of(photos, f"path,label\n{path},x\n") == {"dir/Ünï.png": "x"}


def test_names_that_a_mac_has_decomposed(tmp_path):
    decomposed = unicodedata.normalize("NFD", "Ünï.png")
    photos = write_make_images(tmp_path / "photos", [decomposed, "b.png"])
    assert labels_of(photos, f"path,label\n{unicodedata.normalize('NFC', 'Ünï.png')},x\n") == {decomposed: "x"}


def test_absolute_paths_and_links(photos, tmp_path):
    (tmp_path / "elsewhere.png").write_bytes((photos / "a.png").read_bytes())
    (photos / "link.png").symlink_to(tmp_path / "elsewhere.png")
    (tmp_path / "other name").symlink_to(photos)
    for root in (photos, tmp_path / "other name"):
        content = f"path,label\n{root}/a.png,x\n{root}/link.png,y\n"
        assert labels_of(photos, content) == {"a.png": "x", "link.png": "y"}
    with pytest.raises(TPNError, match=r"1 image with a label is missing: .*elsewhere.png"):
        labels_of(photos, f"path,label\n{tmp_path}/elsewhere.png,x\n")


def test_names_that_are_no_text_can_be_listed_and_handed_back(tmp_path):
    photos = write_make_images(tmp_path / "photos", ["a.png", "b.png"])
    os.rename(photos / "a.png", os.fsencode(photos) + b"/caf\xe9.png")
    name = os.fsdecode(b"caf\xe9.png")
    made = outcome(find_make_images(photos).names, [0, 1], given=[False, False], suggested=[0, 1])
    write_suggestions(tmp_path / "list.csv", made)
    content = (tmp_path / "list.csv").read_text().replace(",,", ",x,")
    assert labels_of(photos, content) == {name: "x", "b.png": "x"}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            "path,label\nc.png,x\n",
            r"1 image with a label is missing: c\.png \(few\.csv, row 2\)\. Paths are relative",
        ),
        ("path,label\na.png,x\nq,x\nr,x\ns,x\nt,x\n", "4 images with a label are missing: q .*; r .*; s .* …"),
        ("path,label\n../photos.png,x\n", "1 image with a label is missing"),
        ("path,label\na.png,x\n./a.png,y\n", r"a\.png has two labels: 'x' \(few\.csv, row 2\) and 'y' \(.*row 3\)"),
        ("path,label\n,x\n", "label without a path in row 2"),
        ("x,path,label\n1\n", "incomplete in row 2"),
        ("file,label\na.png,x\n", r"no column 'path': .*and it is 'file,label'"),
        ("path\na.png\n", "no column 'label'"),
        ("a.png,x\n", "no column 'path'"),
        ('path,label\n"a.png,x\n', "no csv file"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\0", "not a text file"),
        ("path,label\na.png,x\n".encode("utf-32"), "not a text file"),
        (b"\xff\xfep\0a\0t", "not a text file"),
    ],
)
def test_lists_that_cannot_be_meant(photos, content, complaint):
    with pytest.raises(TPNError, match=complaint):
        labels_of(photos, content)


def test_the_same_label_twice_is_no_contradiction_and_lists_add_up(photos, tmp_path):
    (tmp_path / "one.csv").write_text("path,label\na.png,x\na.png,x\n")
    (tmp_path / "two.csv").write_text("path,label\na.png,x\nz.png,y\n")
    images = find_make_images(photos)
    label_by_lists(images, [tmp_path / "one.csv", tmp_path / "two.csv"])
    images.check()
    assert images.labels == {"a.png": "x", "z.png": "y"}
    (tmp_path / "three.csv").write_text("path,label\na.png,z\n")
    with pytest.raises(TPNError, match=r"two labels: 'x' \(one\.csv, row 3\) and 'z' \(three\.csv, row 2\)"):
        label_by_lists(find_make_images(photos), [tmp_path / "one.csv", tmp_path / "three.csv"])


def test_too_few_labels(photos, tmp_path):
    for content, complaint in (
        ("path,label\n", "None of the 5 images in .* has a label"),
        ("", "None of the 5 images"),
        ("path,label\na.png,x\nz.png,x\n", "All labels are 'x': there is nothing to tell apart"),
    ):
        (tmp_path / "few.csv").write_text(content)
        images = find_make_images(photos)
        label_by_lists(images, [tmp_path / "few.csv"])
        with pytest.raises(TPNError, match=complaint):
            images.check()
    with pytest.raises(TPNError, match=r"Cannot read .*nothing.csv: No such file"):
        label_by_lists(find_make_images(photos), [tmp_path / "nothing.csv"])
    with pytest.raises(TPNError, match=r"Cannot read .*photos: Is a directory"):
        label_by_lists(find_make_images(photos), [photos])


# labels from sub-folders


def test_a_sub_folder_is_a_class(tmp_path):
    names = ["big cat/1.png", "big cat/deep/2.png", "狗/3.png", "4.png", "Unlabelled/5.png", "unlabeled/deep/6.png"]
    images = find_make_images(write_make_images(tmp_path / "photos", names))
    label_by_folders(images)
    assert images.labels == {"big cat/1.png": "big cat", "big cat/deep/2.png": "big cat", "狗/3.png": "狗"}
    assert images.names == sorted(names)
    images.check()


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["a.png", "unlabelled/b.png"], "has no class sub-folders: name a list of labels with --labels"),
        (["x/a.png", "y/b.png"], "All 2 images .* have a label"),
    ],
)
def test_sub_folders_that_leave_nothing_to_do(tmp_path, names, complaint):
    with pytest.raises(TPNError, match=complaint):
        label_by_folders(find_make_images(write_make_images(tmp_path / "photos", names)))


def test_what_is_no_image_is_left_out_and_told_of(photos):
    for name in ("notes.txt", ".hidden.png", "Thumbs.db", "list.csv"):
        (photos / name).write_text("…")
    found = find_make_images(photos)
    assert found.names == sorted(NAMES)
    [problem] = found.problems.sentences
    assert problem.startswith("2 files ")
    assert problem.endswith("left out: list.csv; notes.txt")


def test_folders_without_make_images(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "notes.txt").write_text("…")
    for name, complaint in (
        ("empty", "There are no images in .*empty"),
        ("texts", "no images in .*texts. 1 file is no image by name and is left out: notes.txt"),
        ("texts/notes.txt", "is a file, not a folder"),
        ("nowhere", "does not exist"),
    ):
        with pytest.raises(TPNError, match=complaint):
            find_make_images(tmp_path / name)


# features, and their cache


def mean_colour(seen=None, key="fake"):
    """A network that is quick: the mean colour of an image."""

    def features(images):
        if seen is not None:
            seen.append(len(images))
        return images.mean((2, 3))

    return NetworkName(key, lambda: Network(key, 8, features, "a fake"))


def refuses_to_load():
    raise AssertionError("there is nothing to embed")


NOT_NEEDED = NetworkName("fake", refuses_to_load)


def embed_all(folder, network, cache, problems=None):
    return embed(folder, find_make_images(folder).names, network, cache, CPU, problems or Problems())


def test_features_are_those_of_the_make_images(photos, tmp_path):
    made = embed_all(photos, mean_colour(), tmp_path / "cache")
    assert made.names == sorted(NAMES)
    for name, features in zip(made.names, made.features, strict=True):
        pixels = np.asarray(Image.open(photos / name).convert("RGB"), np.float64)
        np.testing.assert_allclose(features, pixels.mean((0, 1)) / 255, atol=0.02)
    assert made.features.dtype == np.float32


def test_the_second_time_nothing_is_computed(photos, tmp_path):
    first = embed_all(photos, mean_colour(), tmp_path / "cache")
    again = embed_all(photos, NOT_NEEDED, tmp_path / "cache")
    assert (again.features == first.features).all()
    assert again.names == first.names


def test_what_is_known_is_not_even_read(photos, tmp_path, monkeypatch):
    embed_all(photos, mean_colour(), tmp_path / "cache")
    monkeypatch.setattr(embedding, "_decode", lambda *_: refuses_to_load())
    embed_all(photos, NOT_NEEDED, tmp_path / "cache")


def test_a_changed_file_is_embedded_again_and_no_other(photos, tmp_path):
    before = embed_all(photos, mean_colour(), tmp_path / "cache")
    write_make_images(photos, ["z.png"], seed=7)
    seen = []
    after = embed_all(photos, mean_colour(seen), tmp_path / "cache")
    assert seen == [1]
    changed = (after.features != before.features).any(1)
    assert changed.tolist() == [name == "z.png" for name in after.names]


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
    before = embed_all(photos, mean_colour(), tmp_path / "cache")
    shutil.copytree(photos, tmp_path / "copy")
    os.rename(tmp_path / "copy" / "a.png", tmp_path / "copy" / "renamed.png")
    seen = []
    after = embed_all(tmp_path / "copy", mean_colour(seen), tmp_path / "cache")
    assert seen == []
    assert (after.features[after.names.index("renamed.png")] == before.features[0]).all()


def test_copies_in_one_folder_are_embedded_once(photos, tmp_path):
    for index in range(4):
        shutil.copy(photos / "a.png", photos / f"copy {index}.png")
    seen = []
    made = embed_all(photos, mean_colour(seen), tmp_path / "cache")
    assert sum(seen) == len(NAMES)
    assert len(made.names) == len(NAMES) + 4


def test_other_networks_have_features_of_their_own(photos, tmp_path):
    embed_all(photos, mean_colour(), tmp_path / "cache")
    seen = []
    embed_all(photos, mean_colour(seen, "other"), tmp_path / "cache")
    assert sum(seen) == len(NAMES)
    embed_all(photos, NOT_NEEDED, tmp_path / "cache")


def test_an_interruption_keeps_what_was_embedded(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "IMAGES_AT_ONCE", 2)
    seen = []

    def interrupted(images):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(len(images))
        return images.mean((2, 3))

    network = NetworkName("fake", lambda: Network("fake", 8, interrupted, "a fake"))
    with pytest.raises(KeyboardInterrupt):
        embed_all(photos, network, tmp_path / "cache")
    rest = []
    made = embed_all(photos, mean_colour(rest), tmp_path / "cache")
    assert (sum(seen), sum(rest)) == (4, 1)
    fresh = embed_all(photos, mean_colour(), tmp_path / "another")
    assert (made.features == fresh.features).all()


def test_unreadable_files_are_named_and_the_rest_goes_on(photos, tmp_path):
    (photos / "broken.png").write_bytes((photos / "a.png").read_bytes()[:60])
    (photos / "empty.jpg").write_bytes(b"")
    (photos / "gone.png").symlink_to("nowhere.png")
    os.mkfifo(photos / "pipe.png")
    problems = Problems()
    made = embed_all(photos, mean_colour(), tmp_path / "cache", problems)
    assert made.names == sorted(NAMES)
    assert len(made.features) == len(NAMES)
    (sentence,) = problems.sentences
    assert sentence.startswith("4 images cannot be read and are left out: broken.png: it cannot be read as an image")
    assert "gone.png: it is no ordinary file" in sentence


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
    monkeypatch.setattr(embedding, "decode", decode)
    monkeypatch.setattr(page, "thumbnail", decode)
    before = list(warnings.filters)
    embed_all(photos, mean_colour(), tmp_path / "cache")
    assert warnings.filters == before
    for event in (*entered, left):
        event.clear()
    make_page(outcome(["a.png", "z.png"], [0, 1]), photos, "t", [])
    assert warnings.filters == before


def test_when_none_can_be_read(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(b"not an image")
    with pytest.raises(TPNError, match=r"None of the files .* can be read as an image\. 1 image cannot be read"):
        embed_all(tmp_path / "photos", mean_colour(), tmp_path / "cache")


def test_features_that_are_not_numbers(photos, tmp_path):
    network = NetworkName("bad", lambda: Network("bad", 8, lambda x: x.mean((2, 3)) * torch.nan, "A bad network"))
    with pytest.raises(TPNError, match="A bad network gives features that are not numbers"):
        embed_all(photos, network, tmp_path / "cache")
    seen = []
    embed_all(photos, mean_colour(seen, "bad"), tmp_path / "cache")
    assert sum(seen) == len(NAMES), "they are not kept"


def test_a_damaged_cache(photos, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / FILE).write_bytes(b"SQLite format 3\0" + b"junk" * 500)
    with pytest.raises(TPNError, match=f"cache of features .*{FILE} cannot be used: .*Remove it"):
        embed_all(photos, mean_colour(), tmp_path / "cache")
    (tmp_path / "file").write_text("")
    with pytest.raises(TPNError, match=r"Cannot write .*file"):
        embed_all(photos, mean_colour(), tmp_path / "file")
    embed_all(photos, mean_colour(), tmp_path / "whole")
    file = tmp_path / "whole" / FILE
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xa5" * len(content[4096:])
    file.write_bytes(content)
    with pytest.raises(TPNError, match="cannot be used"):
        embed_all(photos, mean_colour(), tmp_path / "whole")


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


# features made ready


@pytest.mark.parametrize("factor", [1.0, 1e-30, 1e30])
def test_prepared_features_are_directions(factor):
    X = np.random.default_rng(0).normal(2.0, 1.0, (300, 20))
    centred = X - X.mean(0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    ready = prepare((X * factor).astype(np.float32))
    np.testing.assert_allclose(ready, expected, atol=1e-4)
    fewer = prepare((X * factor).astype(np.float32), 5)
    assert fewer.shape == (300, 5)
    np.testing.assert_allclose(np.linalg.norm(fewer, axis=1), 1, atol=1e-5)
    components = np.linalg.svd(expected - expected.mean(0))[2][:5]
    projected = expected @ components.T
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    np.testing.assert_allclose(fewer @ fewer.T, projected @ projected.T, atol=1e-3)


def test_features_all_alike_stay_numbers():
    assert np.isfinite(prepare(np.full((5, 3), 7.0))).all()


def test_features_from_a_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(4, 3))
    for dtype in (np.float64, np.float32, np.float16, np.int32, np.uint8):
        np.save(tmp_path / "f.npy", X.astype(dtype))
        read = read_features(tmp_path / "f.npy", 4)
        assert read.dtype == np.float32
        np.testing.assert_allclose(read, X.astype(dtype).astype(np.float32))


# outcomes


def outcome(names, best, classes=("cat", "dog"), given=None, kept=None, confidence=None, suggested=()):
    number = len(names)
    return Labelled(
        names=list(names),
        classes=list(classes),
        best=np.array(best),
        confidence=np.linspace(0.5, 0.9, number) if confidence is None else np.array(confidence),
        given=np.zeros(number, bool) if given is None else np.array(given),
        kept=np.ones(number, bool) if kept is None else np.array(kept),
        suggestions=np.array(suggested, int),
        unreached=0,
    )


def test_the_table_can_be_read_back_by_any_program(tmp_path):
    names = ["a, b.png", 'say "hi".png', "写真/猫.png", "doubtful.png"]
    made = outcome(names, [0, 1, 1, 0], ["x,y", "ö"], [True, False, False, False], [True, True, True, False])
    write_labels(tmp_path / "labels.csv", made)
    with open(tmp_path / "labels.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["path", "label", "confidence"]
    assert [row[:2] for row in rows[1:]] == [
        ["a, b.png", "x,y"],
        ['say "hi".png', "ö"],
        ["写真/猫.png", "ö"],
        ["doubtful.png", ""],
    ]
    assert [row[2] for row in rows[1:]] == ["1.0000", "0.6333", "0.7667", "0.9000"]


# sorting into folders


@pytest.mark.parametrize("how", ["copy", "link"])
def test_images_are_sorted_into_a_folder_for_each_class(photos, tmp_path, how):
    names = find_make_images(photos).names
    made = outcome(names, [0, 1, 0, 1, 0], ["cat", "dög / 犬"], kept=[True, True, True, True, False])
    check_sorting(tmp_path / "new" / "sorted", photos)
    assert sort_make_images(made, photos, tmp_path / "new" / "sorted", how) == 4
    found = {path.relative_to(tmp_path / "new" / "sorted").as_posix() for path in (tmp_path / "new").rglob("*.png")}
    expected = [f"{['cat', 'dög _ 犬'][made.best[i]]}/{os.path.basename(names[i])}" for i in range(4)]
    assert found == set(expected)
    for name, place in zip(names, expected, strict=False):
        file = tmp_path / "new" / "sorted" / place
        assert file.read_bytes() == (photos / name).read_bytes()
        assert file.is_symlink() == (how == "link")
    assert os.listdir(tmp_path / "new") == ["sorted"], "nothing else is left"


def test_names_that_would_collide():
    names = ["a/1.png", "b/1.png", "b/1.PNG", "a-1.png", "c/2.png"]
    places = plan(outcome(names, [0, 0, 0, 0, 1]))
    assert places["a-1.png"] == "cat/a-1.png" or places["a/1.png"] == "cat/a-1.png"
    assert places["c/2.png"] == "dog/2.png"
    assert len({place.lower() for place in places.values()}) == 5, "also where capitals do not count"
    assert all(place.lower().endswith(".png") and place.count("/") == 1 for place in places.values())


@pytest.mark.parametrize("class_", ["../../etc", "a/b\\c", 'x<>:"|?*y', "..", ".", " . ", "/", "tab\tnew\nline", "\0"])
def test_any_class_has_a_folder_inside(class_):
    (name,) = class_folders([class_]).values()
    assert name.strip(" .") == name != ""
    assert not set(name) & set('<>:"/\\|?*\t\n\0')


def test_classes_keep_folders_of_their_own():
    names = class_folders(["a/b", "a_b", "A_B", "a:b", "a_b-2", ".", ".."])
    assert len({name.lower() for name in names.values()}) == 7


def test_nothing_is_left_when_sorting_fails(photos, tmp_path):
    names = find_make_images(photos).names
    os.remove(photos / "z.png")
    with pytest.raises(TPNError, match=r"Cannot write .*sorted: No such file"):
        sort_make_images(outcome(names, [0] * 5), photos, tmp_path / "sorted", "copy")
    assert sorted(os.listdir(tmp_path)) == ["photos"]


def test_places_that_are_taken(photos, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    check_sorting(tmp_path / "empty", photos)
    for target, complaint in (
        (photos, "exists and is not an empty folder"),
        (tmp_path / "file", "exists and is not an empty folder"),
        (photos / "sorted", "lies among the images"),
        (tmp_path / "file" / "sorted", "cannot be made: .*file is a file"),
    ):
        with pytest.raises(TPNError, match=complaint):
            check_sorting(target, photos)
    monkeypatch.chdir(tmp_path / "empty")
    (tmp_path / "link").symlink_to("empty")
    for target in (".", tmp_path / "link"):
        check_sorting(Path(target), photos)
        sort_make_images(outcome(NAMES, [0] * 5), photos, Path(target), "copy")
        assert len(os.listdir(tmp_path / "empty" / "cat")) == 5
        shutil.rmtree(tmp_path / "empty" / "cat")


# the page


def test_the_page_shows_every_class_and_is_whole(photos):
    names = find_make_images(photos).names
    made = outcome(names, [0, 1, 0, 1, 0], given=[True, True, False, False, False], kept=[True] * 4 + [False])
    page = make_page(made, photos, "my photos", ["3 labels found."])
    assert page.count("<img ") == 5
    assert page.count('src="data:image/jpeg;base64,') == 5
    assert page.count("<figure class=given ") == 2
    assert page.count("<figure class=doubtful ") == 1
    assert "1 given, 1 labelled, 1 too doubtful" in page
    for tag in ("h1", "h2", "p", "div", "figure", "nav", "figcaption", "body", "html"):
        assert len(re.findall(f"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag
    assert "Label these next" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_the_page_shows_what_to_label_next(photos):
    made = outcome(find_make_images(photos).names, [0, 1, 0, 1, 0], suggested=[3, 1])
    page = make_page(made, photos, "t", [])
    row = page.split("Label these next")[1].split("<h2")[0]
    assert re.findall('title="([^"]*)"', row) == [made.names[3], made.names[1]]
    assert row.count("guess: dog") == 2


def test_the_page_takes_no_orders_from_names(tmp_path):
    evil = '<script>alert("1")</script>&amp;.png'.replace("/", "∕")
    photos = write_make_images(tmp_path / "photos", [evil, 'it\'s "b".png'])
    made = outcome(find_make_images(photos).names, [0, 1], ['<b onload="x">', "</nav><script>"], suggested=[0, 1])
    page = make_page(made, photos, "<i>title</i>", ["<u>fact</u>"])
    for markup in ("<script", "<b on", "<i>", "<u>", "</nav><s"):
        assert markup not in page
    text = html.unescape(page)
    for words in (evil, 'it\'s "b".png', '<b onload="x">', "</nav><script>", "<i>title</i>", "<u>fact</u>"):
        assert words in text


def test_the_page_does_without_images_that_are_gone(photos):
    made = outcome(find_make_images(photos).names, [0, 1, 0, 1, 0])
    os.remove(photos / "a.png")
    os.mkfifo(photos / "a.png")
    os.remove(photos / "z.png")
    assert make_page(made, photos, "t", []).count("not to be had") == 2


def test_a_page_of_many_images_shows_some_from_sure_to_doubtful(tmp_path):
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.3, 1, 1000)
    made = outcome([f"{index}.png" for index in range(1000)], [0] * 500 + [1] * 500, confidence=confidence)
    page = make_page(made, tmp_path, "t", [])
    shown = [int(name) for name in re.findall(r'title="(\d+).png"', page)]
    for class_ in (0, 1):
        members = [index for index in shown if index // 500 == class_]
        assert 10 <= len(members) <= 100
        assert (np.diff(confidence[members]) <= 0).all()
        part = confidence[class_ * 500 : class_ * 500 + 500]
        assert confidence[members[0]] == part.max()
        assert confidence[members[-1]] == part.min()
    assert "of 500 shown" in page


# what to label next


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
