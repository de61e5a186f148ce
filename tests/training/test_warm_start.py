"""Two stages: classifier training, then any method by episodes from its weights."""

import shutil

import pytest
import torch

from tests.tiny import flags, tiny
from tpn.cli import main
from tpn.methods._registry import all_methods
from tpn.runs.folder import Run
from tpn.runs.loading import load
from tpn.runs.tensors import read_tensors, write_tensors
from tpn.training import loop
from tpn.training.stopping import Stopped

SHORT = tiny(validate_every=4)
STILL = tiny(validate_every=4, episodes=1, lr=1e-12)
FEW_STEPS = flags(inner_steps=1, test_steps=1)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Pretrained runs by the name of their backbone."""
    folder = tmp_path_factory.mktemp("pretrained")
    for backbone in ("conv4", "resnet12-16"):
        batches = ["--batch-size", "16", "--warm-up", "0", "--backbone", backbone]
        assert main(["pretrain", *SHORT, *batches, "--out", str(folder / backbone)]) == 0
    return folder


def weights_of(method):
    [backbone] = method.backbones
    return backbone.state_dict()


@pytest.mark.parametrize(
    ("name", "backbone"),
    [
        *((name, "conv4") for name in sorted(all_methods())),
        *((name, "resnet12-16") for name in ("tpn", "maml", "tadam", "ada-resnet", "snail", "tim")),  # one of each kind
    ],
)
def test_every_method_starts_from_the_backbone_of_another_run(name, backbone, pretrained, tmp_path, monkeypatch):
    begun = []

    def stop_at_once(training, *_):
        begun.append({key: tensor.clone() for key, tensor in weights_of(training.method).items()})
        raise Stopped

    monkeypatch.setattr(loop, "validate", stop_at_once)
    call = ["train", name, *SHORT, "--unlabelled", "2", "--init", str(pretrained / backbone)]
    main([*call, "--out", str(tmp_path / "run")])
    assert Run(tmp_path / "run").read_config().settings.backbone == backbone
    expected = weights_of(load(pretrained / backbone))
    assert begun[0].keys() <= expected.keys()
    for key, tensor in begun[0].items():
        if "running" not in key and "num_batches" not in key:  # `initialise` may look at images
            assert torch.equal(tensor, expected[key]), key


def test_a_run_of_the_same_method_gives_all_that_fits(pretrained, tmp_path):
    call = ["train", "tpn", "--init"]
    assert main([*call, str(pretrained / "conv4"), *SHORT, "--out", str(tmp_path / "first")]) == 0
    assert main([*call, str(tmp_path / "first"), *STILL, "--way", "4", "--out", str(tmp_path / "second")]) == 0
    first, second = (load(tmp_path / name).state_dict() for name in ("first", "second"))
    for key in first:
        if "running" not in key and "num_batches" not in key:
            torch.testing.assert_close(second[key], first[key], msg=key)


def test_a_cosine_classifier_of_the_training_classes_is_taken_over(tmp_path):
    batches = ["--batch-size", "16", "--classifier", "cosine"]
    assert main(["pretrain", *SHORT, *batches, "--out", str(tmp_path / "first")]) == 0
    call = ["train", "tpn", *STILL, "--base-loss", "0.5", "--unit-features", "--tasks-per-episode", "2"]
    assert main([*call, "--init", str(tmp_path / "first"), "--out", str(tmp_path / "second")]) == 0
    first, second = (load(tmp_path / name).state_dict() for name in ("first", "second"))
    for name in ("weight", "scale"):
        torch.testing.assert_close(second[f"base_classifier.{name}"], first[f"head.{name}"])


def test_what_does_not_fit_starts_anew(tmp_path):
    """The output layer of MAML for three classes is no start for four."""
    assert main(["train", "maml", *SHORT, *FEW_STEPS, "--out", str(tmp_path / "three")]) == 0
    call = ["train", "maml", *STILL, *FEW_STEPS, "--way", "4", "--init", str(tmp_path / "three")]
    assert main([*call, "--out", str(tmp_path / "four")]) == 0
    three, four = load(tmp_path / "three").state_dict(), load(tmp_path / "four").state_dict()
    assert four["network.head.weight"].shape[0] == 4
    torch.testing.assert_close(
        four["network.backbone.blocks.0.norm.bias"], three["network.backbone.blocks.0.norm.bias"]
    )


def test_statistics_that_a_run_has_not_kept_are_gathered_anew(tmp_path):
    assert main(["train", "maml", *SHORT, *FEW_STEPS, "--out", str(tmp_path / "maml")]) == 0
    assert main(["train", "tpn", *SHORT, "--init", str(tmp_path / "maml"), "--out", str(tmp_path / "tpn")]) == 0
    assert load(tmp_path / "tpn").backbones[0].blocks[0].norm.running_mean is not None


def test_images_size_and_backbone_are_taken_over_unless_given(pretrained, tmp_path):
    assert main(["pretrain", *SHORT, "--batch-size", "8", "--image-size", "20", "--out", str(tmp_path / "small")]) == 0
    for name, given, size in (("same", [], 20), ("other", ["--image-size", "24"], 24)):
        call = ["train", "protonet", *SHORT, "--init", str(tmp_path / "small"), *given, "--out", str(tmp_path / name)]
        assert main(call) == 0
        assert Run(tmp_path / name).read_config().image_size == size


def test_another_backbone_is_refused(refused, pretrained, tmp_path):
    call = ["train", "tpn", *SHORT, "--backbone", "conv4", "--init", pretrained / "resnet12-16"]
    error = refused(*call, "--out", tmp_path / "run")
    assert "its backbone is resnet12-16" in error
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_no_run_is_refused(refused, tmp_path):
    assert "does not exist" in refused("train", "tpn", *SHORT, "--init", tmp_path / "none", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_damaged_weights_are_refused(refused, pretrained, tmp_path):
    shutil.copytree(pretrained / "conv4", tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"nothing")
    error = refused("train", "tpn", *SHORT, "--init", tmp_path / "damaged", "--out", tmp_path / "run")
    assert "model.safetensors is damaged" in error
    assert not (tmp_path / "run").exists()


def interrupted(monkeypatch, at):
    step, made = loop.step, []

    def stopping(*arguments):
        if len(made) == at:
            made.append(None)
            raise Stopped
        made.append(step(*arguments))
        return made[-1]

    monkeypatch.setattr(loop, "step", stopping)


@pytest.mark.parametrize("method", ["pretrain", "tpn"])
def test_resuming_is_exact_and_needs_the_other_run_no_more(method, pretrained, tmp_path, monkeypatch):
    source = tmp_path / "source"
    shutil.copytree(pretrained / "conv4", source)
    call = {
        "pretrain": ["pretrain", *SHORT, "--batch-size", "16", "--init", str(source)],
        "tpn": ["train", "tpn", *SHORT, "--augment", "crop", "--init", str(source)],
    }[method]
    assert main([*call, "--out", str(tmp_path / "unbroken")]) == 0
    interrupted(monkeypatch, at=2)
    main([*call, "--out", str(tmp_path / "broken")])
    shutil.rmtree(source)
    again = call[: 1 if method == "pretrain" else 2]
    assert main([*again, "--resume", "--threads", "1", "--out", str(tmp_path / "broken")]) == 0
    for file in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "broken" / file).read_bytes() == (tmp_path / "unbroken" / file).read_bytes()
    last, expected = (read_tensors(tmp_path / name / "checkpoint.safetensors")[0] for name in ("broken", "unbroken"))
    assert all(torch.equal(tensor, expected[key]) for key, tensor in last.items())


def test_a_run_is_not_resumed_from_other_weights(refused, pretrained, tmp_path):
    call = ["train", "tpn", *SHORT, "--out", tmp_path / "run"]
    assert main(list(map(str, [*call, "--init", pretrained / "conv4"]))) == 0
    assert main(["pretrain", *SHORT, "--batch-size", "8", "--seed", "5", "--out", str(tmp_path / "other")]) == 0
    assert "init-weights is" in refused(*call, "--resume", "--init", tmp_path / "other")


def test_what_it_started_from_is_written_down(pretrained, tmp_path, capsys):
    assert main(["train", "tpn", *SHORT, "--init", str(pretrained / "conv4"), "--out", str(tmp_path / "run")]) == 0
    assert f"from the weights of {pretrained / 'conv4'}" in capsys.readouterr().err
    assert Run(tmp_path / "run").read_config().init == str(pretrained / "conv4")


def test_pretraining_says_what_comes_next(tmp_path, capsys):
    assert main(["pretrain", *SHORT, "--batch-size", "8", "--out", str(tmp_path / "run")]) == 0
    out = capsys.readouterr()
    assert f"tpn train tpn --init {tmp_path / 'run'}" in out.out
    assert "4 mini-batches of 8 images, validated on 3-way 1-shot" in out.err


@pytest.mark.parametrize("change", ["gone", "without weights", "trained on"])
def test_a_run_is_resumed_whatever_became_of_its_source(change, pretrained, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(pretrained / "conv4", source)
    call = ["train", "tpn", *SHORT, "--init", str(source), "--out", str(tmp_path / "run")]
    assert main(call) == 0
    if change == "gone":
        shutil.rmtree(source)
    elif change == "without weights":
        (source / "model.safetensors").unlink()
    else:
        assert main(["pretrain", "--resume", "--episodes", "8", "--threads", "1", "--out", str(source)]) == 0
    again = ["train", "tpn", "--resume", "--episodes", "5", "--threads", "1", "--out", str(tmp_path / "run")]
    assert main(again) == 0


def test_a_run_that_was_begun_without_is_not_resumed_with_another_start(refused, pretrained, tmp_path):
    call = ["train", "protonet", *SHORT, "--out", tmp_path / "run"]
    assert main(list(map(str, call))) == 0
    assert "was not begun with --init" in refused(*call, "--resume", "--init", pretrained / "conv4")


def test_what_fits_in_part_is_not_spoiled_by_a_new_start(tmp_path):
    assert main(["train", "tpn", *SHORT, "--out", str(tmp_path / "one")]) == 0
    call = ["train", "tpn", *STILL, "--learn-alpha", "--init", str(tmp_path / "one"), "--out", str(tmp_path / "other")]
    assert main(call) == 0
    one, other = (load(tmp_path / name).state_dict() for name in ("one", "other"))
    torch.testing.assert_close(other["length_scale.out.weight"], one["length_scale.out.weight"])


def test_what_is_counted_begins_anew(tmp_path):
    assert main(["train", "tadam", *SHORT, "--out", str(tmp_path / "one")]) == 0
    assert main(["train", "tadam", *STILL, "--init", str(tmp_path / "one"), "--out", str(tmp_path / "other")]) == 0
    checkpoint, _ = read_tensors(tmp_path / "other" / "checkpoint.safetensors")
    assert checkpoint["model/seen"] == 1


def test_settings_may_go_with_those_that_are_taken_over(pretrained, tmp_path):
    call = ["train", "tpn", *SHORT, "--init", str(pretrained / "resnet12-16"), "--drop-block", "0.1"]
    assert main([*call, "--out", str(tmp_path / "run")]) == 0
    assert Run(tmp_path / "run").read_config().settings.drop_block == 0.1


def test_labels_that_it_may_have_seen_are_told_of(pretrained, tmp_path, capsys):
    call = ["train", "soft-kmeans", *SHORT, "--init", str(pretrained / "conv4"), "--out", str(tmp_path / "run")]
    assert main(call) == 0
    assert "may have seen labels" in capsys.readouterr().err


def test_weights_that_are_not_numbers_are_refused_before_anything_is_written(refused, pretrained, tmp_path):
    shutil.copytree(pretrained / "conv4", tmp_path / "source")
    file = tmp_path / "source" / "model.safetensors"
    tensors, facts = read_tensors(file)
    tensors["head.bias"].fill_(float("nan"))
    write_tensors(file, tensors, facts)
    error = refused("train", "tpn", *SHORT, "--init", tmp_path / "source", "--out", tmp_path / "run")
    assert "head.bias is not finite" in error
    assert not (tmp_path / "run").exists()
