"""Exponential moving averages of the weights."""

import torch

from tests.training.making import make_steps, training_of


def test_the_average_follows_its_definition():
    training = training_of("protonet", ema=0.5, optimiser="sgd", lr=0.1)
    method, averaged = training.method, training.averaged
    expected = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    for step in range(1, 4):
        make_steps(training)
        decay = min(0.5, (1 + step) / (10 + step))
        for name, tensor in method.state_dict().items():
            if tensor.is_floating_point():
                expected[name] = decay * expected[name] + (1 - decay) * tensor
    for name, tensor in averaged.tensors.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, expected[name])
        else:
            assert torch.equal(tensor, method.state_dict()[name])


def test_a_test_uses_the_average_and_training_continues_with_the_weights():
    training = training_of("protonet", ema=0.9, optimiser="sgd", lr=0.1)
    make_steps(training, 2)
    weights = {name: tensor.clone() for name, tensor in training.method.state_dict().items()}
    with training.evaluated_weights():
        inside = training.method.state_dict()
        assert all(torch.equal(inside[name], tensor) for name, tensor in training.averaged.tensors.items())
        assert not torch.equal(
            inside["backbone.blocks.0.convolution.weight"], weights["backbone.blocks.0.convolution.weight"]
        )
    assert all(torch.equal(tensor, weights[name]) for name, tensor in training.method.state_dict().items())


def test_without_it_nothing_is_kept():
    assert training_of("protonet").averaged is None
