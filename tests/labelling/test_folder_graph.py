"""The graph that the studio keeps between starts."""

import numpy as np
import pytest

from tpn.labelling import folder_graph
from tpn.labelling.folder_graph import FolderGraph, KeptGraph, source_of_features, source_of_files


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    made = (np.repeat(rng.normal(0, 1, (3, 40)), 20, axis=0) + rng.normal(0, 0.4, (60, 40))).astype(np.float32)
    made[7] = made[6]  # identical images are one node of the graph
    return made


@pytest.fixture
def kept(features, tmp_path):
    graph = FolderGraph.build(features, np.arange(0, 60), 1, complete=True)
    folder = KeptGraph(tmp_path / "graph")
    folder.save("source", graph)
    return folder, graph


def labels(number=60):
    codes = np.full(number, -1)
    codes[[0, 20, 40]] = 3, 5, 8
    return codes


def test_a_kept_graph_gives_the_same_guesses(kept):
    folder, built = kept
    opened = folder.open("source", 1)
    expected, found = built.engine.guess(labels()), opened.engine.guess(labels())
    np.testing.assert_array_equal(found.best[:, 0], expected.best[:, 0])
    np.testing.assert_allclose(found.probability, expected.probability, atol=5e-3)
    np.testing.assert_array_equal(opened.rows, built.rows)
    np.testing.assert_array_equal(opened.neighbours, built.neighbours)
    np.testing.assert_array_equal(opened.engine.groups, built.engine.groups)
    assert opened.places is None


def test_the_map_is_kept_too(kept):
    folder, _ = kept
    places = np.zeros((60, 2), np.float32)
    folder.save_map("source", places)
    np.testing.assert_array_equal(folder.open("source", 1).places, places)
    folder.save_map("another source", places)
    assert folder.open("source", 1).places is None


def test_other_features_and_settings_are_not_taken_for_it(kept, monkeypatch):
    folder, _ = kept
    assert folder.open("another source", 1) is None
    assert KeptGraph(folder.folder / "nowhere").open("source", 1) is None
    monkeypatch.setattr(folder_graph, "NEIGHBOURS", 11)
    assert folder.open("source", 1) is None


@pytest.mark.parametrize("name", ["points.npz", "folder-graph.json", "graph/points.npy", "graph/graph.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_graph_is_built_again(kept, name, damage):
    file = kept[0].folder / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x55
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(bytes(content) if damage == "flip" else bytes(content[: len(content) // 2]))
    assert kept[0].open("source", 1) is None


def test_what_identifies_features(features, tmp_path):
    assert source_of_features(features) == source_of_features(features.copy())
    assert source_of_features(features) != source_of_features(features + 1)
    (tmp_path / "a.png").write_bytes(b"one")
    before = source_of_files("network", tmp_path, ["a.png"])
    assert before == source_of_files("network", tmp_path, ["a.png"])
    assert before != source_of_files("another", tmp_path, ["a.png"])
    (tmp_path / "a.png").write_bytes(b"another")
    assert before != source_of_files("network", tmp_path, ["a.png"])
