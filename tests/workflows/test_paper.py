"""tpn.reproduce: the same numbers as the command, results to look at, and a call that can be stopped and continued."""

import csv
import json
import os
import signal
from pathlib import Path

import pytest

import tpn
from tests.paper import QUICK, TINY
from tpn.cli import main
from tpn.paper.experiments import EXPERIMENTS
from tpn.paper.workers import LocalWorkers

KEYWORDS = {"budget": "quick", "threads": 1, **QUICK}


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """mini-conv4, by the Python call."""
    return tpn.reproduce("mini-conv4", **KEYWORDS, out=str(tmp_path_factory.mktemp("python")), progress=False)


def test_the_call_and_the_command_give_the_same_numbers(reproduced, tmp_path, capsys):
    assert main(["paper", "mini-conv4", *TINY, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{reproduced}\n"
    [sheet] = tmp_path.glob("*.csv")
    assert sheet.read_text() == reproduced.files[2].read_text()
    tests = [
        json.loads(next((out / "results").glob("*.json")).read_text())["tests"] for out in (tmp_path, home(reproduced))
    ]
    one, other = ([test["accuracies"] for test in made] for made in tests)
    assert one == other


def home(result):
    return result.files[0].parent


def test_the_command_of_a_result_reports_the_same(reproduced, capsys):
    assert f"--out {home(reproduced)}" in reproduced.command
    assert main([*reproduced.command.split()[1:], "--report-only"]) == 0
    assert capsys.readouterr().out == f"{reproduced}\n"
    [page] = home(reproduced).glob("*.md")
    assert reproduced.command in page.read_text(), "the command that makes the numbers, not the one that reports them"


def test_a_result_can_be_looked_at(reproduced):
    header, *lines = str(reproduced).splitlines()
    assert header.split()[:2] == ["system", "transduction"]
    assert lines
    assert not reproduced.failures
    assert reproduced.stopped_by is None
    assert {path.suffix for path in reproduced.files} == {".html", ".md", ".csv", ".png"}
    assert all(path.is_file() for path in reproduced.files)
    frame = reproduced.to_dataframe()
    with open(reproduced.files[2]) as stream:
        sheet = list(csv.DictReader(stream))
    assert list(frame.columns) == list(sheet[0])
    assert frame["accuracy"].tolist() == pytest.approx([float(line["accuracy"]) for line in sheet], abs=1e-4)
    assert frame["published"].tolist() == [55.51, 69.86, 38.44, 52.77] * 2, "the paper's best, in both rows"
    assert json.loads(json.dumps(reproduced.to_dict()))["cells"] == reproduced.rows()


def test_nothing_is_printed_without_progress(reproduced, capfd):
    tpn.reproduce("mini-conv4", **KEYWORDS, out=home(reproduced), progress=False)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


class Interrupted(LocalWorkers):
    """As if Ctrl-C were pressed when the first job has started."""

    def start(self, job):
        super().start(job)
        signal.raise_signal(signal.SIGINT)


def test_a_stopped_call_returns_and_the_same_call_continues(reproduced, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tpn.paper.workers.LocalWorkers", Interrupted)
        stopped = tpn.reproduce("mini-conv4", **KEYWORDS, out=tmp_path, progress=False)
    assert stopped.stopped_by == signal.SIGINT
    assert stopped.files == ()
    assert {cell["accuracy"] for cell in stopped.cells} == {None}
    again = tpn.reproduce("mini-conv4", **KEYWORDS, out=tmp_path, progress=False)
    assert again.stopped_by is None
    assert [cell["accuracy"] for cell in again.cells] == [cell["accuracy"] for cell in reproduced.cells]


def test_wrong_keywords_and_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=r"'episodess'.*'episodes'"):
        tpn.reproduce("table1", episodess=3)
    with pytest.raises(tpn.TPNError, match=r"^test_episodes must be"):
        tpn.reproduce("table1", test_episodes=0)
    with pytest.raises(tpn.TPNError, match="budget must be one of full, cpu, quick"):
        tpn.reproduce("table1", budget="huge")
    with pytest.raises(tpn.TPNError, match="Did you mean table1"):
        tpn.reproduce("tabel1")
    with pytest.raises(tpn.TPNError, match="does not include magic"):
        tpn.reproduce("table1", methods="magic")
    assert os.listdir(tmp_path) == []


def test_help_shows_the_options_as_keywords():
    assert "test_episodes : int | None, default=None" in tpn.reproduce.__doc__
    assert "{options}" not in tpn.reproduce.__doc__
    assert tpn.reproduce.__signature__.parameters["out"].default == Path("paper")


def test_the_experiments_are_listed(capsys):
    listed = tpn.list_experiments()
    assert main(["paper", "list"]) == 0
    assert capsys.readouterr().out == f"{listed}\n"
    table3 = next(one for one in listed.rows() if one["name"] == "table3")
    assert (table3["cells"], table3["trainings"], table3["partitions"]) == (16, 16, 10)
    assert "tpn-semi" in table3["methods"]
    assert len(listed.to_dataframe()) == len(EXPERIMENTS)
