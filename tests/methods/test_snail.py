from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import refuses_setting
from tests.methods.reference import double_task
from tests.propagation.reference import loss as cross_entropy
from tpn.methods.snail import SNAIL, CausalAttention, SNAILConfig, TemporalConvolution


def build(dimensions, **config):
    torch.manual_seed(0)
    settings = {"backbone": "conv4-32", "embedding": 8, "filters": 6, **config}
    method = SNAIL(SNAILConfig(**settings), dimensions).double().train()
    with torch.no_grad():  # so that places and images tell well apart
        for layer in method.layers:
            for weight in layer.parameters():
                weight.mul_(2)
    return method


@pytest.fixture
def method(dimensions):
    return build(dimensions)


def embedded(method, split, **setting):
    """A task of embedded images, in test mode."""
    method.eval()
    with torch.no_grad():
        return method.embedded(double_task(split, **setting))


def numbers(layer):
    return {name: weight.detach().numpy() for name, weight in layer.named_parameters()}


def convolve(sequence, weights, dilation):
    """Each place gets more channels, from itself and the place so many before it; what is before the first is zero."""
    longer = []
    for t, here in enumerate(sequence):
        before = sequence[t - dilation] if t >= dilation else np.zeros_like(here)
        activation = weights["here.weight"] @ here + weights["here.bias"] + weights["before.weight"] @ before
        half = len(activation) // 2
        longer.append(np.concatenate([here, np.tanh(activation[:half]) / (1 + np.exp(-activation[half:]))]))
    return longer


def attend(sequence, weights):
    """Each place gets more channels, read from itself and the places before it."""

    def linear(name, place):
        return weights[f"{name}.weight"] @ place + weights[f"{name}.bias"]

    longer = []
    for t, here in enumerate(sequence):
        asked = linear("ask", here)
        strength = np.array([asked @ linear("key", place) for place in sequence[: t + 1]]) / np.sqrt(len(asked))
        share = np.exp(strength - strength.max())
        share /= share.sum()
        read = sum(s * linear("value", place) for s, place in zip(share, sequence[: t + 1], strict=True))
        longer.append(np.concatenate([here, read]))
    return longer


def read_through(method, sequence):
    """What stands at each place behind the last layer."""
    for layer in method.layers:
        if isinstance(layer, CausalAttention):
            sequence = attend(sequence, numbers(layer))
        else:
            sequence = convolve(sequence, numbers(layer), layer.dilation)
    return sequence


def by_hand(method, support, labels, query):
    """The scores of one query: at the end of a sequence of its own."""
    way = method.dimensions.way
    sequence = [
        np.concatenate([place, np.sqrt(place.size) * np.eye(way)[label]])
        for place, label in zip(support, labels, strict=True)
    ]
    last = read_through(method, [*sequence, np.concatenate([query, np.zeros(way)])])[-1]
    out = numbers(method.out)
    return out["weight"] @ last + out["bias"]


def all_by_hand(method, task):
    """The scores of all queries of embedded tasks."""
    each = zip(task.support.detach().numpy(), task.support_labels.numpy(), task.query.detach().numpy(), strict=True)
    return np.array(
        [[by_hand(method, support, labels, query) for query in queries] for support, labels, queries in each]
    )


@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("shot", [2, 1, 5])
def test_each_query_is_read_at_the_end_of_a_sequence_of_its_own(dimensions, drawings, attention, shot):
    """Also with fewer and more shots than it was built for."""
    method = build(dimensions, attention=attention)
    task = embedded(method, drawings, shot=shot)
    np.testing.assert_allclose(method.score(task).detach(), all_by_hand(method, task), rtol=1e-9, atol=1e-12)


def test_dilations_longer_than_the_whole_support_reach_nothing(dimensions, drawings):
    method = build(replace(dimensions, shot=6))
    assert max(layer.dilation for layer in method.layers if isinstance(layer, TemporalConvolution)) == 16
    task = embedded(method, drawings, shot=1)
    np.testing.assert_allclose(method.score(task).detach(), all_by_hand(method, task), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("way", "shot", "convolutions"), [(3, 1, 2), (3, 2, 3), (5, 1, 3), (5, 3, 4), (5, 5, 5)])
def test_dilations_double_until_the_query_sees_the_whole_support(dimensions, way, shot, convolutions):
    method = build(replace(dimensions, way=way, shot=shot))
    kinds = [type(layer) for layer in method.layers]
    block = [TemporalConvolution] * convolutions
    assert kinds == [CausalAttention, *block, CausalAttention, *block, CausalAttention]
    dilations = [layer.dilation for layer in method.layers if isinstance(layer, TemporalConvolution)]
    assert dilations == [2**power for power in range(convolutions)] * 2
    assert sum(dilations[:convolutions]) >= way * shot
    sizes = [(layer.key.out_features, layer.value.out_features) for layer in method.layers[:: convolutions + 1]]
    assert sizes == [(64, 32), (256, 128), (512, 256)]


