"""What comes out: as a table, as rows, as files."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from tests.labelling.making import outcome
from tpn.labelling.label_lists import read_rows


def test_the_table_can_be_read_back_by_any_program(tmp_path):
    names = ["a, b.png", 'say "hi".png', "写真/猫.png", "doubtful.png"]
    confidence = [1.0, 0.6333, 0.7667, 0.9]
    given, kept = [True, False, False, False], [True, True, True, False]
    made = outcome(names, [0, 1, 1, 0], classes=["x,y", "ö"], given=given, kept=kept, confidence=confidence)
    made.write_csv(tmp_path / "labels.csv")
    with open(tmp_path / "labels.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    assert rows[0][:4] == ["path", "label", "confidence", "source"]
    assert [row[3] for row in rows[1:]] == ["given", "guess", "guess", "doubtful"]
    assert [row[4] for row in rows[1:]] == ["", "ö", "ö", "x,y"], "the guess, also where there is no label"
    assert [row[:2] for row in rows[1:]] == [
        ["a, b.png", "x,y"],
        ['say "hi".png', "ö"],
        ["写真/猫.png", "ö"],
        ["doubtful.png", ""],
    ]
    assert [row[2] for row in rows[1:]] == ["1.0000", "0.6333", "0.7667", "0.9000"]


def test_it_can_be_looked_at_without_any_file():
    names = [f"{index}.png" for index in range(6)]
    kept, given = [True, True, True, True, False, True], [True, False, False, True, False, False]
    confidence = [1, 0.8, 0.6, 1, 0.2, 0.9]
    made = outcome(names, [0, 0, 1, 1, 1, 0], given=given, kept=kept, confidence=confidence, suggested=[4, 2])
    assert made.labels == ["cat", "cat", "dog", "dog", "", "cat"]
    assert made.suggestions == ["4.png", "2.png"]
    lines = str(made).splitlines()
    assert [line.split() for line in lines[1:3]] == [["cat", "1", "2", "85", "%"], ["dog", "1", "1", "60", "%"]]
    assert "1 too doubtful" in lines[3]
    assert [line.strip() for line in lines[-2:]] == made.suggestions
    frame = made.to_dataframe()
    assert list(frame.columns)[:3] == ["path", "label", "confidence"]
    assert frame.set_index("path").loc["2.png"].tolist()[:2] == ["dog", 0.6]
    told = made.to_dict()
    assert told["classes"] == {"cat": {"given": 1, "labelled": 2}, "dog": {"given": 1, "labelled": 1}}
    assert told["mean_confidence"] == pytest.approx((0.8 + 0.6 + 0.2 + 0.9) / 4)
    assert json.loads(json.dumps(told)) == told


def test_a_table_of_many_classes_is_short():
    made = outcome([f"{index}.png" for index in range(500)], range(500), classes=[f"class {i}" for i in range(500)])
    assert len(str(made).splitlines()) < 30
    assert "480 more classes" in str(made)


def test_second_guesses_and_contradicted_labels_are_told(tmp_path):
    made = replace(
        outcome(["a.png", "b.png", "c.png"], [0, 1, 1], given=[True, False, False], confidence=[1, 0.6, 0.2]),
        second=np.array([-1, 0, 0]),
        second_confidence=np.array([0, 0.3, 0.1]),
        contradicted=[("a.png", "cat", "dog", 0.93)],
        unfamiliar=1,
    )
    assert made.rows()[1] == {
        "path": "b.png", "label": "dog", "confidence": 0.6, "source": "guess", "guess": "dog", "second_guess": "cat",
        "second_confidence": 0.3,
    }  # fmt: skip
    assert "a.png: cat, seems to be dog (93 %)" in str(made)
    assert "1 image has a confidence below 50 %, 1 of them unlike all classes. If some of them belong" in str(made)
    assert "confidence below" not in str(replace(made, kept=made.confidence >= 0.5)), "they are left out already"
    assert made.to_dict()["check_these"] == [{"path": "a.png", "label": "cat", "seems": "dog", "probability": 0.93}]


def test_no_cell_is_a_formula(tmp_path):
    names = ["=1+1.png", "+a.png", "-b.png", "@c.png", "'d.png", "plain.png"]
    made = outcome(names, [0] * 6, classes=["=HYPERLINK(1)"])
    made.write_csv(tmp_path / "labels.csv")
    with open(tmp_path / "labels.csv", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    assert [row[0] for row in rows] == [*(f"'{name}" for name in names[:5]), "plain.png"]
    assert all(not cell.startswith(tuple("=+-@")) for row in rows for cell in row)
    assert [path for _, path, *_ in read_rows(tmp_path / "labels.csv")] == names
    assert {label for _, _, label, _ in read_rows(tmp_path / "labels.csv")} == {"=HYPERLINK(1)"}
