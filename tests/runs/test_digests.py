"""Whatever changes in a run folder after it was written is refused when it is read."""

import json
import random
import shutil

import pytest
import torch

import tpn
from tests.tiny import tiny
from tpn.cli import main
from tpn.errors import TPNError
from tpn.runs.folder import Run
from tpn.runs.metrics import metrics_line, read_metrics
from tpn.runs.tensors import read_tensors, write_tensors


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digests") / "run"
    assert main(["train", "protonet", *tiny(image_size=16, backbone="conv4-32"), "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("name", ["model.safetensors", "checkpoint.safetensors"])
def test_a_flipped_bit_among_the_weights_is_refused(whole, tmp_path, name):
    run = shutil.copytree(whole, tmp_path / "run")
    content = bytearray((run / name).read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    chance = random.Random(0)
    for _ in range(20):
        place, bit = chance.randrange(header, len(content)), 1 << chance.randrange(8)
        content[place] ^= bit
        (run / name).write_bytes(content)
        with pytest.raises(TPNError, match="does not match its digest"):
            read_tensors(run / name)
        content[place] ^= bit
    (run / name).write_bytes(content)
    read_tensors(run / name)


def test_a_number_changed_in_the_settings_is_refused(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    text = (run / "config.json").read_text()
    for name, before, after in (("episodes", 4, 5), ("patience", 50, 51), ("format", 6, 4)):
        assert f'"{name}": {before}' in text
        (run / "config.json").write_text(text.replace(f'"{name}": {before}', f'"{name}": {after}'))
        with pytest.raises(TPNError, match="damaged, or was edited"):
            tpn.load(run)
    (run / "config.json").write_text(json.dumps(json.loads(text)))  # other white space only
    assert tpn.load(run).info.name == "protonet"


def test_a_changed_number_or_line_of_the_metrics_is_refused(whole, tmp_path):
    run = Run(shutil.copytree(whole, tmp_path / "run"))
    before = run.read_metrics()
    first, second = run.metrics_file.read_bytes().splitlines(keepends=True)
    for damaged in (second, second + first, first.replace(b'"lr": 0.001', b'"lr": 0.002') + second, first + first):
        run.metrics_file.write_bytes(damaged)
        with pytest.raises(TPNError, match=r"metrics.jsonl is damaged in line"):
            run.read_metrics()
    run.metrics_file.write_bytes(first + second)
    assert run.read_metrics() == before
    assert "digest" not in before[0]


def test_lines_of_earlier_versions_may_come_before_lines_with_digests(tmp_path):
    old = b'{"episode": 0, "val_accuracy": 0.25}\n'
    new = metrics_line({"episode": 1, "val_accuracy": 0.5}, old)
    assert [line["episode"] for line in read_metrics(old + new, tmp_path)] == [0, 1]
    with pytest.raises(TPNError, match="line 2"):
        read_metrics(old.replace(b"0.25", b"0.26") + new, tmp_path)
    with pytest.raises(TPNError, match="line 3"):
        read_metrics(old + new + old, tmp_path)


def test_tensors_of_every_kind_have_digests(tmp_path):
    tensors = {"a": torch.tensor(3), "b": torch.zeros(0, 2), "c": torch.ones(2, 3).bfloat16(), "d": torch.eye(3).T}
    write_tensors(tmp_path / "x.safetensors", tensors, {"run": "r"})
    found, facts = read_tensors(tmp_path / "x.safetensors")
    assert facts == {"run": "r"}
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
