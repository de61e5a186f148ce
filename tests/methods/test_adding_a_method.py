"""docs/how-to/own-method.md is run as it stands: its example is added, and must pass the tests over all methods."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.conftest import refuses_setting
from tests.methods import test_every_method as every
from tests.tiny import tiny
from tpn.cli import main
from tpn.methods import _registry as registry

DOCUMENT = (Path(__file__).parents[2] / "docs" / "how-to" / "own-method.md").read_text()


@pytest.fixture
def cosine(tmp_path, monkeypatch):
    """The method of the document, for as long as the test runs."""
    [code] = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    file = tmp_path / "cosine.py"
    file.write_text(code)
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    spec = importlib.util.spec_from_file_location("cosine", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "cosine", module)
    spec.loader.exec_module(module)
    return module


def test_the_example_passes_the_tests_over_all_methods(cosine, dimensions, drawings):
    for test in (every.test_it_says_what_it_is, every.test_its_settings_are_documented_and_can_be_changed):
        test("cosine")
    for test in (
        every.test_scores_have_a_row_per_query_and_a_column_per_class,
        every.test_every_parameter_that_is_not_frozen_moves_in_five_steps,
        every.test_relabelling_the_classes_permutes_the_scores,
        every.test_a_batch_of_episodes_scores_as_they_do_one_by_one,
        every.test_other_queries_matter_just_if_it_is_transductive,
        every.test_the_same_seed_gives_the_same_weights,
        every.test_testing_leaves_it_as_it_was,
    ):
        test("cosine", every.builder("cosine", "conv4"), dimensions, drawings)


def test_the_example_can_be_trained_and_tested(cosine, tmp_path, capsys):
    assert main(["train", "cosine", *tiny(), "--sharpness", "5", "--out", str(tmp_path / "run")]) == 0
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "3"]) == 0
    assert "cosine on quickdraw" in capsys.readouterr().out
    assert main(["methods"]) == 0
    assert "A Closer Look at Few-shot Classification" in capsys.readouterr().out


def test_the_example_refuses_a_setting_as_tpn_does(cosine):
    refuses_setting(cosine.CosineConfig, {"sharpness": 0.0})


def test_the_example_follows_its_rule(cosine, dimensions, drawings):
    method = every.builder("cosine", "conv4")(dimensions)
    task, _ = every.embedded_task(method, drawings, **every.SETTING)
    scores = method.score(task)
    for episode in range(2):
        for class_ in range(3):
            mean = task.support[episode][task.support_labels[episode] == class_].mean(0)
            expected = 10 * F.cosine_similarity(task.query[episode], mean[None])
            torch.testing.assert_close(scores[episode, :, class_], expected)
