"""What the experiments are: rows and columns as in the paper, trainings shared where they are the same, budgets."""

from dataclasses import asdict, fields, replace

import pytest

from tpn.cli import main
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.methods._registry import find_method
from tpn.paper import published, recipe
from tpn.paper.budget import BUDGETS, Budget
from tpn.paper.experiments import EXPERIMENTS, find_experiment, select
from tpn.paper.tables import systems

FULL, QUICK = BUDGETS["full"], BUDGETS["quick"]
EVERY_TRAINING = {cell.training for experiment in EXPERIMENTS.values() for cell in experiment.cells}


def trainings(name, *methods):
    return {cell.training for cell in select(EXPERIMENTS[name], methods).cells}


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
    "mini-conv4": (1, 4, 1),
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
    for name in ("table1", "table2", "mini-conv4"):
        for cell in EXPERIMENTS[name].cells:
            assert cell.column == f"{cell.test.episode.way}-way {cell.test.episode.shot}-shot"
    for name in ("table3", "table4"):
        for cell in EXPERIMENTS[name].cells:
            trained, tested = cell.training.episode, cell.test.episode
            assert cell.column == f"{tested.shot}-shot" + (" w/D" if tested.distractors else "")
            assert (trained.shot, trained.distractors) == (tested.shot, tested.distractors)
            assert (trained.unlabelled, tested.unlabelled) == (5, 20)
            assert cell.of_splits
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
    assert len(select(EXPERIMENTS["table1"], ("reptile", "reptile-bn")).cells) == 8
    assert trainings("table1", "reptile") == trainings("table1", "reptile-bn")
    higher_shot = cell_of("table1", "TPN (Higher Shot)", "5-way 1-shot").training
    assert higher_shot == cell_of("table1", "TPN", "5-way 5-shot").training
    assert trainings("mini-conv4") == {higher_shot}
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
            settings = BUDGETS[budget].settings(cell.training)
            assert isinstance(settings, find_method(cell.training.method).Config)
            info = find_method(cell.method).info
            assert not info.fixed_way or cell.training.episode.way == cell.test.episode.way
            assert not info.fixed_shot or cell.training.episode.shot == cell.test.episode.shot
            if experiment.name == "resnet":
                assert settings.backbone == {"full": "resnet12", "quick": "resnet12-16"}[budget]


def test_the_full_budget_is_the_paper():
    assert (FULL.test_episodes, FULL.splits) == (600, 10)
    for training in EVERY_TRAINING:
        settings, own = FULL.settings(training), dict(training.settings)
        assert settings == find_method(training.method).Config(**own), "nothing but what the recipe says"
    tpn = FULL.settings(cell_of("table1", "TPN", "5-way 1-shot").training)
    assert (tpn.lr, tpn.schedule, tpn.halve_every, tpn.k, tpn.alpha) == (1e-3, "halve", 10_000, 20, 0.99)
    assert FULL.settings(cell_of("table2", "TPN", "5-way 1-shot").training).halve_every == 25_000
    maml = FULL.settings(cell_of("table1", "MAML", "5-way 1-shot").training)
    assert (maml.episodes // maml.episodes_per_step, maml.episodes_per_step) == (60_000, 4)
    assert systems("mini-imagenet")["RELATION NET"].batch_norm == "batch"


def test_the_quick_budget_is_the_same_for_everyone():
    costs = set()
    for training in EVERY_TRAINING:
        settings = QUICK.settings(training)
        validations = -(-settings.episodes // settings.validate_every)
        costs.add((settings.episodes, settings.schedule, validations, settings.validation_episodes, settings.patience))
    assert costs == {(100, "linear", 2, 10, 0)}
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
    given = BUDGETS[budget].changed(**{name: OVERRIDES[name]})
    assert given == replace(BUDGETS[budget], **{name: OVERRIDES[name]})
    for training in (cell_of("table1", row, "5-way 1-shot").training for row in ("TPN", "MAML", "Reptile")):
        before, after = asdict(BUDGETS[budget].settings(training)), asdict(given.settings(training))
        changed = {key for key in before if before[key] != after[key]}
        assert after[name] == OVERRIDES[name]
        # validations are so many, evenly spread: how often depends on the episodes
        assert changed - {name} <= ({"validate_every"} if (budget, name) == ("quick", "episodes") else set())


def test_so_many_validations():
    training = cell_of("table1", "TPN", "5-way 1-shot").training
    for episodes, validations, every in ((200, 4, 50), (10, 3, 4), (4, 1, 4), (4, 1000, 1)):
        settings = QUICK.changed(episodes=episodes, validations=validations).settings(training)
        assert settings.validate_every == every


def test_the_backbone_is_changed_only_in_the_table_about_it():
    changed = QUICK.changed(resnet="conv4")
    assert {changed.settings(training).backbone for training in trainings("resnet")} == {"conv4"}
    untouched = EVERY_TRAINING - trainings("resnet")
    assert all(changed.settings(training) == QUICK.settings(training) for training in untouched)


def test_what_is_not_given_stays_and_what_is_unknown_is_ignored():
    everything = {field.name: None for field in fields(Budget)}
    assert QUICK.changed(**everything) == QUICK
    assert QUICK.changed(color="red", episodes=3) == replace(QUICK, episodes=3)


@pytest.mark.parametrize("name", ["episodes", "validations", "validation_episodes", "test_episodes", "splits"])
def test_less_than_one_is_refused(name):
    with pytest.raises(TPNError, match=f"--{name.replace('_', '-')} must be at least 1, not 0"):
        QUICK.changed(**{name: 0})
    with pytest.raises(TPNError, match="--splits must be at most 1000"):
        QUICK.changed(splits=1001)


def test_another_division_is_the_same_training_otherwise():
    training = cell_of("table3", "TPN-semi", "1-shot").training
    other = training.split(4)
    assert other == replace(training, episode=replace(training.episode, split_seed=4))
    assert training.split(0) == training


def test_a_part_of_an_experiment():
    part = select(EXPERIMENTS["table1"], ("tpn", "reptile-bn"))
    assert part.rows == ["Reptile + BN", "TPN", "TPN (Higher Shot)"]
    assert part.columns == EXPERIMENTS["table1"].columns
    assert select(EXPERIMENTS["table1"], ()) == EXPERIMENTS["table1"]
    assert recipe.System(systems("mini-imagenet")["TPN"].rule).test(Setting(5, 1)) == recipe.Test(Setting(5, 1))


def test_names_are_found_and_near_misses_are_hinted_at():
    assert find_experiment("table1") is EXPERIMENTS["table1"]
    with pytest.raises(TPNError, match=r"Unknown experiment 'tabel1': choose one of table1, .*Did you mean table1\?"):
        find_experiment("tabel1")
    with pytest.raises(TPNError, match=r"mini-conv4\.$"):
        find_experiment("xyzzy")


def test_the_list_of_experiments(capsys):
    assert main(["paper", "list"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["experiment", "cells", "trainings", "on", "what"]
    assert [line.split()[0] for line in lines] == list(SHAPES)
    for line, (name, (rows, columns, trained)) in zip(lines, SHAPES.items(), strict=True):
        assert line.split()[1:3] == [str(rows * columns), str(trained)]
        assert ("x 10" in line) == (name in ("table3", "table4"))
