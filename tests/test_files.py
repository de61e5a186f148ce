import os

import pytest

from tpn.errors import TPNError
from tpn.files import make_folder, read_json, replacing, sweep, write_json, write_text


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
