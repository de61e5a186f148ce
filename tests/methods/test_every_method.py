"""What holds for every registered method, also for those that are added later."""

import inspect
import re
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch

from tests.conftest import draw_task, noise, sampler
from tests.tiny import tiny
from tpn.backbones import _registry as registry
from tpn.backbones.conv4 import Conv4, WideMaps
from tpn.backbones.resnet12 import ResNet12
from tpn.cli import main
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.episodes.task import Task, as_task
from tpn.errors import TPNError
from tpn.evaluation.protocol import embed_rows, evaluate
from tpn.methods._adaptation import Adapting
from tpn.methods._classifier_training import ClassifierTraining
from tpn.methods._head import Head
from tpn.methods._method import Dimensions
from tpn.methods._registry import build_method, find_method, list_methods
from tpn.runs.loading import load, load_weights
from tpn.runs.tensors import read_tensors
from tpn.training import loop, setup
from tpn.training.optimiser import build_optimiser
from tpn.training.stopping import Stopped

METHODS = list_methods()
HEADS = {name for name in METHODS if issubclass(find_method(name), Head)}
"""They are tested on features, of one backbone."""
TRAINED = [
    name for name in METHODS if name == "classifier-baseline" or find_method(name).learn is not ClassifierTraining.learn
]
"""Without those that are trained as the classifier baseline is, by the same code."""
EVERY = pytest.mark.parametrize("name", METHODS)

NARROW = {
    "conv4": partial(Conv4, filters=16),
    "conv4-32": partial(Conv4, filters=8),
    "conv4-maps": partial(WideMaps, filters=8),
    "residual": partial(ResNet12, filters=(4, 8, 8, 12)),
}
"""Backbones as the methods have them, and a residual one, but with few filters: nothing tested here depends on that."""


def on_backbones(names):
    """Test methods with the backbone that they have if none is named and, but for heads, with a residual one."""
    pairs = [(name, find_method(name).Config().backbone) for name in names]
    pairs += [(name, "residual") for name in names if name not in HEADS]
    return pytest.mark.parametrize(("name", "backbone"), pairs)


@pytest.fixture(autouse=True)
def narrow_backbones(monkeypatch):
    for name, network in NARROW.items():
        monkeypatch.setitem(registry._BACKBONES, name, network)


def quick(name):
    """Settings by which a step, or adapting to a task, takes less time."""
    known = {field.name for field in fields(find_method(name).Config)}
    smaller = {"inner_steps": 2, "test_steps": 3, "batch_size": 8}
    if issubclass(find_method(name), Head):
        smaller |= {"steps": 10, "rounds": 3}
    return {setting: value for setting, value in smaller.items() if setting in known}


def builder(name, backbone):
    def build_it(dimensions, seed=0):
        torch.manual_seed(seed)
        return build_method(name, find_method(name).Config(backbone=backbone, **quick(name)), dimensions)

    return build_it


@pytest.fixture
def build(name, backbone):
    return builder(name, backbone)


def embedded_task(method, split, episodes=2, seed=1, **setting):
    """An embedded task in test mode, and its episodes."""
    method.eval()
    drawn = sampler(split, seed, **setting)
    episodes = [drawn.draw() for _ in range(episodes)]
    inputs = torch.stack([embed_rows(method, split, episode.images) for episode in episodes])
    return as_task(episodes, inputs), episodes


SETTING = {"way": 3, "shot": 2, "query": 4, "unlabelled": 2, "distractors": 1}


def training_sampler(method, split):
    """What draws its training steps: episodes, or mini-batches."""
    return type(method).sampler(split, Setting(**SETTING), method.config, 0)


@EVERY
def test_it_says_what_it_is(name):
    info = find_method(name).info
    assert info.name == name
    assert info.paper
    assert info.transduction in ("yes", "bn", "no")
    assert find_method(name).__doc__


@EVERY
def test_its_settings_are_documented_and_can_be_changed(name):
    kind = find_method(name).Config
    assert replace(kind(), episodes=7).episodes == 7
    sources = "".join(inspect.getsource(base) for base in kind.__mro__ if is_dataclass(base))
    for field in fields(kind):
        assert re.search(rf'^    {field.name}: .*\n    """\S', sources, re.MULTILINE), f"{field.name} has no docstring"


