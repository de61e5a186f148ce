"""Exports that other tools read: by their own loader where it is light, otherwise by their documented schema."""

import gc
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tests.labelling.making import outcome
from tpn.errors import TPNError
from tpn.labelling.exports import FORMATS, parse_export
from tpn.labelling.labelled_folder import find_images, label_by_folders, label_by_list


@pytest.fixture
def made(photos):
    """Five images: one given, three guessed, one left without a label."""
    names = find_images(photos).names
    found = outcome(names, [0, 1, 0, 1, 0], photos, ["cat", "dög"], given=[True, *[False] * 4])
    return replace(found, confidence=np.array([1, 0.9, 0.8, 0.7, 0.3]), kept=np.array([True] * 4 + [False]))


def handed_back(photos, file):
    images = find_images(photos)
    label_by_list(images, [file])
    return images.labels


@pytest.mark.parametrize("format", ["csv", "coco", "label-studio"])
def test_given_labels_can_be_handed_back_and_guesses_stay_guesses(photos, made, tmp_path, format):
    file = tmp_path / ("x.csv" if format == "csv" else "x.json")
    assert parse_export(f"{format}:{file}").write(made) == 4
    assert handed_back(photos, file) == {"a.png": "cat"}
    everything = replace(made, given=made.kept, confidence=np.ones(5))
    parse_export(f"{format}:{file}").write(everything)
    assert handed_back(photos, file) == {p: label for p, label in zip(made.paths, made.labels, strict=True) if label}


def test_coco_style_json(made, tmp_path):
    parse_export(f"coco:{tmp_path / 'x.json'}").write(made)
    content = json.loads((tmp_path / "x.json").read_text())
    images = {image["id"]: image["file_name"] for image in content["images"]}
    names = {category["id"]: category["name"] for category in content["categories"]}
    assert list(images.values()) == made.paths
    assert [(images[a["image_id"]], names[a["category_id"]], a["score"]) for a in content["annotations"]] == [
        ("a.png", "cat", 1.0), ("b c.png", "dög", 0.9), ("dir/Ünï.png", "cat", 0.8), ("z.png", "dög", 0.7),
    ]  # fmt: skip


def test_label_studio_json(made, tmp_path):
    """Tasks as Label Studio documents them: data, annotations and predictions with results of choices."""
    parse_export(f"label-studio:{tmp_path / 'x.json'}").write(made)
    tasks = json.loads((tmp_path / "x.json").read_text())
    assert len(tasks) == 5
    assert all(set(task) <= {"id", "data", "annotations", "predictions"} for task in tasks)
    (annotation,) = tasks[0]["annotations"]
    assert annotation["result"][0] == {
        "from_name": "label", "to_name": "image", "type": "choices", "value": {"choices": ["cat"]},
    }  # fmt: skip
    assert tasks[1]["predictions"][0]["score"] == 0.9
    assert "b%20c.png" in tasks[1]["data"]["image"]
    assert set(tasks[4]) == {"id", "data"}, "without a label"


def test_the_small_export_of_label_studio_is_read(photos, tmp_path):
    rows = [{"image": "/data/local-files/?d=b%20c.png", "id": 1, "choice": "x"}, {"image": "a.png", "choice": "y"}]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    assert handed_back(photos, tmp_path / "x.json") == {"b c.png": "x", "a.png": "y"}


def test_an_imagefolder_is_read_by_hugging_face(made, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    parse_export(f"imagefolder:{tmp_path / 'new'}").write(made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = datasets.load_dataset(
            "imagefolder", data_dir=str(tmp_path / "new"), split="train", cache_dir=str(tmp_path / "hf")
        )
        assert sorted(zip(read["label"], read["confidence"], strict=True)) == [
            ("cat", 0.8), ("cat", 1.0), ("dög", 0.7), ("dög", 0.9),
        ]  # fmt: skip
        assert read[0]["image"].size == (16, 16)
        del read
        gc.collect()  # it leaves files open, which must not be blamed on another test


def test_the_tree_of_fiftyone_can_be_handed_back(photos, made, tmp_path):
    """A folder for each class and `_unlabeled`, as FiftyOne's ImageClassificationDirectoryTree is documented."""
    parse_export(f"fiftyone:{tmp_path / 'tree'}").write(made)
    assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["_unlabeled", "cat", "dög"]
    images = find_images(tmp_path / "tree")
    label_by_folders(images)
    assert sorted(images.labels.values()) == ["cat", "cat", "dög", "dög"]
    assert len(images.names) == 5


@pytest.mark.parametrize(
    "content", ["{", "[]x", '{"annotations": [{"image_id": 1}]}', "5", '[{"data": 5}]', '{"a": 1}']
)
def test_json_that_is_no_list_of_labels(photos, tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(TPNError, match=r"x\.json is (not|neither)"):
        handed_back(photos, tmp_path / "x.json")


def test_places_that_are_refused(photos, made, tmp_path):
    for text in ("csv", "coco:", "yaml:x", "", "folders: "):
        with pytest.raises(TPNError, match="export must be a format and a place"):
            parse_export(text)
    (tmp_path / "there").write_text("mine")
    for name, format in FORMATS.items():
        with pytest.raises(TPNError):
            parse_export(f"{name}:{tmp_path / 'there'}").check(photos, force=False)
        if format.folder:
            with pytest.raises(TPNError, match="among the images"):
                parse_export(f"{name}:{photos / 'new'}").check(photos, force=True)