@pytest.mark.parametrize("attention", [True, False])
def test_every_image_of_the_support_matters(dimensions, drawings, attention):
    method = build(dimensions, attention=attention)
    task = embedded(method, drawings, episodes=1)
    scores = method.score(task)
    for place in range(task.n_support):
        moved = task.inputs.clone()
        moved[0, place] += 1
        assert not torch.allclose(method.score(task.with_inputs(moved)), scores, rtol=1e-6, atol=0)


def hidden(method, task):
    """What stands at the places of the support behind every layer."""
    found = []
    hooks = [layer.register_forward_hook(lambda _, __, out: found.append(out[0].detach())) for layer in method.layers]
    method.score(task)
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("changed", [0, 3, 5])
def test_nothing_looks_ahead(method, drawings, changed):
    task = embedded(method, drawings)
    moved = task.inputs.clone()
    moved[:, changed] += 1
    before, after = hidden(method, task), hidden(method, task.with_inputs(moved))
    assert len(before) == len(method.layers)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one[:, :changed], other[:, :changed], rtol=1e-12, atol=1e-12)
        assert not torch.allclose(one[:, changed], other[:, changed], rtol=1e-3)


def test_queries_do_not_see_each_other(method, drawings):
    task = embedded(method, drawings)
    moved = task.inputs.clone()
    moved[:, task.n_support + 1 :] += 1
    scores, after = method.score(task), method.score(task.with_inputs(moved))
    torch.testing.assert_close(after[:, 0], scores[:, 0], rtol=1e-12, atol=1e-12)
    assert not torch.isclose(after[:, 1:], scores[:, 1:]).all(-1).any()


def test_unlabelled_images_are_no_part_of_the_sequence(method, drawings):
    task = embedded(method, drawings, unlabelled=2)
    np.testing.assert_allclose(method.score(task).detach(), all_by_hand(method, task), rtol=1e-9, atol=1e-12)


def test_without_attention_there_are_convolutions_only(dimensions, drawings):
    method, plain = build(dimensions), build(dimensions, attention=False)
    assert all(isinstance(layer, TemporalConvolution) for layer in plain.layers)
    assert len(plain.layers) == len(method.layers) - 3
    task = embedded(plain, drawings)
    assert not torch.allclose(plain.score(task), method.score(task), rtol=1e-2)


def shuffled(task, seed):
    """The embedded task with its support in the order that torch's generator deals."""
    torch.manual_seed(seed)
    inputs, labels = task.inputs.clone(), task.support_labels.clone()
    for episode in range(len(inputs)):
        order = torch.randperm(task.n_support)
        inputs[episode, : task.n_support] = task.inputs[episode, order]
        labels[episode] = task.support_labels[episode, order]
    return replace(task.with_inputs(inputs), support_labels=labels)


def test_in_training_the_order_of_the_support_is_torchs_to_deal(method, drawings):
    task = double_task(drawings, unlabelled=1)
    with torch.no_grad():
        embedded = method.embedded(task)
    losses = []
    for seed in (3, 4, 3):
        torch.manual_seed(seed)
        loss, scores = method.loss(task)
        expected = all_by_hand(method, shuffled(embedded, seed))
        np.testing.assert_allclose(scores.detach(), expected, rtol=1e-8, atol=1e-10)
        assert loss.item() == pytest.approx(cross_entropy(expected.reshape(24, 3), task.query_labels.flatten()))
        losses.append(loss.item())
    assert losses[0] == losses[2] != losses[1]


def test_in_scoring_the_order_of_the_support_is_as_given(method, drawings):
    task = embedded(method, drawings)
    method.train()
    state = torch.get_rng_state()
    scores = method.score(task)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(method.score(task), scores)
    assert not torch.allclose(method.score(shuffled(task, 0)), scores, rtol=1e-2)


def test_the_gradient_goes_back_to_the_images_of_the_support_and_to_the_query(method, drawings):
    task = double_task(drawings, unlabelled=1)
    inputs = task.inputs.clone().requires_grad_()
    method.eval()
    method.loss(replace(task, inputs=inputs))[0].backward()
    known = task.n_support + task.n_query
    assert (inputs.grad.abs().amax((2, 3, 4))[:, :known] > 0).all()
    assert (inputs.grad[:, known:] == 0).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"embedding": 0},
        {"filters": -1},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(SNAILConfig, settings)