@on_backbones(METHODS)
def test_scores_have_a_row_per_query_and_a_column_per_class(name, build, dimensions, drawings):
    method = build(dimensions)
    task, _ = embedded_task(method, drawings, **SETTING)
    scores = method.score(task)
    assert scores.shape == (2, 12, 3)
    assert torch.isfinite(scores).all()


@on_backbones(METHODS)
@pytest.mark.parametrize(("size", "channels"), [(16, 1), (33, 3)])
def test_it_takes_images_of_any_size_and_colour(name, build, size, channels):
    method = build(Dimensions(channels, size, 3, 2, 5))
    task, _ = embedded_task(method, noise(5, 10, size, channels), **SETTING)
    assert method.score(task).shape == (2, 12, 3)


@on_backbones(TRAINED)
def test_every_parameter_that_is_not_frozen_moves_in_five_steps(name, build, dimensions, drawings):
    method = build(dimensions).train()
    drawn = training_sampler(method, drawings)
    method.initialise(draw_task(drawn, 1))
    before = {key: parameter.detach().clone() for key, parameter in method.named_parameters()}
    optimiser = build_optimiser(method)
    for _ in range(5):
        optimiser.zero_grad()
        learned = method.learn(draw_task(drawn, 1))
        assert 0 <= learned.accuracy <= 1
        optimiser.step()
    for key, parameter in method.named_parameters():
        assert torch.equal(parameter, before[key]) != parameter.requires_grad, key


@on_backbones([name for name in METHODS if find_method(name).info.equivariant])
def test_relabelling_the_classes_permutes_the_scores(name, build, dimensions, drawings):
    method = build(dimensions).double()
    task, _ = embedded_task(method.float(), drawings, **SETTING)
    method, order = method.double(), torch.tensor([2, 0, 1])
    task = task.with_inputs(task.inputs.double())
    relabelled = replace(task, support_labels=order[task.support_labels])
    torch.testing.assert_close(method.score(relabelled)[..., order], method.score(task))


@on_backbones(METHODS)
def test_a_batch_of_episodes_scores_as_they_do_one_by_one(name, build, dimensions, drawings):
    method = build(dimensions)
    task, episodes = embedded_task(method, drawings, episodes=3, **SETTING)
    batch = method.score(task)
    for index, episode in enumerate(episodes):
        alone = method.score(as_task([episode], task.inputs[index : index + 1]))
        torch.testing.assert_close(batch[index], alone[0], rtol=1e-4, atol=1e-4)


@on_backbones(METHODS)
def test_other_queries_matter_just_if_it_is_transductive(name, build, dimensions, drawings):
    method = build(dimensions)
    method.train().initialise(draw_task(training_sampler(method, drawings), 1))
    task, _ = embedded_task(method, drawings, **SETTING)
    last = task.n_support + task.n_query
    kept = torch.cat([task.inputs[:, : task.n_support + 5], task.inputs[:, last:]], dim=1)
    fewer = replace(task, inputs=kept, n_query=5)
    same = torch.allclose(method.score(fewer), method.score(task)[:, :5], rtol=1e-4, atol=1e-5)
    assert same == (find_method(name).info.transduction == "no")


@on_backbones(METHODS)
def test_unlabelled_images_matter_just_if_it_says_so(name, build, dimensions, drawings):
    method = build(dimensions)
    method.train().initialise(draw_task(training_sampler(method, drawings), 1))
    task, _ = embedded_task(method, drawings, **SETTING)
    without = replace(task, inputs=task.inputs[:, : task.n_support + task.n_query])
    same = torch.allclose(method.score(without), method.score(task), rtol=1e-4, atol=1e-5)
    assert same == (find_method(name).info.unlabelled == "ignores")


@on_backbones(METHODS)
def test_the_answers_are_not_in_what_it_scores(name, build, dimensions, drawings):
    method = build(dimensions)
    task, episodes = embedded_task(method, drawings, **SETTING)
    assert set(vars(task)) == {"inputs", "support_labels", "way", "n_query"}
    shuffled = [replace(episode, labels=episode.labels * (episode.role == 0)) for episode in episodes]
    assert torch.equal(method.score(as_task(shuffled, task.inputs)), method.score(task))


