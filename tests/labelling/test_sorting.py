"""Images sorted into a folder for each class."""

import os
import shutil
from pathlib import Path

import pytest

from tests.labelling.making import NAMES, outcome
from tpn.errors import TPNError
from tpn.labelling.labelled_folder import find_images
from tpn.labelling.sorting import check_sorting, class_folders, plan, sort_images


@pytest.mark.parametrize("how", ["copy", "link"])
def test_images_are_sorted_into_a_folder_for_each_class(photos, tmp_path, how):
    names = find_images(photos).names
    made = outcome(names, [0, 1, 0, 1, 0], photos, ["cat", "dög / 犬"], kept=[True, True, True, True, False])
    check_sorting(tmp_path / "new" / "sorted", photos)
    assert sort_images(made, tmp_path / "new" / "sorted", how) == 5
    found = {path.relative_to(tmp_path / "new" / "sorted").as_posix() for path in (tmp_path / "new").rglob("*.png")}
    expected = [f"{['cat', 'dög _ 犬'][made.predicted[i]]}/{os.path.basename(names[i])}" for i in range(4)]
    expected.append("unlabelled/猫.png")  # too doubtful
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
    names = find_images(photos).names
    os.remove(photos / "z.png")
    with pytest.raises(TPNError, match=r"Cannot write .*sorted: No such file"):
        sort_images(outcome(names, [0] * 5, photos), tmp_path / "sorted", "copy")
    assert sorted(os.listdir(tmp_path)) == ["photos"]


def test_places_that_are_taken(photos, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    check_sorting(tmp_path / "empty", photos)
    for target, complaint in (
        (photos, "not an empty folder"),
        (tmp_path / "file", "not an empty folder"),
        (photos / "sorted", "among the images"),
        (tmp_path / "file" / "sorted", "file is a file"),
    ):
        with pytest.raises(TPNError, match=complaint):
            check_sorting(target, photos)
    monkeypatch.chdir(tmp_path / "empty")
    (tmp_path / "link").symlink_to("empty")
    for target in (".", tmp_path / "link"):
        check_sorting(Path(target), photos)
        sort_images(outcome(NAMES, [0] * 5, photos), Path(target), "copy")
        assert len(os.listdir(tmp_path / "empty" / "cat")) == 5
        shutil.rmtree(tmp_path / "empty" / "cat")
