"""The recipes: rows and columns as in the paper, shared trainings, budgets."""

from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from tpn.cli import main
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.methods._config import Config
from tpn.methods._registry import find_method
from tpn.paper import budget as budgets
from tpn.paper import published, recipe
from tpn.paper.budget import Budget
from tpn.paper.experiments import EXPERIMENTS, find_experiment
from tpn.paper.plan import images_in, settings_for
from tpn.paper.tables import systems

BUDGETS = {name: budget.starting_with(None) for name, budget in budgets.BUDGETS.items()}
FULL, QUICK = BUDGETS["full"], BUDGETS["quick"]
EVERY_TRAINING = {cell.training for experiment in EXPERIMENTS.values() for cell in experiment.cells}


def trainings(name, *methods):
    return {cell.training for cell in find_experiment(name, methods).cells}


def cell_of(name, row, column):
    [cell] = [cell for cell in EXPERIMENTS[name].cells if (cell.row, cell.column) == (row, column)]
    return cell


SHAPES = {  # experiment -> rows, columns, trainings
    "table1": (10, 4, 30),
    "table2": (10, 4, 30),
    "table3": (4, 4, 16),
    "table4": (4, 4, 16),
    "k-shot": (6, 10, 51),  # one of Reptile for all shots
    "training-shots": (2, 10, 10),
    "query-number": (2 * 2 * 3, 6, 2 * 2 * 6),
    "resnet": (5, 2, 9),
    "closed-form": (2, 2, 4),
    "mini-conv4-pretrained": (1, 4, 1),
    "mini-conv4": (2, 4, 1),
    "mini-resnet12-pretrained": (1, 4, 1),
    "mini-resnet12": (2, 4, 1),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_table_has_the_rows_and_columns_of_the_paper_each_cell_once(name):
    experiment = EXPERIMENTS[name]
    rows, columns, trained = SHAPES[name]
    places = [(cell.row, cell.column) for cell in experiment.cells]
    assert len(set(places)) == len(places) == rows * columns
    assert (len(experiment.rows), len(experiment.columns)) == (rows, columns)
    assert len(trainings(name)) == trained
    assert experiment.name == name


def test_there_are_no_other_experiments():
    assert set(EXPERIMENTS) == set(SHAPES)


@pytest.mark.parametrize(("name", "numbers"), [(f"table{n}", getattr(published, f"TABLE_{n}")) for n in (1, 2, 3, 4)])
def test_published_numbers_stand_where_the_paper_has_them(name, numbers):
    experiment = EXPERIMENTS[name]
    found = {(cell.row, cell.column): (cell.published.value, cell.published.uncertainty) for cell in experiment.cells}
    assert list(numbers) == experiment.rows
    expected = {
        (row, column): number
        for row, values in numbers.items()
        for column, number in zip(experiment.columns, values, strict=True)
    }
    assert found == expected


def test_the_settings_that_a_column_names_are_those_of_its_test():
    for name in ("table1", "table2", "mini-conv4", "mini-resnet12"):
        for cell in EXPERIMENTS[name].cells:
            assert cell.column == f"{cell.test.episode.way}-way {cell.test.episode.shot}-shot"
    for name in ("table3", "table4"):
        for cell in EXPERIMENTS[name].cells:
            trained, tested = cell.training.episode, cell.test.episode
            assert cell.column == f"{tested.shot}-shot" + (" w/D" if tested.distractors else "")
            assert (trained.shot, trained.distractors) == (tested.shot, tested.distractors)
            assert (trained.unlabelled, tested.unlabelled) == (5, 20)
            assert cell.over_partitions
    for cell in EXPERIMENTS["k-shot"].cells:
        assert str(cell.test.episode.shot) == cell.column
        assert str(cell.training.episode.shot) == cell.column or cell.row == "Reptile + BN"
    for cell in EXPERIMENTS["training-shots"].cells:
        assert str(cell.training.episode.shot) == cell.column
        assert f"{cell.test.episode.shot}-shot test" in cell.row


def test_queries_in_training_and_testing():
    for cell in EXPERIMENTS["query-number"].cells:
        system, shot, variant = cell.row.split(", ")
        trained, tested, queries = cell.training.episode, cell.test.episode, int(cell.column)
        assert (trained.query if variant == "Train=15" else tested.query if variant == "Test=15" else 15) == 15
        assert queries in (trained.query, tested.query)
        if variant == "Train=Test":
            assert trained.query == tested.query == queries
        assert f"{trained.shot}-shot" == f"{tested.shot}-shot" == shot
        assert (cell.published is not None) == (system == "TPN")
        if cell.published is not None and queries == 15:
            assert cell.published.value == {"1-shot": 53.75, "5-shot": 69.43}[shot], "the number of Table 1"


def test_cells_that_differ_only_in_their_test_share_a_training():
    assert len(trainings("table1", "reptile", "reptile-bn")) == 2
    assert len(find_experiment("table1", ("reptile", "reptile-bn")).cells) == 8
    assert trainings("table1", "reptile") == trainings("table1", "reptile-bn")
    higher_shot = cell_of("table1", "TPN (Higher Shot)", "5-way 1-shot").training
    assert higher_shot == cell_of("table1", "TPN", "5-way 5-shot").training
    assert trainings("training-shots") >= trainings("k-shot", "tpn")


def test_higher_way_and_higher_shot():
    def trained(row, column):
        episode = cell_of("table1", row, column).training.episode
        return episode.way, episode.shot, episode.query

    assert trained("PROTO NET (Higher Way)", "5-way 1-shot") == (30, 1, 15)
    assert trained("PROTO NET (Higher Way)", "10-way 1-shot") == (30, 1, 15)
    assert trained("PROTO NET (Higher Way)", "5-way 5-shot") == (20, 5, 15)
    assert trained("PROTO NET (Higher Way)", "10-way 5-shot") == (20, 5, 15)
    assert trained("TPN (Higher Shot)", "5-way 1-shot") == (5, 5, 15)
    assert trained("TPN (Higher Shot)", "10-way 5-shot") == (10, 10, 15)
    assert trained("TPN", "10-way 1-shot") == (10, 1, 15)


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_training_can_be_set_up_and_its_test_be_made(budget):
    for experiment in EXPERIMENTS.values():
        for cell in experiment.cells:
            settings = settings_for(cell.training, BUDGETS[budget])
            assert isinstance(settings, find_method(cell.training.method).Config)
            info = find_method(cell.method).info
            assert not info.fixed_way or cell.training.episode.way == cell.test.episode.way
            assert not info.fixed_shot or cell.training.episode.shot == cell.test.episode.shot
            if experiment.name == "resnet":
                assert settings.backbone == {"full": "resnet12"}.get(budget, "resnet12-16")


def test_the_full_budget_is_the_paper():
    assert (FULL.test_episodes, FULL.splits) == (600, 10)
    for training in EVERY_TRAINING:
        settings, own = settings_for(training, FULL), dict(training.settings)
        assert settings == find_method(training.method).Config(**own), "nothing but what the recipe says"
    tpn = settings_for(cell_of("table1", "TPN", "5-way 1-shot").training, FULL)
    assert (tpn.lr, tpn.schedule, tpn.halve_every, tpn.k, tpn.alpha) == (1e-3, "halve", 10_000, 20, 0.99)
    assert settings_for(cell_of("table2", "TPN", "5-way 1-shot").training, FULL).halve_every == 25_000
    maml = settings_for(cell_of("table1", "MAML", "5-way 1-shot").training, FULL)
    assert (maml.episodes // maml.episodes_per_step, maml.episodes_per_step) == (60_000, 4)
    assert systems("mini-imagenet")["RELATION NET"].batch_norm == "batch"


def test_the_quick_budget_is_the_same_for_everyone():
    costs = set()
    for training in EVERY_TRAINING:
        settings = settings_for(training, QUICK)
        validations = -(-settings.episodes // settings.validate_every)
        costs.add((settings.episodes, validations, settings.validation_episodes, settings.patience))
        own = find_method(training.method).Config(**dict(training.settings))
        assert settings.schedule == own.schedule, "a schedule that ends after 100 episodes would starve TPN"
    assert costs == {(100, 2, 10, 0)}
    assert (QUICK.image_size, QUICK.test_episodes, QUICK.splits) == (28, 60, 3)


OVERRIDES = {
    "episodes": 7,
    "schedule": "cosine",
    "validation_episodes": 3,
    "patience": 9,
}


@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("budget", BUDGETS)
def test_overriding_one_setting_changes_just_that(budget, name):
    given = BUDGETS[budget].override(SimpleNamespace(**{name: OVERRIDES[name]}))
    assert given == replace(BUDGETS[budget], **{name: OVERRIDES[name]})
    for training in (cell_of("table1", row, "5-way 1-shot").training for row in ("TPN", "MAML", "Reptile")):
        before, after = asdict(settings_for(training, BUDGETS[budget])), asdict(settings_for(training, given))
        changed = {key for key in before if before[key] != after[key]}
        assert after[name] == OVERRIDES[name]
        # validations are evenly spaced: the interval depends on the number of episodes
        assert changed - {name} <= ({"validate_every"} if budget != "full" and name == "episodes" else set())


def test_at_the_cpu_budget_everyone_has_the_same_images_and_the_same_start():
    for training in EVERY_TRAINING:
        settings = settings_for(training, BUDGETS["cpu"])
        batch = images_in(training.episode, settings)
        images = 4_000 if training.method in ("maml", "maml-transduction", "reptile") else 20_000
        assert images - batch < settings.episodes * batch <= images
        assert settings.backbone in ("conv4-linear", "conv4-maps", "resnet12-16")
        assert settings.schedule == "cosine"
    assert images_in(Setting(5, 1, 15, unlabelled=5, distractors=5), Config()) == 5 * 16 + 10 * 5


def test_validations_are_evenly_spaced():
    training = cell_of("table1", "TPN", "5-way 1-shot").training
    for episodes, validations, every in ((200, 4, 50), (10, 3, 4), (4, 1, 4), (4, 1000, 1)):
        settings = settings_for(training, replace(QUICK, episodes=episodes, validations=validations))
        assert settings.validate_every == every


def test_the_backbone_is_changed_only_where_it_is_a_resnet():
    changed = replace(QUICK, resnet="conv4")
    deep = trainings("resnet") | trainings("mini-resnet12") | trainings("mini-resnet12-pretrained")
    assert {settings_for(training, changed).backbone for training in deep} == {"conv4"}
    untouched = EVERY_TRAINING - deep
    assert all(settings_for(training, changed) == settings_for(training, QUICK) for training in untouched)


def test_options_that_are_not_given_leave_the_budget_as_it_is():
    assert QUICK.override(Budget()) == QUICK
    assert QUICK.override(SimpleNamespace(color="red", episodes=3)) == replace(QUICK, episodes=3)


@pytest.mark.parametrize("name", ["episodes", "validations", "validation_episodes", "test_episodes", "splits"])
def test_less_than_one_is_refused(name):
    with pytest.raises(TPNError, match=f"{name} must be at least 1"):
        replace(QUICK, **{name: 0})
    with pytest.raises(TPNError, match="splits must be at most 1000"):
        replace(QUICK, splits=1001)


def test_another_partition_is_the_same_training_otherwise():
    training = cell_of("table3", "TPN-semi", "1-shot").training
    other = training.partition(4)
    assert other == replace(training, episode=replace(training.episode, split_seed=4))
    assert training.partition(0) == training


def test_a_part_of_an_experiment():
    part = find_experiment("table1", ("tpn", "reptile-bn"))
    assert part.rows == ["Reptile + BN", "TPN", "TPN (Higher Shot)"]
    assert part.columns == EXPERIMENTS["table1"].columns
    assert find_experiment("table1", ()) == EXPERIMENTS["table1"]
    assert recipe.System(systems("mini-imagenet")["TPN"].rule).test(Setting(5, 1)) == recipe.Test(Setting(5, 1))


def test_names_are_found_and_near_misses_are_hinted_at():
    assert find_experiment("table1") is EXPERIMENTS["table1"]
    with pytest.raises(TPNError, match=r"'tabel1'.*Did you mean table1\?"):
        find_experiment("tabel1")
    with pytest.raises(TPNError, match=r"mini-resnet12\.$"):
        find_experiment("xyzzy")


def test_the_list_of_experiments(capsys):
    assert main(["paper", "list"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["experiment", "cells", "trainings", "on", "what"]
    assert [line.split()[0] for line in lines] == list(SHAPES)
    for line, (name, (rows, columns, trained)) in zip(lines, SHAPES.items(), strict=True):
        assert line.split()[1:3] == [str(rows * columns), str(trained)]
        assert ("x 10" in line) == (name in ("table3", "table4"))