@on_backbones(TRAINED)
def test_the_same_seed_gives_the_same_weights(name, build, dimensions, drawings):

    def weights():
        method = build(dimensions).train()
        drawn, optimiser = training_sampler(method, drawings), build_optimiser(method)
        method.initialise(draw_task(drawn, 1))
        for _ in range(2):
            optimiser.zero_grad()
            method.learn(draw_task(drawn, 1))
            optimiser.step()
        return [parameter.detach() for parameter in method.parameters()]

    assert all(torch.equal(one, other) for one, other in zip(weights(), weights(), strict=True))


@on_backbones(TRAINED)
def test_gradients_of_several_episodes_are_the_mean_of_each(name, build, dimensions, drawings):
    """Episodes of a step share no batch statistics."""

    def gradients(parts):
        method = build(dimensions).train()
        drawn = training_sampler(method, drawings)
        for episodes in parts:
            method.learn(draw_task(drawn, episodes))
        return torch.cat([parameter.grad.flatten() for parameter in method.parameters()]) / len(parts)

    torch.testing.assert_close(gradients([2]), gradients([1, 1]), rtol=1e-3, atol=1e-5)


RESUMED_DEEP = ("tpn", "maml", "tadam", "ada-resnet", "classifier-baseline")
"""A residual backbone resumes in the others as it does in these."""


def train_it(name, backbone, folder, *arguments):
    settings = tiny(validate_every=4, episodes=8, episodes_per_step=2, unlabelled=2, **quick(name))
    return main(["train", name, "--backbone", backbone, "--out", str(folder), *settings, *arguments])


@pytest.mark.parametrize(
    ("name", "backbone"),
    [
        *((name, find_method(name).Config().backbone) for name in TRAINED),
        *((name, "residual") for name in RESUMED_DEEP),
    ],
)
def test_stopped_and_resumed_it_ends_in_the_same_run_and_loaded_it_scores_as_trained(
    name, backbone, tmp_path, drawings, monkeypatch
):
    trained = []
    with monkeypatch.context() as patch:
        patch.setattr(setup, "build_method", lambda *args: trained.append(build_method(*args)) or trained[-1])
        assert train_it(name, backbone, tmp_path / "unbroken") == 0
    step, calls = loop.step, []

    def interrupted(*args):
        calls.append(step(*args))
        if len(calls) == 3:  # after a validation, and before the next
            raise Stopped
        return calls[-1]

    monkeypatch.setattr(loop, "step", interrupted)
    for _ in range(2):
        train_it(name, backbone, tmp_path / "broken", "--resume")
    assert len(calls) == 4
    for file in ("metrics.jsonl", "model.safetensors"):
        assert (tmp_path / "broken" / file).read_bytes() == (tmp_path / "unbroken" / file).read_bytes()
    last, _ = read_tensors(tmp_path / "broken" / "checkpoint.safetensors")
    expected, _ = read_tensors(tmp_path / "unbroken" / "checkpoint.safetensors")
    assert last.keys() == expected.keys()
    assert all(torch.equal(tensor, expected[key]) for key, tensor in last.items())

    loaded, [method] = load(tmp_path / "broken"), trained
    assert loaded.info.name == name
    assert not loaded.training
    load_weights(method, read_tensors(tmp_path / "unbroken" / "model.safetensors")[0], tmp_path)
    task, _ = embedded_task(method, drawings, **SETTING)
    again, _ = embedded_task(loaded, drawings, **SETTING)
    assert torch.equal(task.inputs, again.inputs)
    assert torch.equal(method.score(task), loaded.score(again))


