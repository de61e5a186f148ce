import os
import subprocess
import sys

import pytest

from tpn.errors import TPNError
from tpn.files import holding, make_folder, read_json, replacing, sweep, write_json, write_text


def test_what_was_written_is_read_back(tmp_path):
    write_json(tmp_path / "a.json", {"grüße": [1, 2.5, None]})
    assert read_json(tmp_path / "a.json") == {"grüße": [1, 2.5, None]}
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_write_that_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path):
    write_text(tmp_path / "a.txt", "old")

    def fail() -> None:
        with replacing(tmp_path / "a.txt") as stream:
            stream.write(b"half of the n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TPNError, match=r"Cannot write .*file/a.txt: There is no folder"):
        write_text(tmp_path / "file" / "a.txt", "text")
    with pytest.raises(TPNError, match=r"Cannot write .*file/folder"):
        make_folder(tmp_path / "file" / "folder")


@pytest.mark.parametrize(
    ("content", "complaint"), [("{", "not JSON"), ("[1]", "a JSON list"), ("\xff", "not JSON"), (None, "No such file")]
)
def test_what_is_not_a_json_object_is_named(tmp_path, content, complaint):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    with pytest.raises(TPNError, match=f"config.json.*{complaint}"):
        read_json(path)


def test_sweeping_removes_unfinished_files_only(tmp_path):
    (tmp_path / ".model.safetensors.123.part").write_text("half")
    (tmp_path / "model.safetensors").write_text("whole")
    sweep(tmp_path)
    assert os.listdir(tmp_path) == ["model.safetensors"]


HOLD = """
import sys, time
from pathlib import Path
from tpn.files import holding
with holding(Path(sys.argv[1]), "held"):
    print("holding", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["killed", "left"])
def test_a_folder_is_held_by_one_process_until_that_ends(tmp_path, end):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holding\n"
    with pytest.raises(TPNError, match="somebody else"), holding(tmp_path, "somebody else"):
        pass
    if end == "killed":
        holder.kill()
    holder.communicate()
    with holding(tmp_path, "somebody else"):
        assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == []
    sweep(tmp_path)
    with holding(tmp_path, "somebody else"), pytest.raises(TPNError), holding(tmp_path, "somebody else"):
        pass


def test_a_folder_that_cannot_be_written_is_held_without_a_lock(tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)  # as root, every folder can be written
    with holding(tmp_path, "somebody else"):
        assert os.listdir(tmp_path) == []


def test_errors_of_the_work_itself_are_not_taken_for_those_of_the_lock(tmp_path):
    with pytest.raises(PermissionError, match="mine"), holding(tmp_path, "somebody else"):
        raise PermissionError("mine")
    with holding(tmp_path, "somebody else"):
        pass
