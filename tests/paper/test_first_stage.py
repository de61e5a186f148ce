"""Systems that start with the same pre-trained backbone: the cpu budget."""

from dataclasses import replace

import pytest

from tests.paper import BUDGET, do, one_cell, planned, table
from tpn.cli import main
from tpn.errors import TPNError
from tpn.paper import two_stages
from tpn.paper.budget import BUDGETS, FIRST_STAGE
from tpn.paper.experiments import find_experiment
from tpn.paper.job import Computing, read_result
from tpn.paper.measured import collect
from tpn.paper.report.report import Report
from tpn.runs.loading import load, weights_digest
from tpn.training import device

SHORT = {"episodes": 2, "batch_size": 16, "validate_every": 2, "validation_episodes": 2, "classifier": "cosine"}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(two_stages, "SMALL", SHORT)


def test_one_first_stage_is_trained_for_all_systems(images, tmp_path):
    plan = planned(table(), images, tmp_path, replace(BUDGET, init=FIRST_STAGE))
    [first] = plan.first.values()
    assert first.config.method == "classifier-baseline"
    backbones = {job.config.settings.backbone for job in (first, *plan.jobs.values())}
    assert backbones == {"conv4-linear"}, "the last ReLU is that of the first stage"
    assert {job.config.init for job in plan.jobs.values()} == {str(first.run.folder)}
    do(plan.first)
    do(plan.jobs)
    digest = weights_digest(first.run)
    for job in plan.jobs.values():
        assert job.run.read_config().init_weights == digest
        assert read_result(job)["start"] == first.name
    again = planned(table(), images, tmp_path, replace(BUDGET, init=FIRST_STAGE))
    assert again.jobs.keys() == plan.jobs.keys(), "names do not depend on what is there already"
    report = Report(table(), BUDGETS["cpu"], "cpu", images.spec, 28, plan, collect(plan), {}, "tpn paper")
    assert report.budget_title == "cpu budget (warm start, 20,000 training images)"


def test_the_shipped_weights_are_trained_in_two_stages_and_at_the_quick_budget_from_scratch(images, tmp_path):
    shipped, pretrained = find_experiment("mini-conv4"), find_experiment("mini-conv4-pretrained")
    plan = planned(shipped, images, tmp_path, replace(BUDGET, episodes=None))
    [first], [second] = plan.first.values(), plan.jobs.values()
    assert second.config.init == str(first.run.folder)
    assert second.config.settings.unit_features
    assert planned(shipped, images, tmp_path, BUDGETS["quick"]).first == {}
    for budget in ("cpu", "quick"):
        plan = planned(pretrained, images, tmp_path, BUDGETS[budget])
        assert plan.first == {}
        assert [job.config.init for job in plan.jobs.values()] == [None], "a first stage starts from scratch"


def test_a_small_resnet_has_a_first_stage_of_its_own(images, tmp_path):
    plan = planned(find_experiment("mini-resnet12"), images, tmp_path, replace(BUDGET, episodes=None))
    [first], [second] = plan.first.values(), plan.jobs.values()
    assert first.config.settings.backbone == second.config.settings.backbone == "resnet12-16"
    table = planned(find_experiment("resnet"), images, tmp_path, BUDGETS["cpu"])
    assert table.first.keys() == plan.first.keys(), "the systems of the ResNet table start with the same one"


def test_a_graph_starts_with_a_scale_that_fits_the_backbone(images, tmp_path):
    def settings(budget):
        jobs = planned(one_cell("tpn"), images, tmp_path, budget).jobs
        return [(job.config.settings.unit_features, job.config.settings.initial_sharpness) for job in jobs.values()]

    assert settings(BUDGET) == [(False, 1.0)]
    assert settings(replace(BUDGET, init=FIRST_STAGE)) == [(True, 6.0)]


