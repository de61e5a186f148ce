"""A second `tpn label` on the same folder: what is known is not made again."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tpn
from tests.labelling.making import write_images
from tpn.labelling.feature_cache import FeatureCache, digest, facts_of
from tpn.labelling.folder_graph import GRAPHS, FolderGraph
from tpn.labelling.network_choice import published_key
from tpn.workflows import label_graph

NETWORK = "efficientnet-lite0"
NAMES = [f"{index:02}.png" for index in range(30)]
LABELS = {"00.png": "a", "01.png": "b", "02.png": "c"}


@pytest.fixture
def embedded(tmp_path, monkeypatch):
    """Images of three classes whose features are in the cache."""
    monkeypatch.setenv("TPN_CACHE", str(tmp_path / "cache"))
    photos = write_images(tmp_path / "photos", NAMES)
    rng = np.random.default_rng(0)
    middles = rng.gamma(0.5, 1, (3, 40))
    with FeatureCache(tmp_path / "cache") as cache:
        for index, name in enumerate(NAMES):
            content = digest((photos / name).read_bytes())
            features = middles[index % 3] + rng.gamma(0.5, 0.2, 40)
            cache.put_features(published_key(NETWORK), [(content, features)])
            cache.put_files([(photos / name, facts_of(photos / name), content)])
    return photos


def label(photos, **options):
    return tpn.label_folder(photos, labels=LABELS, backbone=NETWORK, threads=1, progress=False, **options)


@pytest.fixture
def kept(embedded, monkeypatch):
    """The same, labelled once: the graph is kept."""
    monkeypatch.setattr(label_graph, "WORTH_KEEPING", 10)
    first = label(embedded, suggest=3)
    assert first.labels == ["a", "b", "c"] * 10
    return embedded, first


def refuse(*_, **__):
    raise AssertionError("this is known already")


def test_a_folder_whose_features_are_known_is_labelled_without_torch(embedded):
    program = (
        "import sys, tpn\n"
        f"found = tpn.label_folder({str(embedded)!r}, labels={LABELS}, backbone={NETWORK!r}, progress=False)\n"
        "assert found.labels == ['a', 'b', 'c'] * 10, found.labels\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))


def test_the_graph_of_a_large_folder_is_kept(kept, monkeypatch):
    photos, first = kept
    monkeypatch.setattr(label_graph, "find_features", refuse)
    monkeypatch.setattr(FolderGraph, "of_points", refuse)
    again = label(photos, suggest=3)
    assert again.labels == first.labels
    np.testing.assert_array_equal(again.confidence, first.confidence)
    assert again.suggestions == first.suggestions
    assert label(photos, alpha=0.5, rounds=1).labels == first.labels  # which the graph does not depend on


@pytest.mark.parametrize("change", ["times", "content", "a new image", "neighbours", "damage"])
def test_a_graph_of_something_else_is_not_taken(kept, monkeypatch, tmp_path, change):
    photos, _ = kept
    build, built = FolderGraph.of_points, []
    monkeypatch.setattr(
        FolderGraph, "of_points", classmethod(lambda _, *given: built.append(len(given[0])) or build(*given))
    )
    options = {}
    if change == "times":
        os.utime(photos / "05.png", ns=(1, 1))
    elif change == "content":
        (photos / "05.png").write_bytes((photos / "06.png").read_bytes())
    elif change == "a new image":
        (photos / "zz.png").write_bytes((photos / "06.png").read_bytes())
    elif change == "neighbours":
        options = {"neighbours": 5}
    else:
        for file in (tmp_path / "cache" / GRAPHS).rglob("*.npy"):
            file.write_bytes(file.read_bytes()[:-8] + b"\xa5" * 8)
    found = label(photos, **options)
    assert built == [31 if change == "a new image" else 30]
    assert found.labels[:5] == ["a", "b", "c", "a", "b"]
    label(photos, **options)
    assert len(built) == 1, "the new one is kept"


def test_a_small_folder_and_a_labelling_to_be_saved_keep_working(kept, tmp_path):
    photos, first = kept
    found = label(photos, save=tmp_path / "labelling")
    assert found.labels == first.labels
    assert (tmp_path / "labelling").stat().st_size > 0


def test_no_graph_is_kept_of_a_small_folder(embedded, tmp_path):
    label(embedded)
    assert not (tmp_path / "cache" / GRAPHS).exists()


def test_a_disk_without_space_for_the_graph_does_not_matter(embedded, tmp_path, monkeypatch):
    monkeypatch.setattr(label_graph, "WORTH_KEEPING", 10)
    (tmp_path / "cache" / GRAPHS).write_text("not a folder")
    assert label(embedded).labels == ["a", "b", "c"] * 10
