"""Which images a folder has, and which labels are known: from lists of any kind, and from sub-folders."""

import csv
import os
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.labelling.making import NAMES, outcome, write_images
from tpn.errors import TPNError
from tpn.labelling.labelled_folder import find_images, label_by_folders, label_by_list, read_known_labels


def labels_of(folder, content, encoding="utf-8"):
    """The labels that a list with this content gives to the images of a folder."""
    file = folder.parent / "few.csv"
    file.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
    images = find_images(folder)
    label_by_list(images, [file])
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
    content = "certainty, Label ,PATH\n0.5, big cat , a.png \n,dog,b c.png\n\n , , \n1,,z.png\n"
    assert labels_of(photos, content) == {"a.png": "big cat", "b c.png": "dog"}


def test_commas_and_quotes_in_names(tmp_path):
    names = ["a, b.png", 'say "hi".png', "semi;colon.png", "two\nlines.png", " around .png"]
    photos = write_images(tmp_path / "photos", names)
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
    photos = write_images(tmp_path / "photos", [decomposed, "b.png"])
    assert labels_of(photos, f"path,label\n{unicodedata.normalize('NFC', 'Ünï.png')},x\n") == {decomposed: "x"}


def test_absolute_paths_and_links(photos, tmp_path):
    (tmp_path / "elsewhere.png").write_bytes((photos / "a.png").read_bytes())
    (photos / "link.png").symlink_to(tmp_path / "elsewhere.png")
    (tmp_path / "other name").symlink_to(photos)
    for root in (photos, tmp_path / "other name"):
        content = f"path,label\n{root}/a.png,x\n{root}/link.png,y\n"
        assert labels_of(photos, content) == {"a.png": "x", "link.png": "y"}
    with pytest.raises(TPNError, match=r"missing: .*elsewhere.png"):
        labels_of(photos, f"path,label\n{tmp_path}/elsewhere.png,x\n")


def test_names_that_are_no_text_can_be_listed_and_handed_back(tmp_path):
    photos = write_images(tmp_path / "photos", ["a.png", "b.png"])
    os.rename(photos / "a.png", os.fsencode(photos) + b"/caf\xe9.png")
    name = os.fsdecode(b"caf\xe9.png")
    made = outcome(find_images(photos).names, [0, 1], given=[False, False], suggested=[0, 1])
    made.write_suggestions(tmp_path / "list.csv")
    content = (tmp_path / "list.csv").read_text().replace(",,", ",x,")
    assert labels_of(photos, content) == {name: "x", "b.png": "x"}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            "path,label\nc.png,x\n",
            r"missing: c\.png \(few\.csv, row 2\)",
        ),
        ("path,label\na.png,x\nq,x\nr,x\ns,x\nt,x\n", "4 images .* missing: q .*; r .*; s .* …"),
        ("path,label\n../photos.png,x\n", "1 image .* missing"),
        ("path,label\na.png,x\n./a.png,y\n", r"a\.png has two labels: 'x' \(few\.csv, row 2\) and 'y' \(.*row 3\)"),
        ("path,label\n,x\n", "label without a path in row 2"),
        ("x,path,label\n1\n", "incomplete in row 2"),
        ("file,label\na.png,x\n", r"no column 'path': .*and it is 'file,label'"),
        ("path\na.png\n", "no column 'label'"),
        ("a.png,x\n", "no column 'path'"),
        ('path,label\n"a.png,x\n', "not a csv file"),
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
    images = find_images(photos)
    label_by_list(images, [tmp_path / "one.csv", tmp_path / "two.csv"])
    images.check()
    assert images.labels == {"a.png": "x", "z.png": "y"}
    (tmp_path / "three.csv").write_text("path,label\na.png,z\n")
    later = find_images(photos)
    label_by_list(later, [tmp_path / "two.csv", tmp_path / "three.csv"])
    assert later.labels == {"a.png": "z", "z.png": "y"}, "a later list overrides an earlier one"
    (note,) = later.problems.sentences
    assert (
        note
        == "1 image has another label in an earlier list; the later list counts: a.png: x, now z (three.csv, row 2)"
    )


def test_guesses_are_no_labels_but_corrections_are(photos, tmp_path):
    """labels.csv handed back with one row corrected, one confirmed, and one filled in that was left empty."""
    made = outcome(find_images(photos).names, [0, 1, 0, 1, 0], photos, given=[True, *[False] * 4])
    made = replace(made, confidence=np.array([1, 0.9, 0.8, 0.7, 0.3]), kept=np.array([True] * 4 + [False]))
    made.write_csv(tmp_path / "labels.csv")
    text = (tmp_path / "labels.csv").read_text()
    lines = text.splitlines()
    assert labels_of(photos, text) == {"a.png": "cat"}
    lines[2] = lines[2].replace("dog,0.9000", "eel,0.9000")  # corrected
    lines[3] = lines[3].replace("0.8000", "1")  # confirmed
    lines[5] = lines[5].replace("猫.png,,", "猫.png,cat,")  # filled in, with the very guess
    expected = {"a.png": "cat", "b c.png": "eel", "dir/Ünï.png": "cat", "写真/猫.png": "cat"}
    assert labels_of(photos, "\n".join(lines)) == expected
    images = find_images(photos)
    label_by_list(images, [tmp_path / "labels.csv"])
    assert images.problems.sentences[0].startswith("3 rows are guesses (confidence below 1), not labels")


