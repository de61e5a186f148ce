"""The journal: what was acknowledged is there, what is damaged is said."""

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
import zlib

import numpy as np
import pytest

from tpn.errors import TPNError, TPNWarning
from tpn.labelling import journal as journal_module
from tpn.labelling.journal import FILE, SET_ASIDE, Journal


def written(folder, *actions):
    journal = Journal(folder)
    for action in actions:
        journal.append(action)
    journal.close()
    return folder / FILE


def read(folder):
    journal = Journal(folder)
    journal.close()
    return journal.actions


def test_actions_come_back_in_order(tmp_path):
    actions = [{"do": "label", "n": n, "names": ["ä", "\udce9", '"sum": "00000000"}']} for n in range(5)]
    file = written(tmp_path, *actions)
    assert read(tmp_path) == actions
    for line in file.read_bytes().splitlines():  # the format, computed independently
        body, _, checksum = line.decode("ascii").rpartition(', "sum": ')
        assert json.loads(checksum[:-1]) == f"{zlib.crc32((body + '}').encode()):08x}"


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_an_incomplete_last_line_is_left_out_and_kept_beside(tmp_path, cut):
    file = written(tmp_path, {"n": 1}, {"n": 2, "long": "x" * 40})
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    with pytest.warns(TPNWarning, match="incomplete"):
        assert read(tmp_path) == [{"n": 1}]
    assert whole.endswith((tmp_path / SET_ASIDE).read_bytes() + whole[-cut:])
    written(tmp_path, {"n": 3})
    assert read(tmp_path) == [{"n": 1}, {"n": 3}]


def test_no_flipped_bit_is_taken_for_an_action(tmp_path):
    actions = [{"do": "label", "n": n} for n in range(4)]
    file = written(tmp_path, *actions)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(whole), 60, replace=False):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.integers(8)
        file.write_bytes(flipped)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            try:
                found = read(tmp_path)
            except TPNError:
                continue
        assert found == actions[:3], "the last line could be one that was being written when the power failed"
    file.write_bytes(whole)
    assert read(tmp_path) == actions


def test_a_journal_has_one_writer(tmp_path):
    first = Journal(tmp_path)
    with pytest.raises(TPNError, match="Another process uses the session"):
        Journal(tmp_path)
    first.close()
    Journal(tmp_path).close()


def test_a_full_disk_leaves_what_is_there(tmp_path, monkeypatch):
    journal = Journal(tmp_path)
    journal.append({"n": 1})
    real = os.write

    def half(handle, content):
        if len(content) > 5:
            return real(handle, content[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(journal_module.os, "write", half)
    with pytest.raises(TPNError, match="No space left"):
        journal.append({"n": 12345})
    monkeypatch.undo()
    journal.append({"n": 3})
    journal.close()
    assert read(tmp_path) == [{"n": 1}, {"n": 3}]


def test_what_is_no_journal_is_refused(tmp_path):
    for content in (b"hello\nworld\n", b'{"journal": 9, "sum": "ab57b04f"}\n', b"\0" * 100 + b"\n" * 3):
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(TPNError, match=r"damaged|newer|not a journal"):
            Journal(tmp_path)
        assert (tmp_path / FILE).read_bytes() == content


WRITER = """
import sys
from pathlib import Path
from tpn.labelling.session import Session
session = Session(Path(sys.argv[1]))
n = session.revision
while True:
    if n % 7 == 5:
        session.undo()
    elif n % 7 == 6:
        session.redo()
    else:
        session.label([f"{n}-{k}.png" for k in range(n % 50 + 1)], f"class {n % 3}")
    n += 1
    print(session.revision, len(session.labels), flush=True)
"""


def test_no_acknowledged_action_is_lost_by_a_kill(tmp_path):
    """SIGKILL at random moments: what the process had confirmed is there, and the session goes on from it."""
    rng = np.random.default_rng(0)
    last = "0 0"
    for _ in range(8):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(int(rng.integers(1, 40)))]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
        process.wait()
        process.stdout.close()
        last = [line for line in lines if line.endswith("\n")][-1].strip()
        check = subprocess.run(
            [sys.executable, "-c", READER, str(tmp_path)], capture_output=True, text=True, check=True
        )
        revision, count, states = check.stdout.split(maxsplit=2)
        confirmed, labels = map(int, last.split())
        assert int(revision) in (confirmed, confirmed + 1), "at most the action that was being written"
        assert json.loads(states)[str(confirmed)] == labels
        assert json.loads(states)[revision] == int(count)


READER = """
import json, sys, warnings
from pathlib import Path
from tpn.labelling.journal import Journal
from tpn.labelling.session_state import SessionState
warnings.simplefilter("ignore")
journal, state, sizes = Journal(Path(sys.argv[1])), SessionState(), {}
for action in journal.actions:
    state.apply(action)
    sizes[state.revision] = len(state.labels)
print(state.revision, len(state.labels), json.dumps(sizes))
"""
