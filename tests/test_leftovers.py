"""What a killed process leaves behind is removed by the next one, and what a living one writes is not."""

import os
import subprocess
import sys
from pathlib import Path

from tpn.files import building, write_text
from tpn.leftovers import in_use, remove_leftovers

KILLED = """
import os, sys
from pathlib import Path
from tpn.files import building, replacing
folder = Path(sys.argv[1])
with replacing(folder / "labels.csv") as stream, building(folder / "sorted") as part:
    stream.write(b"half of the n")
    (part / "cat").mkdir()
    (part / "cat" / "1.jpg").write_bytes(b"half")
    os.kill(os.getpid(), 9)
"""


def names(folder):
    return sorted(os.listdir(folder))


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    assert subprocess.run([sys.executable, "-c", KILLED, tmp_path]).returncode == -9
    assert len(names(tmp_path)) == 2
    assert all(name.endswith(".part") for name in names(tmp_path))
    write_text(tmp_path / "labels.csv", "whole")
    with building(tmp_path / "sorted") as part:
        (part / "1.jpg").write_bytes(b"whole")
    assert names(tmp_path) == ["labels.csv", "sorted"]
    assert names(tmp_path / "sorted") == ["1.jpg"]


def dead_process():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_what_a_living_process_or_another_computer_writes_stays(tmp_path):
    mine, elsewhere, foreign = (tmp_path / f".labels.csv.{who}.part" for who in (os.getppid(), dead_process(), "draft"))
    for part in (mine, elsewhere, foreign):
        part.write_text("half")
    other = tmp_path / f".other.csv.{dead_process()}.part"
    other.write_text("half")
    with in_use(elsewhere):
        remove_leftovers(tmp_path / "labels.csv")
        assert set(names(tmp_path)) == {mine.name, elsewhere.name, foreign.name, other.name}
    remove_leftovers(tmp_path / "labels.csv")
    assert set(names(tmp_path)) == {mine.name, foreign.name, other.name}


def test_a_folder_that_could_not_be_built_is_not_there(tmp_path):
    def fail():
        with building(tmp_path / "sorted") as part:
            (part / "1.jpg").write_bytes(b"half")
            raise KeyError

    try:
        fail()
    except KeyError:
        assert names(tmp_path) == []
    assert Path(tmp_path).is_dir()
