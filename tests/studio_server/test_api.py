"""The API by itself: what pages get, what actions do, and that nothing that is sent breaks it."""

import csv
import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import EXAMPLES
from tests.studio_server.making import until
from tpn.labelling.session_map import lay_out
from tpn.labelling.session_neighbours import find_neighbours
from tpn.studio_server.app import make_app
from tpn.studio_server.standing import Standing, expected_right

HOST = "127.0.0.1:8123"


@pytest.fixture
def client(workspace):
    client = TestClient(make_app(workspace, "token", "127.0.0.1", 8123), base_url=f"http://{HOST}")
    client.get("/?token=token")
    client.headers["origin"] = f"http://{HOST}"
    return client


def label(client, images, name, **more):
    changes = [{"to": "label", "label": name, "images": images}]
    return client.post("/api/act", json={"do": "label", "changes": changes, **more})


def arrays(client):
    """Decode the arrays as the page does."""
    content = client.get("/api/arrays").content
    count, version, guessed, revision = np.frombuffer(content, "<u4", 4)
    at, found = 16, {"count": count, "version": version, "guessed": guessed, "revision": revision}
    for name, kind, columns in (
        ("mark", "<i2", 1),
        ("best", "<i2", 3),
        ("confidence", "<u2", 1),
        ("probability", "u1", 3),
        ("familiarity", "u1", 1),
        ("flags", "u1", 1),
    ):
        found[name] = np.frombuffer(content, kind, int(count) * columns, at).reshape(columns, -1).squeeze()
        at += found[name].nbytes
    assert at == len(content)
    return found


def label_some(client, truth, each=2):
    names = client.get("/api/names").json()
    for class_ in sorted(set(truth.values())):
        assert (
            label(client, [i for i, name in enumerate(names) if truth[name] == class_][:each], class_).status_code
            == 200
        )
    revision = client.get("/api/state").json()["revision"]
    until(lambda: arrays(client)["guessed"] == revision)
    return names


def test_labels_spread_to_all_images(client, drawings):
    _, truth = drawings
    names = label_some(client, truth)
    state, found = client.get("/api/state").json(), arrays(client)
    classes = {one["number"]: one["name"] for one in state["classes"]}
    assert [classes[int(number)] for number in found["best"][0]] == [truth[name] for name in names]
    assert (found["mark"] >= 0).sum() == 6
    assert (found["confidence"][found["mark"] >= 0] == 10_000).all()
    assert (found["confidence"][found["mark"] < 0] < 10_000).all()
    assert state["standing"]["labels"] == 6
    assert 0.5 < state["standing"]["expected"] <= 1
    until(lambda: client.get("/api/next").json())
    assert not {int(i) for i in np.flatnonzero(found["mark"] >= 0)} & set(client.get("/api/next").json())


def test_guesses_that_a_page_has_are_not_sent_again(client, drawings):
    label_some(client, drawings[1])
    whole = client.get("/api/arrays").content
    version = int(np.frombuffer(whole, "<u4", 4)[1])
    short = client.get(f"/api/arrays?have={version}").content
    assert len(short) == 16 + 3 * 30
    assert short[: 16 + 60] == whole[: 16 + 60], "the same head and marks"
    for other in (version - 1, -1, "x", ""):
        assert len(client.get(f"/api/arrays?have={other}").content) == len(whole)


def test_details_of_an_image_say_why(client, drawings):
    _, truth = drawings
    names = label_some(client, truth)
    marked = set(np.flatnonzero(arrays(client)["mark"] >= 0).tolist())
    image = next(i for i in range(30) if i not in marked)
    detail = client.get(f"/api/images/{image}").json()
    assert detail["path"] == names[image]
    assert set(detail["near"]) <= marked
    assert truth[names[detail["near"][0]]] == truth[names[image]]


def test_undo_redo_rename_merge_none_skip(client, drawings):
    label(client, [0, 1], "cat")
    label(client, [2], "dog")
    act = lambda **action: client.post("/api/act", json=action)  # noqa: E731
    assert act(do="rename class", name="cat", to="kitten").status_code == 200
    assert act(do="merge classes", name="dog", into="kitten").status_code == 200
    assert (arrays(client)["mark"][:3] == 0).all()
    assert [one["name"] for one in client.get("/api/state").json()["classes"]] == ["kitten"]
    for _ in range(2):
        act(do="undo")
    state = client.get("/api/state").json()
    assert [one["name"] for one in state["classes"]] == ["cat", "dog"]
    assert (state["undo"], state["redo"]) == ("dog: 1 image", "rename cat")
    act(do="redo")
    act(do="label", changes=[{"to": "none", "images": [5]}, {"to": "skip", "images": [6]}])
    assert arrays(client)["mark"][[5, 6]].tolist() == [-2, -3]


def test_an_action_that_is_repeated_counts_once(client):
    first, again = label(client, [3], "x", id="one"), label(client, [3], "x", id="one")
    assert first.json() == again.json() == {"revision": 1}