def test_every_system_of_a_table_keeps_what_the_backbone_has_learned(images, tmp_path):
    budget = replace(BUDGET, init=FIRST_STAGE)
    jobs = {}
    for name in ("table1", "table3", "resnet"):
        jobs |= planned(find_experiment(name), images, tmp_path, budget).jobs
        assert {(job.config.settings.backbone_lr, job.config.settings.ema) for job in jobs.values()} == {(0.1, 0.97)}
    lengths = {
        job.config.method: job.config.settings.feature_length
        for job in jobs.values()
        if hasattr(job.config.settings, "feature_length")
    }
    compare_lengths = ("protonet", "tadam", "soft-kmeans", "soft-kmeans-cluster", "masked-soft-kmeans")
    assert lengths == dict.fromkeys(compare_lengths, 3.0)


def test_another_run_can_be_the_start(images, tmp_path):
    call = ["pretrain", "--episodes", "1", "--batch-size", "16", "--validation-episodes", "2"]
    assert main([*call, "--out", str(tmp_path / "own")]) == 0
    plan = planned(table(), images, tmp_path / "out", replace(BUDGET, init=str(tmp_path / "own")))
    assert plan.first == {}
    assert {job.config.init for job in plan.jobs.values()} == {str(tmp_path / "own")}
    assert {job.config.settings.backbone for job in plan.jobs.values()} == {"conv4"}, "that of the run"
    assert main([*call, "--backbone", "resnet12-16", "--out", str(tmp_path / "other")]) == 0
    with pytest.raises(TPNError, match="has the backbone resnet12-16, but this experiment needs conv4"):
        planned(table(), images, tmp_path / "out", replace(BUDGET, init=str(tmp_path / "other")))


def test_a_relation_network_starts_with_the_weights_of_a_conv4(tmp_path):
    call = ["--episodes", "1", "--validation-episodes", "2", "--threads", "1"]
    assert main(["pretrain", *call, "--batch-size", "16", "--out", str(tmp_path / "first")]) == 0
    start = ["--init", str(tmp_path / "first"), "--lr", "1e-12", "--backbone", "conv4-maps"]
    assert main(["train", "relation-net", *call, *start, "--out", str(tmp_path / "second")]) == 0
    first, second = (load(tmp_path / name).state_dict() for name in ("first", "second"))
    for index in range(4):
        name = f"backbone.blocks.{index}.convolution.weight"
        assert (first[name] - second[name]).abs().max() < 1e-6


def test_compile_is_for_the_methods_that_can_be_compiled(images, tmp_path):
    jobs = planned(find_experiment("table1"), images, tmp_path, BUDGETS["quick"]).jobs.values()
    compiled = {job.config.method: Computing(device="cpu", compile=True).prepare(job.config).compile for job in jobs}
    assert compiled["tpn"]
    assert compiled["maml"]
    assert not Computing(device="cpu").prepare(next(job.config for job in jobs if job.config.method == "maml")).compile


def test_what_gains_from_a_compiler_uses_it_by_itself(images, tmp_path, monkeypatch):
    monkeypatch.setattr(device, "check_compiler", lambda device: None)
    jobs = planned(find_experiment("table1"), images, tmp_path, BUDGETS["quick"]).jobs.values()
    compiled = {}
    for job in jobs:
        long = replace(job.config, image_size=84, settings=replace(job.config.settings, episodes=1_000))
        compiled[long.method] = Computing(device="cpu").prepare(long).compile
        short = replace(long, settings=replace(long.settings, episodes=4))
        assert not Computing(device="cpu").prepare(short).compile
        assert not Computing(device="cpu", no_compile=True).prepare(long).compile
        if long.method == "maml":
            at_once = replace(long, settings=replace(long.settings, vectorised=True))
            assert not Computing(device="cpu").prepare(at_once).compile
    assert compiled["tpn"]
    assert compiled["maml"]
    assert compiled["maml-transduction"]
    assert not compiled["reptile"], "its batches are too small"
