"""Heads on runs and on features, and their benchmark."""

import json

import numpy as np
import pytest

import tpn
from tests.tiny import TINY
from tpn.evaluation.protocol import roc_area
from tpn.runs.base_mean import FILE

QUICK = {"way": 3, "query": 4, "tasks": 6, "threads": 1}
HEADS = ("simple-shot", "laplacian-shot", "paddle")


@pytest.fixture(scope="module")
def data():
    """Noisy images of 16x16 pixels around one of each class."""
    rng = np.random.default_rng(0)
    given = {}
    for number, split in enumerate(("train", "val", "test")):
        labels = np.repeat(np.arange(8) + 8 * number, 12)
        images = rng.random((24, 16, 16, 1))[labels] + 0.5 * rng.random((len(labels), 16, 16, 1))
        given[split] = ((images / 1.5).astype(np.float32), labels)
    return tpn.images_from(**given, progress=False)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    return tpn.train("protonet", data, out=tmp_path_factory.mktemp("heads") / "run", progress=False, **TINY)


def some_features(splits=("train", "test"), classes=6, per_class=20):
    rng = np.random.default_rng(0)
    given = {}
    for number, split in enumerate(splits):
        labels = np.repeat(np.arange(classes) + classes * number, per_class)
        centres = rng.normal(size=(classes * len(splits), 16)) + 3
        given[split] = ((centres[labels] + rng.normal(size=(len(labels), 16))).astype(np.float32), labels)
    return tpn.images_from(**given, progress=False)


def test_a_head_is_tested_on_the_backbone_of_any_run_and_the_mean_of_its_training_classes_is_kept(run, data):
    options = {"data": data, "episodes": 5, "shot": 2, "threads": 1, "progress": False}
    centred = tpn.evaluate(run.folder, as_method="simple-shot", **options)
    assert (run.folder / FILE).is_file()
    assert centred.class_balance == "unknown"
    assert centred.head_settings == {"transform": "auto"}
    raw = tpn.evaluate(run.folder, as_method="simple-shot", transform="none", **options)
    np.testing.assert_allclose(raw.accuracies, tpn.evaluate(run.folder, **options).accuracies)
    method, split = tpn.load(run.folder, as_method="laplacian-shot"), data.split("train")
    embedded = method.embed(split.load(np.arange(len(split)))).detach().numpy()
    np.testing.assert_allclose(method.base_mean, embedded.mean(0), rtol=1e-4, atol=1e-5)


def test_a_head_is_tested_on_features_and_takes_its_own_settings():
    features = some_features()
    options = {"way": 3, "shot": 1, "query": 5, "episodes": 20, "progress": False}
    assert tpn.evaluate("laplacian-shot", features, **options).accuracy > 0.6
    result = tpn.evaluate("pt-map", features, temperature=5.0, **options)
    assert result.head_settings["temperature"] == 5
    assert "class balance of the queries: assumed equal" in str(result)
    with pytest.raises(tpn.TPNError, match="mean feature of the training classes"):
        tpn.evaluate("simple-shot", some_features(("test",)), transform="cl2", **options)
    assert tpn.evaluate("simple-shot", some_features(("test",)), **options).accuracy > 0.6


def test_queries_of_no_class_have_an_area_under_the_curve_and_do_not_count_as_errors():
    options = {"way": 2, "shot": 3, "query": 5, "episodes": 20, "progress": False}
    result = tpn.evaluate("simple-shot", some_features(), open_classes=3, **options)
    assert 0.5 < result.auroc <= 1
    assert result.to_dict()["auroc"] == result.auroc
    assert result.accuracy > 0.7
    assert "AUROC" in str(result)


def test_the_area_under_the_curve_is_that_of_all_pairs():
    rng = np.random.default_rng(0)
    known, unknown = rng.integers(0, 6, 30) / 5.0, rng.integers(0, 5, 20) / 5.0
    pairs = np.mean([(one > other) + 0.5 * (one == other) for one in known for other in unknown])
    assert roc_area(known, unknown) == pytest.approx(pairs)


def test_a_whole_collection_is_tested_as_one_episode():
    result = tpn.evaluate("simple-shot", some_features(), whole=True, shot=2, episodes=3, progress=False)
    assert len(result.accuracies) == 3
    assert (np.round(result.accuracies * 6 * 18) == result.accuracies * 6 * 18).all()


def test_grey_images_are_tested_on_a_network_for_colour():
    result = tpn.evaluate("mini-conv4", "quickdraw", way=3, shot=1, query=2, episodes=2, threads=1, progress=False)
    assert 0 <= result.accuracy <= 1


def test_open_queries_are_refused_in_training(refused, tmp_path):
    error = refused("train", "protonet", "--open-classes", 2, "--out", tmp_path / "run")
    assert "--open-classes is for tests" in error


def test_a_benchmark_tests_all_heads_on_the_same_tasks_and_continues_where_it_stopped(run, data, tmp_path):
    options = {**QUICK, "heads": (*HEADS, "protonet"), "settings": ("balanced", "dirichlet", "open-set")}
    options |= {"tune_tasks": 3, "cache": tmp_path / "cache", "out": tmp_path / "out"}
    result = tpn.benchmark(run.folder, data, tune=True, progress=False, **options)
    assert len(result.cells) == 12
    own = tpn.evaluate(run.folder, data, way=3, shot=1, query=4, episodes=6, threads=1, progress=False)
    assert result.column("balanced", 1)["protonet"].accuracies == pytest.approx(own.accuracies, abs=1e-6)
    tuned = json.loads((tmp_path / "out" / "tuned.json").read_text())
    assert tuned["chosen"]["1"]["paddle"] in [one["settings"] for one in tuned["trials"]["1"]["paddle"]]
    assert {file.name for file in result.files} >= {"benchmark.html", "benchmark.csv", "benchmark.json", "benchmark.md"}
    page = (tmp_path / "out" / "benchmark.html").read_text()
    assert all(head in page for head in HEADS)
    assert "chosen on the validation classes" in page
    top = max(result.column("dirichlet", 1).values(), key=lambda cell: cell.accuracy.value)
    assert top.head in result.best("dirichlet", 1)

    cell, changed = (tmp_path / "out" / "cells" / f"balanced-1shot-{head}.json" for head in ("paddle", "protonet"))
    cell.unlink()
    stored = json.loads(changed.read_text())
    changed.write_text(json.dumps({**stored, "settings": {**stored["settings"], "lr": 0.5}, "accuracies": [0.0]}))
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out" / "cells").iterdir() if file != changed}
    again = tpn.benchmark(run.folder, data, tune=True, progress=False, **options).to_dict()
    assert [row["accuracy"] for row in again["results"]] == [row["accuracy"] for row in result.rows()]
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert cell.is_file()


def test_a_benchmark_refuses_what_it_cannot_test(run, refused):
    assert "--cross-data" in refused("benchmark", run.folder, "--settings", "cross-domain")
    assert "has weights of its own" in refused("benchmark", run.folder, "--heads", "relation-net")
    assert "--tasks must be at least 1" in refused("benchmark", run.folder, "--tasks", 0)
