import re
import sys

import pytest

from tpn import progress as module
from tpn.progress import clock, progress


def test_clock():
    assert [clock(seconds) for seconds in (0.0, 59.6, 187.0, 3765.0)] == ["0:00", "1:00", "3:07", "1:02:45"]


def test_plain_lines_tell_count_rate_time_left_and_figures(capsys, monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    with progress("training", total=10, unit="episodes", done=2) as advance:
        advance(3, loss=1.25)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"training: 5/10  [\d.]+ episodes/s, \d+:\d\d left  loss 1.250\n", captured.err)


def test_lines_come_seldom(capsys):
    with progress("training", total=1000, unit="episodes") as advance:
        for _ in range(1000):
            advance(1)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("done", [0, 5])
def test_the_bar_of_a_terminal_reaches_its_end(capsys, monkeypatch, done):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress("training", total=10, unit="episodes", done=done) as advance:
        advance(10 - done, accuracy=0.5)
    error = capsys.readouterr().err
    assert "10/10" in error
    assert "accuracy 0.500" in error
