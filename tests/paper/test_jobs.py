"""A job trains and tests once: results are kept, missing ones are added, and results of other weights are dropped."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.paper import BUDGET, do, one_cell, planned, semi_supervised, table
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.evaluation.protocol import evaluate
from tpn.images.opening import open_images
from tpn.paper import recipe, timing
from tpn.paper.budget import BUDGETS
from tpn.paper.experiments import EXPERIMENTS, find_experiment
from tpn.paper.job import Computing, Job, finished, read_result, read_timing, write_result
from tpn.paper.plan import name_of
from tpn.paper.worker import perform, perform_logged
from tpn.runs.folder import Run
from tpn.runs.loading import load


def one_job(images, out, experiment=None, **budget):
    [job] = planned(experiment or one_cell(), images, out, replace(BUDGET, **budget)).jobs.values()
    return job


def stamps(folder):
    """When each file was last written, and its inode: a rewritten file has another."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "tensorboard"]
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def test_cells_that_share_a_training_share_a_job(images, tmp_path):
    plan = planned(table(), images, tmp_path)
    assert [job.config.method for job in plan.jobs.values()] == ["tpn", "protonet"]
    assert [len(job.tests) for job in plan.jobs.values()] == [2, 3]
    assert all(name == job.name for name, job in plan.jobs.items())
    assert set(plan.of_cell.values()) == {(name,) for name in plan.jobs}
    assert not any(tmp_path.iterdir()), "a plan writes nothing"


def test_a_cell_over_partitions_has_a_job_for_each(images, tmp_path):
    plan = planned(semi_supervised(), images, tmp_path)
    for names in plan.of_cell.values():
        assert [plan.jobs[name].config.episode.split_seed for name in names] == [0, 1, 2]
    assert len(plan.jobs) == 6


def test_the_same_cell_test_is_made_once_for_several_cells(images, tmp_path):
    table1 = planned(EXPERIMENTS["table1"], images, tmp_path, BUDGETS["quick"])
    assert len(table1.jobs) == 30
    assert sum(len(job.tests) for job in table1.jobs.values()) == 40
    queries = planned(EXPERIMENTS["query-number"], images, tmp_path, BUDGETS["quick"])
    assert sum(len(job.tests) for job in queries.jobs.values()) < 72, "Train=15, Test=15 and Train=Test meet at 15"
    shared = table1.jobs.keys() & queries.jobs.keys()
    assert {name.rpartition("-")[0] for name in shared} >= {"tpn-5way-1shot-15query", "protonet-5way-5shot-15query"}


def test_a_job_survives_being_written_down(images, tmp_path):
    jobs = [
        job
        for experiment in (*EXPERIMENTS.values(), table(), semi_supervised())
        for job in planned(experiment, images, tmp_path / "a b, ä", BUDGETS["quick"]).jobs.values()
    ]
    for job in jobs:
        text = job.to_json()
        assert "\n" not in text, "one line"
        assert Job.from_json(text) == job


def test_names_tell_trainings_apart_and_nothing_else(images, tmp_path):
    config = one_job(images, tmp_path).config
    run = {
        "method": "soft-kmeans",
        "image_size": 84,
        "train_classes": 7,
        "data_digest": "other",
        "class_seed": 1,
        "seed": 1,
        "init_weights": "some",
    }
    others = [replace(config, **{name: value}) for name, value in run.items()]
    settings = {"lr": 0.5, "episodes": 3, "patience": 7, "backbone": "conv4-32", "clip": 1.0, "validate_every": 9}
    others += [replace(config, settings=replace(config.settings, **{name: value})) for name, value in settings.items()]
    episodes = {"way": 3, "shot": 2, "query": 3, "unlabelled": 1, "labelled_share": 0.5, "split_seed": 1}
    others += [replace(config, episode=replace(config.episode, **{name: value})) for name, value in episodes.items()]
    names = [name_of(other) for other in (config, *others)]
    assert len(set(names)) == len(names)
    assert name_of(replace(config, data="folder:/elsewhere")) == name_of(config)
    started = replace(config, init="/some/run", init_weights="some")
    assert name_of(started) == name_of(replace(started, init="/other/run")), "its weights decide, not where it lies"
    to_come = replace(config, init="/some/first-stage")
    assert name_of(to_come) not in (name_of(config), name_of(replace(to_come, init="/some/other-stage")))
    assert name_of(to_come) == name_of(replace(to_come, init="/elsewhere/first-stage"))
    assert name_of(config).startswith("protonet-2way-1shot-2query-")
    assert one_job(images, tmp_path / "elsewhere", test_episodes=9).name == one_job(images, tmp_path).name


@pytest.fixture(scope="module")
def done(images, tmp_path_factory):
    """A finished job. Copy it before changing it."""
    job = one_job(images, tmp_path_factory.mktemp("done"))
    assert perform(job) is None
    return job