@pytest.mark.parametrize("text", ["unlabelled", "Unlabeled", "-1", " "])
def test_texts_that_mean_no_label(photos, text):
    assert labels_of(photos, f"path,label\na.png,{text}\nz.png,x\n") == {"z.png": "x"}


def test_too_few_labels(photos, tmp_path):
    for content, complaint in (
        ("path,label\n", "None of the 5 images"),
        ("", "None of the 5 images"),
        ("path,label\na.png,x\nz.png,x\n", "All labels are 'x'"),
    ):
        (tmp_path / "few.csv").write_text(content)
        images = find_images(photos)
        label_by_list(images, [tmp_path / "few.csv"])
        with pytest.raises(TPNError, match=complaint):
            images.check()
    with pytest.raises(TPNError, match=r"Cannot read .*nothing.csv: No such file"):
        label_by_list(find_images(photos), [tmp_path / "nothing.csv"])
    with pytest.raises(TPNError, match=r"Cannot read .*photos: Is a directory"):
        label_by_list(find_images(photos), [photos])


# labels in Python


@pytest.mark.parametrize("kind", ["mapping", "pairs", "generator", "series", "frame", "paths"])
def test_labels_of_any_kind(photos, kind):
    pandas = pytest.importorskip("pandas")
    known = {"a.png": "cat", "dir/Ünï.png": " dog ", str(photos / "z.png"): 7, "b c.png": "", "写真/猫.png": None}
    labels = {
        "mapping": known,
        "pairs": list(known.items()),
        "generator": (list(item) for item in known.items()),
        "series": pandas.Series({**known, "写真/猫.png": np.nan}),
        "frame": pandas.DataFrame({"label": known.values(), "path": known.keys()}),
        "paths": {Path(path): label for path, label in known.items()},
    }[kind]
    images = find_images(photos)
    read_known_labels(images, labels)
    assert images.labels == {"a.png": "cat", "dir/Ünï.png": "dog", "z.png": "7"}


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        ({}, "None of the 5 images"),
        ({"c.png": "x"}, r"missing: c\.png \(entry 1\)"),
        ([("a.png", "x"), ("./a.png", "y")], r"two labels: 'x' \(entry 1\) and 'y' \(entry 2\)"),
        ([("a.png", "x"), ("z.png", "y", "z")], "Entry 2 of labels is"),
        ([("a.png", "x"), 5], "Entry 2 of labels is 5"),
        ([(5, "x")], "Entry 1 of labels"),
    ],
)
def test_labels_that_cannot_be_meant(photos, labels, complaint):
    with pytest.raises(TPNError, match=complaint):
        read_known_labels(find_images(photos), labels)


def test_a_table_without_the_right_columns(photos):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TPNError, match="no column 'label'"):
        read_known_labels(find_images(photos), pandas.DataFrame({"path": ["a.png"], "class": ["x"]}))


# labels from sub-folders


def test_a_sub_folder_is_a_class(tmp_path):
    names = ["big cat/1.png", "big cat/deep/2.png", "狗/3.png", "4.png", "Unlabelled/5.png", "unlabeled/deep/6.png"]
    images = find_images(write_images(tmp_path / "photos", names))
    label_by_folders(images)
    assert images.labels == {"big cat/1.png": "big cat", "big cat/deep/2.png": "big cat", "狗/3.png": "狗"}
    assert images.names == sorted(names)
    images.check()


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["a.png", "unlabelled/b.png"], "no class sub-folders"),
        (["x/a.png", "y/b.png"], "All 2 images .* have a label"),
    ],
)
def test_sub_folders_that_leave_nothing_to_do(tmp_path, names, complaint):
    with pytest.raises(TPNError, match=complaint):
        label_by_folders(find_images(write_images(tmp_path / "photos", names)))


def test_what_is_no_image_is_left_out_and_told_of(photos):
    for name in ("notes.txt", ".hidden.png", "Thumbs.db", "list.csv"):
        (photos / name).write_text("…")
    found = find_images(photos)
    assert found.names == sorted(NAMES)
    (sentence,) = found.problems.sentences
    assert sentence.startswith("2 files ")
    assert sentence.endswith(": list.csv; notes.txt")


def test_folders_without_images(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "notes.txt").write_text("…")
    for name, complaint in (
        ("empty", "There are no images in .*empty"),
        ("texts", "no images in .*texts.*notes.txt"),
        ("texts/notes.txt", "is a file, not a folder"),
        ("nowhere", "does not exist"),
    ):
        with pytest.raises(TPNError, match=complaint):
            find_images(tmp_path / name)
