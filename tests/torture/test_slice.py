"""A short, deterministic slice of the torture suite; `make torture` runs the campaigns in full."""

import random

import numpy as np
import pytest

from tests.processes import Running
from torture.__main__ import main
from torture.campaign import Campaign, Case, carry_out
from torture.campaigns import CAMPAIGNS
from torture.command_lines import options_of
from torture.estimator import hostile
from torture.mutations import MUTATIONS, mutate
from torture.sandbox import forked
from torture.studio import User
from tpn.labelling.session import Session


class Doomed(Campaign):
    """Fails at every third case."""

    name, wanted, slice = "doomed", 8, 1

    def run(self, number, chance):
        if number == 4:
            raise ValueError("a case of its own")
        (self.workspace / "evidence").write_text(str(chance.random()))
        return Case("a case", failures=["third"] if number % 3 == 2 else [], evidence=[self.workspace / "evidence"])


def test_a_campaign_goes_on_where_it_stopped_and_keeps_what_failed(tmp_path):
    said = []
    first = carry_out(Doomed(tmp_path / "work", 5), tmp_path, 0.0, say=said.append)
    assert first.tried == 0
    results = carry_out(Doomed(tmp_path / "work", 5), tmp_path, 60.0, say=said.append)
    assert (results.tried, results.failed, results.next_case) == (8, 3, 8)
    assert [failure["case"] for failure in results.failures] == [2, 4, 5]
    assert results.failures[0]["command"] == "python -m torture doomed --seed 5 --case 2"
    kept = (tmp_path / "failures" / "doomed-5-2" / "evidence").read_text()
    Doomed(tmp_path / "again", 5).case(2)
    assert (tmp_path / "again" / "evidence").read_text() == kept, "a case is the same whenever it runs"
    assert carry_out(Doomed(tmp_path / "work", 5), tmp_path, 60.0, say=said.append).tried == 8
    assert len(said) == 3


def test_mutations_change_what_they_are_given():
    content = bytes(range(256)) * 4
    for mutation in MUTATIONS:
        changed = [mutation(content, random.Random(seed)) for seed in range(20)]
        assert sum(one != content for one in changed) >= 15
    assert mutate(b"", random.Random(0)) == (b"", "")


def test_a_fork_reports_what_was_done_in_it():
    def misbehave():
        import os

        os.system("true")
        return np.zeros(40_000_000).sum()

    ended = forked(misbehave)
    assert ended.forbidden == ["os.system"]
    assert forked(lambda: [1, "two"]).result == [1, "two"]
    assert "ZeroDivisionError" in forked(lambda: 1 // 0).traceback


@pytest.mark.flaky(reruns=1)  # its limits of time meet a busy machine
def test_the_first_cases_of_every_campaign_survive(tmp_path):
    """In a process of its own, whose forks must not meet threads of other tests."""
    done = Running(main, ["--slice", "--minutes", "10", "--out", str(tmp_path)]).wait(900)
    assert done.code == 0, done.out + done.error
    tried = dict(line.split()[:2] for line in done.out.splitlines()[1:])
    assert tried.keys() == CAMPAIGNS.keys()
    assert all(int(count) >= CAMPAIGNS[name].slice for name, count in tried.items())


def test_a_lost_action_of_the_studio_is_noticed(tmp_path):
    user = User(["red/0.png", "unlabelled/1.png"], random.Random(0))
    user.states, user.confirmed = [{}, {"red/0.png": "red"}], [""]
    with Session(tmp_path) as session:
        session.take({"red/0.png": "red"}, "folders")
        for label in ("blue", "green"):
            user.open = label, {"red/0.png": "red", "unlabelled/1.png": label}
            session.act(
                {"do": "label", "id": label, "changes": [{"to": "label", "label": label, "paths": user.names[1:]}]}
            )
            user.confirm()
    assert user.compare(tmp_path) == []
    lines = (tmp_path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "journal.jsonl").write_bytes(b"".join(lines[:-1]))
    assert len(user.compare(tmp_path)) == 2, "an action is lost, and with it a label"


def test_options_are_found_by_their_definitions():
    assert {"episodes", "lr", "way", "alpha", "cache"} <= {option.flag for option in options_of("train")}
    assert {"rounds", "min-confidence"} <= {option.flag for option in options_of("label")}


def test_hostile_arrays_are_of_every_kind():
    made = [hostile(random.Random(seed)) for seed in range(60)]
    assert {points.dtype for points, *_ in made} == {np.dtype(np.float32), np.dtype(np.float64)}
    assert any(not np.isfinite(points).all() for points, *_ in made)
    assert any(np.abs(points[np.isfinite(points)]).max(initial=0) > 1e30 for points, *_ in made)