def copied(job, tmp_path):
    out = tmp_path / "copy"
    shutil.copytree(job.out, out)
    return replace(job, out=str(out))


def test_the_result_is_that_of_the_trained_method(done, images):
    result = read_result(done)
    [test] = result["tests"]
    split = images.split("test")
    episodes = draw_episodes(split, Setting(2, 1, 3), 5, seed=0)
    expected = evaluate(load(done.run.folder), split, episodes)
    assert test["accuracies"] == pytest.approx(expected.accuracies.tolist(), abs=1e-6)
    assert (test["accuracy"], test["ci95"]) == (expected.mean.value, expected.mean.ci95)
    assert (test["method"], test["batch_norm"], test["transduction"]) == ("protonet", "running", "no")
    assert result["trained"]["episodes"] == 2
    assert [line["episode"] for line in result["trained"]["validations"]] == [0, 2]
    assert result["config"]["data"] == "quickdraw"


def test_results_do_not_tell_where_the_images_lie(done):
    assert done.out not in done.result_file.read_text()


def test_a_finished_job_does_nothing_more(done):
    assert finished(done)
    before = stamps(done.run.folder.parents[1])
    assert perform(done) is None
    assert stamps(done.run.folder.parents[1]) == before


def test_one_more_test_makes_only_the_missing_one(done, tmp_path):
    job = copied(done, tmp_path)
    [first] = read_result(job)["tests"]
    model, written = job.run.model_file.stat().st_mtime_ns, dict(first, seconds=123.0)  # a mark of the old result
    job.result_file.write_text(json.dumps({**read_result(job), "tests": [written]}))
    more = replace(job, tests=(recipe.Test(Setting(3, 1, 3)), *job.tests, recipe.Test(Setting(2, 1, 3), "soft-kmeans")))
    assert not finished(more)
    assert perform(more) is None
    tests = read_result(more)["tests"]
    assert tests[0] == written
    assert [(test["episode"]["way"], test["method"]) for test in tests[1:]] == [(3, "protonet"), (2, "soft-kmeans")]
    assert finished(more)
    assert finished(job), "what fewer ask for is there as well"
    assert job.run.model_file.stat().st_mtime_ns == model, "not trained again"


def test_other_numbers_of_episodes_are_other_tests(done, tmp_path):
    job = replace(copied(done, tmp_path), test_episodes=7)
    assert not finished(job)
    perform(job)
    assert [len(test["accuracies"]) for test in read_result(job)["tests"]] == [5, 7]


def test_results_of_other_weights_are_thrown_away(done, tmp_path):
    job = copied(done, tmp_path)
    result = read_result(job)
    result["weights"] = "0123456789abcdef"
    result["tests"][0]["accuracies"] = [0.0] * 5
    job.result_file.write_text(json.dumps(result))
    more = replace(job, tests=(*job.tests, recipe.Test(Setting(3, 1, 3))))
    assert perform(more) is None
    again = read_result(more)
    assert again["weights"] == read_result(done)["weights"]
    assert again["tests"][0]["accuracies"] == read_result(done)["tests"][0]["accuracies"]
    assert len(again["tests"]) == 2


def test_a_training_that_an_earlier_version_began_is_finished_and_tested(tmp_path):
    released = Run(Path(__file__).parents[1] / "runs" / "format-5")  # it lacks later settings
    config = replace(released.read_config(), began_as="")
    small = open_images("quickdraw", 16)
    tests = tuple(recipe.Test(Setting(2, 1, 3), flip=flip) for flip in (False, True))
    job = Job(name_of(config), str(tmp_path), config, tests, 5, Computing(threads=1, device="cpu", no_compile=True))
    shutil.copytree(released.folder, job.run.folder)
    assert config.data_digest == small.digest
    assert perform(job) is None
    result = read_result(job)
    assert result["trained"]["episodes"] == 30
    plain, flipped = (test["accuracies"] for test in result["tests"])
    method = load(job.run.folder)
    split = small.split("test")
    assert plain == pytest.approx(evaluate(method, split, draw_episodes(split, tests[0].episode, 5, seed=0)).accuracies)
    assert len(flipped) == 5


def test_a_result_that_was_removed_is_made_again_without_training(done, tmp_path):
    job = copied(done, tmp_path)
    job.result_file.unlink()
    model = job.run.model_file.stat().st_mtime_ns
    assert not finished(job)
    perform(job)
    one, other = (dict(read_result(which)["tests"][0], seconds=0) for which in (job, done))
    assert one == other
    assert job.run.model_file.stat().st_mtime_ns == model


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (40, "damaged"),
        ("", "damaged"),
        ("[]", "an object was expected"),
        ("{}", "remove it"),
        ({"format": 99}, "remove it"),
        ({"tests": None}, "remove it"),
        ({"tests": [7]}, "remove it"),
        ({"trained": None}, "remove it"),
    ],
)
def test_a_damaged_result_is_not_taken_for_one(done, tmp_path, content, complaint):
    job = copied(done, tmp_path)
    if isinstance(content, int):
        job.result_file.write_bytes(job.result_file.read_bytes()[:content])
    else:
        known = read_result(job)
        job.result_file.write_text(content if isinstance(content, str) else json.dumps({**known, **content}))
    with pytest.raises(TPNError, match=complaint):
        finished(job)