def test_a_wrong_label_is_listed(client, drawings):
    _, truth = drawings
    names = client.get("/api/names").json()
    members = {class_: [i for i, name in enumerate(names) if truth[name] == class_] for class_ in set(truth.values())}
    one, other = sorted(members)[:2]
    for class_, images in members.items():
        label(client, images[:6], class_)
    label(client, members[one][:1], other)
    found = until(lambda: client.get("/api/state").json()["check"])
    assert [entry["image"] for entry in found] == members[one][:1]


def test_the_map_brings_like_to_like(client, drawings):
    _, truth = drawings
    names = client.get("/api/names").json()
    until(lambda: client.get("/api/state").json()["map"])
    places = np.frombuffer(client.get("/api/map").content, "<f4").reshape(-1, 2)
    classes = np.array([truth[name] for name in names])
    distances = np.linalg.norm(places[:, None] - places[None], axis=2) + 9 * np.eye(30)
    assert (classes[distances.argmin(1)] == classes).mean() > 0.9
    assert np.abs(places).max() <= 1.1


def test_the_same_map_every_time():
    points = np.random.default_rng(0).normal(0, 1, (50, 8)).astype(np.float32)
    near = find_neighbours(points, 1)[1]
    np.testing.assert_array_equal(lay_out(points, near), lay_out(points, near))
    assert lay_out(points[:2], near[:2, :1]).shape == (2, 2)


def test_exports_and_imports_from_the_page(client, drawings, tmp_path):
    folder, truth = drawings
    label_some(client, truth)
    target = tmp_path / "labels.csv"
    done = client.post("/api/export", json={"format": "csv", "path": str(target)})
    assert done.json() == {"labels": 30, "path": str(target)}
    with open(target, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["path"]: row["label"] for row in rows} == truth
    assert client.post("/api/export", json={"format": "csv", "path": str(target)}).status_code == 422
    assert client.post("/api/export", json={"format": "folders", "path": str(tmp_path / "sorted")}).status_code == 200
    assert sorted(path.name for path in (tmp_path / "sorted").iterdir()) == sorted(set(truth.values()))
    text = "path,label\n" + "\n".join(f"{name},{class_}" for name, class_ in truth.items())
    assert client.post("/api/import", json={"name": "list.csv", "text": text}).json() == {"taken": 24, "notes": []}
    assert (arrays(client)["mark"] >= 0).all()
    answer = client.post("/api/import", json={"name": "list.csv", "text": "path,label\nnowhere.png,x\n"})
    assert "nowhere.png" in answer.json()["error"]
    assert folder.is_dir()


def test_what_is_expected_to_be_right():
    confidence, given = np.array([1, 0.5, 0.9, 0.8]), np.array([True, False, False, False])
    assert expected_right(confidence, given, None) == pytest.approx(3.2 / 4)
    standing = Standing()
    for labels in (2, 4, 8, 16, 32):
        standing.add(labels, np.full(1000, 1 - 1 / labels), np.zeros(1000, bool), None)
    assert standing.gain() == pytest.approx(1 / 32 - 1 / 52, rel=1e-3), "the error is one over the labels"


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 40),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)
FIELDS = [
    "do",
    "changes",
    "id",
    "name",
    "to",
    "into",
    "colour",
    "images",
    "label",
    "format",
    "path",
    "text",
    "force",
    "min_confidence",
]
WORDS = [
    "label",
    "undo",
    "redo",
    "add class",
    "rename class",
    "merge classes",
    "remove class",
    "colour class",
    "none",
    "cat",
    "#ff0000",
]
words = st.one_of(st.sampled_from(WORDS), json_values)
change = st.dictionaries(
    st.sampled_from(["to", "label", "images"]), st.one_of(words, st.lists(st.integers(-1, 31), max_size=3))
)
body = st.dictionaries(st.sampled_from(FIELDS), st.one_of(words, st.lists(change, max_size=2)), max_size=5)


@settings(max_examples=4 * EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["act", "export", "import"]), st.one_of(body, json_values))
def test_whatever_is_sent_is_answered(client, workspace, where, sent):
    if where == "export" and isinstance(sent, dict):
        sent = {**sent, "path": 5 if sent.get("path") is None else None}  # nothing is to be written
    answer = client.post(f"/api/{where}", content=json.dumps(sent), headers={"content-type": "application/json"})
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 422:
        assert answer.json()["error"]
    state = client.get("/api/state").json()
    assert state["revision"] == workspace.session.revision


def test_a_folder_that_vanishes_and_a_picture(client, drawings):
    folder, _ = drawings
    client.get("/thumbnails/1")
    os.remove(folder / "drawing 00.png")
    assert client.get("/thumbnails/0").status_code == 404
    assert client.get("/api/images/0").json()["bytes"] == -1
    os.rename(folder, folder.with_name("elsewhere"))
    state = client.get("/api/state").json()
    assert state["folder_gone"]
    assert label(client, [2], "still possible").status_code == 200, "the journal is open"
