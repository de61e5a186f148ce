"""Where and how a training is computed. There is no GPU in the tests: what can be seen on a CPU is."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from torch.amp import GradScaler

from tests.conftest import draw_task, sampler
from tests.processes import run
from tests.tiny import flags, tiny
from tests.training.compiling import train_two_blocks, train_without_compiler
from tests.training.making import make_steps, training_of
from tests.training.test_resuming import assert_the_same
from tpn.backbones import pooled_batch_norm
from tpn.cli import main
from tpn.errors import TPNError
from tpn.methods._method import Dimensions
from tpn.methods._registry import build_method, find_method
from tpn.runs.folder import Run
from tpn.runs.tensors import read_tensors
from tpn.training import loop
from tpn.training.device import CPU, Execution, find_device
from tpn.training.learner import Learner
from tpn.training.stopping import Stopped

SETTING = {"way": 3, "shot": 2, "query": 3}
TINY = tiny(validate_every=3)


def prepared(name, precision, backbone="conv4"):
    torch.manual_seed(0)
    config = find_method(name).Config(backbone=backbone)
    method = build_method(name, config, Dimensions(1, 28, 3, 2, 50)).train()
    Execution(CPU, precision).prepare(method)
    return method


def gradients(method, drawings, precision):
    task = draw_task(sampler(drawings, **SETTING), 1)
    scaler = GradScaler("cpu", init_scale=64.0, enabled=precision == "float16")
    learned = Learner(method, scaler).learn(task)
    scale = scaler.get_scale()
    return learned.loss, torch.cat([parameter.grad.flatten() / scale for parameter in method.parameters()])


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize(("name", "backbone"), [("tpn", "conv4"), ("protonet", "resnet12-16"), ("tadam", "conv4")])
def test_mixed_precision_is_nearly_the_same(name, backbone, precision, drawings):
    loss, gradient = gradients(prepared(name, "float32", backbone), drawings, "float32")
    near_loss, near = gradients(prepared(name, precision, backbone), drawings, precision)
    assert near_loss != loss
    assert near_loss == pytest.approx(loss, rel=0.05)
    assert float(torch.cosine_similarity(near, gradient, dim=0)) > 0.9


def test_only_the_backbone_and_only_in_training_computes_in_it(drawings):
    method = prepared("tpn", "bfloat16")
    images = draw_task(sampler(drawings, **SETTING), 1).inputs[0]
    kinds = []
    method.backbone.blocks[-1].register_forward_hook(lambda _, __, maps: kinds.append(maps.dtype))
    maps = method.backbone(images)
    with torch.no_grad():
        method.eval().backbone(images)
    assert kinds == [torch.bfloat16, torch.float32]
    assert maps.dtype == torch.float32
    assert {tensor.dtype for tensor in method.parameters()} == {torch.float32}


def test_a_step_with_gradients_that_overflow_is_left_out_and_the_scale_falls():
    training = training_of("protonet", Execution(CPU, "float16"))
    assert training.scaler.is_enabled()
    before = [parameter.detach().clone() for parameter in training.method.parameters()]
    training.scaler = GradScaler("cpu", init_scale=2.0**120)
    make_steps(training)
    assert all(torch.equal(one, other) for one, other in zip(before, training.method.parameters(), strict=True))
    assert training.scaler.get_scale() == 2.0**119
    assert training.state.episode == 1


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_resuming_in_mixed_precision_is_exact(tmp_path, monkeypatch, precision):
    small = flags(episodes=6, image_size=16, backbone="conv4-32")  # processors are slow at it
    call = ["train", "tpn", *TINY, *small, "--precision", precision, "--out"]
    assert main([*call, str(tmp_path / "unbroken")]) == 0
    step, made = loop.step, []

    def interrupted(*arguments):
        made.append(step(*arguments))
        if len(made) == 2:
            raise Stopped
        return made[-1]

    monkeypatch.setattr(loop, "step", interrupted)
    main([*call, str(tmp_path / "broken")])
    assert main([*call, str(tmp_path / "broken"), "--resume"]) == 0
    assert len(made) == 6
    assert_the_same(Run(tmp_path / "broken"), Run(tmp_path / "unbroken"))


def test_a_run_remembers_how_it_was_computed_and_resuming_elsewhere_says_so(tmp_path, capsys):
    call = ["train", "tpn", *TINY, "--out", str(tmp_path / "run"), "--episodes"]
    assert main([*call, "1"]) == 0
    written = json.loads((tmp_path / "run" / "config.json").read_text())["written_with"]
    assert (written["device"], written["precision"], written["compile"]) == ("cpu", "float32", False)
    capsys.readouterr()
    assert main([*call, "2", "--resume", "--precision", "bfloat16"]) == 0
    assert "Note: precision was float32 and is bfloat16" in capsys.readouterr().err


def test_auto_is_the_processor_in_full_precision_where_there_is_nothing_else():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert find_device("auto") == CPU
    assert Execution().with_precision("auto", compile=False) == Execution(CPU, "float32", False)


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "", "meta", "cpu:x", "cpu:3", "hpu", "cuda:-1", "privateuseone"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(TPNError, match=r"device .* Try auto, cpu or cuda"):
        find_device(name)


@pytest.mark.parametrize("name", ["maml", "reptile"])
def test_what_adapts_its_weights_takes_bfloat16_but_not_float16(name, tmp_path, capsys):
    small = flags(episodes=2, image_size=16, inner_steps=1, test_steps=1)
    call = ["train", name, *TINY, *small, "--out", str(tmp_path / "run")]
    assert main([*call, "--precision", "float16"]) == 2
    assert "too small for --precision float16" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert main([*call, "--precision", "bfloat16"]) == 0


def test_what_adapts_its_weights_is_compiled_only_between_the_convolutions_of_a_conv4():
    prepared("maml", "float32", "conv4-32").compile_backbone()
    with pytest.raises(TPNError, match="only on a CPU, with a Conv-4"):
        prepared("maml", "float32", "resnet12-16").compile_backbone()


@pytest.mark.parametrize("name", ["maml", "maml-transduction", "reptile", "reptile-bn"])
@pytest.mark.parametrize("training", [True, False])
def test_what_adapts_its_weights_does_the_same_compiled(name, training, drawings, monkeypatch):
    monkeypatch.setattr(pooled_batch_norm, "_compiled", lambda function: function)
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        config = find_method(name).Config(backbone="conv4-32", inner_steps=2, test_steps=2)
        method = build_method(name, config, Dimensions(1, 28, 3, 2, 50)).double().train(training)
        if compiled:
            method.compile_backbone()
        task = draw_task(sampler(drawings, **SETTING), 1)
        task = replace(task, inputs=task.inputs.double())
        if not training:
            found.append(method.score(task))
            continue
        torch.manual_seed(0)
        loss = method.learn(task).loss
        found.append(torch.cat([torch.tensor([loss]).double(), *(each.grad.flatten() for each in method.parameters())]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("name", "precision"), [("reptile", "bfloat16"), ("protonet", "float32")])
def test_in_tests_only_what_learns_there_computes_in_the_precision_of_training(name, precision, drawings):
    config = find_method(name).Config(**({"test_steps": 1} if name == "reptile" else {}))
    method = build_method(name, config, Dimensions(1, 28, 3, 2, 50)).eval()
    execution, kinds = Execution(CPU, "bfloat16"), set()
    execution.prepare_test(method)
    method.backbones[0].blocks[-1].register_forward_hook(lambda _, __, maps: kinds.add(str(maps.dtype)))
    task = draw_task(sampler(drawings, **SETTING), 1)
    method.score(method.embedded(task))
    assert kinds == {f"torch.{precision}"}
    assert execution.precision_of_test(method) == precision


def test_a_compiler_that_fails_is_told_of(tmp_path):
    arguments = [*TINY, "--compile", "--out", str(tmp_path / "run")]
    done = run(train_without_compiler, arguments, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    assert done.code == 2, done.error
    assert done.error.startswith("tpn: --compile does not work here")
    assert done.error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_only_training_runs_compiled_blocks(drawings, monkeypatch):
    method, ran = prepared("protonet", "float32", "resnet12-16"), []

    def counting(block):
        return lambda maps: ran.append(method.training) or block(maps)

    monkeypatch.setattr(torch, "compile", counting)
    method.compile_backbone()
    images = draw_task(sampler(drawings, **SETTING), 1).inputs[0]
    trained = method.embed(images)
    torch.testing.assert_close(method.backbone.blocks(images).flatten(1), trained)
    method.eval().embed(images)
    assert ran == [True] * 4


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling needs a C++ compiler")
def test_compiled_it_learns_the_same(tmp_path):
    call = [*TINY, "--episodes", "2", "--optimiser", "sgd", "--lr", "1e-4", "--out"]
    done = run(train_two_blocks, [[*call, str(tmp_path / "plain")], [*call, str(tmp_path / "compiled"), "--compile"]])
    assert done.code == 0, done.error
    plain, compiled = (read_tensors(tmp_path / name / "checkpoint.safetensors")[0] for name in ("plain", "compiled"))
    assert plain.keys() == compiled.keys()
    for name in plain:
        torch.testing.assert_close(compiled[name], plain[name], rtol=1e-3, atol=1e-5)
    assert any(not torch.equal(compiled[name], plain[name]) for name in plain), "other code has computed it"