LABELS = {  # encoded before a method sees them
    "text": np.array(["zebra", "ant", "mole"]),
    "numbers": np.array([30, -7, 12]),
    "booleans": np.array([True, False, True]),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "text") for name in METHODS), *product(("protonet", "tpn", "maml"), ("numbers", "booleans"))],
)
def test_fitted_to_images_it_predicts_what_its_scores_say(name, kind, dimensions, drawings):
    names = LABELS[kind]
    classes = np.unique(names)
    method = builder(name, "conv4-32")(replace(dimensions, way=len(classes))).train()
    rows = np.concatenate([drawings.starts[class_] + np.arange(5) for class_ in range(len(classes))])
    images, classes_of = drawings.load(rows), np.repeat(np.arange(len(classes)), 5)
    support = np.random.default_rng(0).permutation(np.flatnonzero(np.arange(len(rows)) % 5 < 2))
    query = np.flatnonzero(np.arange(len(rows)) % 5 >= 2)
    fitted = method.fit(images[support], classes[classes_of[support]])
    assert fitted is method
    assert method.classes_.tolist() == classes.tolist()
    scores = method.decision_function(images[query])
    assert method.training, "predicting leaves its mode as it was"

    method.eval()
    with torch.no_grad():
        inputs = method.embed(images[np.concatenate([support, query])])
    task = Task(inputs[None], torch.from_numpy(classes_of[support])[None], len(classes), len(query))
    torch.testing.assert_close(scores, method.score(task)[0].detach(), rtol=1e-4, atol=1e-5)
    predicted, probabilities = method.predict(images[query].numpy()), method.predict_proba(images[query])
    assert predicted.dtype == classes.dtype
    assert predicted.tolist() == classes[scores.argmax(-1)].tolist()
    np.testing.assert_allclose(probabilities, scores.softmax(-1), rtol=1e-4, atol=1e-5)


@EVERY
def test_fitted_to_what_it_cannot_use_it_says_so(name, dimensions, drawings):
    method, images = builder(name, "conv4-32")(dimensions), drawings.load(np.arange(6))
    with pytest.raises(TPNError, match=r"call fit\(support, labels\) first"):
        method.predict(images)
    for labels in (["a"] * 6, ["a", "b"]):
        with pytest.raises(TPNError, match="a label for each of the 6 images"):
            method.fit(images, labels)
    with pytest.raises(TPNError, match="from 0 to 1 of the shape"):
        method.fit((255 * images).byte(), list("aabbcc")).predict((255 * images).byte())
    if method.info.fixed_way:
        with pytest.raises(TPNError, match=r"3 classes.* way 2"):
            method.fit(images, list("aaabbb"))


@on_backbones(METHODS)
def test_testing_leaves_it_as_it_was(name, build, dimensions, drawings):
    method = build(dimensions).train()
    before = {key: tensor.clone() for key, tensor in method.state_dict().items()}
    random = torch.get_rng_state()
    episodes = draw_episodes(drawings, Setting(way=3, shot=1, query=2, unlabelled=1), 2, seed=0)
    first, again = (evaluate(method, drawings, episodes).accuracies for _ in range(2))
    assert (first == again).all()
    assert method.training
    assert all(parameter.requires_grad for parameter in method.parameters())
    assert all(torch.equal(tensor, before[key]) for key, tensor in method.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)


@pytest.fixture
def numbers_without_data(monkeypatch):
    """Let tensors on torch's device without data be read as one, where a method reads a number."""
    for reading in ("item", "__bool__", "__int__", "__float__"):
        original = getattr(torch.Tensor, reading)
        monkeypatch.setattr(
            torch.Tensor,
            reading,
            lambda tensor, original=original: type(original(torch.ones(())))(1) if tensor.is_meta else original(tensor),
        )


@pytest.mark.parametrize("name", [name for name in METHODS if not issubclass(find_method(name), Adapting)])
def test_what_it_makes_is_where_its_inputs_are(name, dimensions, drawings, numbers_without_data):
    """On torch's device without data, which bears no tensor that was left on the CPU.

    Not of methods that adapt: gradients of gradients take minutes on that device.
    """
    method = build_method(name, find_method(name).Config(**quick(name)), dimensions).to("meta").train()

    def moved(task):
        return replace(task, **{key: value.to("meta") for key, value in vars(task).items() if torch.is_tensor(value)})

    learned = method.learn(moved(draw_task(training_sampler(method, drawings), 2)))
    assert isinstance(learned.loss, float)
    for key, parameter in method.named_parameters():
        assert parameter.grad is None or parameter.grad.is_meta, key
    assert any(parameter.grad is not None for parameter in method.parameters())
    task = moved(draw_task(sampler(drawings, **SETTING), 2))
    scores = method.eval().score(method.embedded(task))
    assert scores.is_meta
    assert scores.shape == (2, 12, 3)