def test_a_failure_is_told_and_logged_not_raised(done, tmp_path):
    job = copied(done, tmp_path)
    job.result_file.unlink()
    job.run.model_file.write_bytes(job.run.model_file.read_bytes()[:1000])
    words = perform_logged(job.to_json())
    assert "model.safetensors is damaged" in words["failure"]
    assert words["failure"] in job.log_file.read_text()
    os.remove(job.run.config_file)
    assert "holds files and is not a run folder" in perform_logged(job.to_json())["failure"]


def test_images_that_have_changed_since_are_refused(done, tmp_path):
    job = replace(done, config=replace(done.config, data_digest="other"))
    assert "images of quickdraw changed" in perform_logged(replace(job, out=str(tmp_path)).to_json())["failure"]
    assert not (tmp_path / "runs").exists()


def test_a_test_that_cannot_be_made_is_refused_before_the_training(done, tmp_path):
    """A training takes days: too few test classes must be known before."""
    job = replace(done, out=str(tmp_path), tests=(recipe.Test(Setting(81, 1, 3)),))
    assert "needs 81 classes" in perform_logged(job.to_json())["failure"]
    assert not job.run.model_file.exists(), "nothing was trained in vain"


def test_a_test_that_cannot_be_made_does_not_keep_others_from_being_made(done, tmp_path):
    job = replace(done, out=str(tmp_path), tests=(recipe.Test(Setting(81, 1, 3)), *done.tests))
    assert "needs 81 classes" in perform_logged(job.to_json())["failure"]
    assert [test["accuracies"] for test in read_result(job)["tests"]] == [
        test["accuracies"] for test in read_result(done)["tests"]
    ]
    assert not finished(job)


def test_several_systems(images, tmp_path):
    """Weights of one method are tested as another, and with batch statistics."""
    plan = planned(table(), images, tmp_path)
    do(plan.jobs)
    tests = [test for job in plan.jobs.values() for test in read_result(job)["tests"]]
    kinds = [(test["method"], test["batch_norm"], test["transduction"]) for test in tests]
    assert kinds == [
        ("tpn", "running", "yes"),
        ("tpn", "running", "yes"),
        ("protonet", "running", "no"),
        ("protonet", "running", "no"),
        ("soft-kmeans", "batch", "bn"),
    ]


def test_the_worker_times_the_solvers_and_the_job_is_not_finished_before(images, tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 2)
    plain = one_job(images, tmp_path, one_cell("tpn"))
    timed = one_job(images, tmp_path, one_cell("tpn", time_solvers=True))
    assert timed.name == plain.name, "the same training"
    assert perform(plain) is None
    assert finished(plain)
    assert not finished(timed)
    assert read_timing(timed, timed.tests[0]) is None
    tests = read_result(plain)["tests"]
    assert perform(timed) is None
    assert finished(timed)
    assert read_result(timed)["tests"] == tests, "nothing is tested again"
    found = read_timing(timed, timed.tests[0])
    assert found["nodes"] == 2 * (1 + 3)
    assert all(found[phase][solver] > 0 for phase in ("testing", "training") for solver in ("closed", "iterative"))


def test_without_weights_a_job_with_all_tests_is_finished_though_it_was_never_timed(done, tmp_path):
    """Results can be published without their runs: a report of them must not train again."""
    [test] = done.tests
    job = copied(replace(done, tests=(replace(test, time_solvers=True),)), tmp_path)
    assert not finished(job)
    shutil.rmtree(job.run.folder)
    assert finished(job)


def test_results_of_earlier_versions_are_found_again(images, tmp_path):
    """The name has a digest of all settings: a change of it would orphan every result that was ever published."""
    names = planned(find_experiment("table1", ("tpn",)), images, tmp_path, BUDGETS["quick"]).jobs
    assert "tpn-5way-5shot-15query-f4cc89cd" in names


def test_a_result_whose_settings_have_other_values_is_refused(done, tmp_path):
    job = copied(done, tmp_path)
    result = read_result(job)
    del result["config"]["settings"]["ema"]  # a setting that did not exist when the result was made
    write_result(job.result_file, result)
    assert read_result(job) is not None
    result["config"]["settings"]["lr"] = 0.5  # a default that was another then
    write_result(job.result_file, result)
    with pytest.raises(TPNError, match="comes from another training: lr is"):
        read_result(job)
