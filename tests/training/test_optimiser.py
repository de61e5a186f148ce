import math

import pytest
import torch

from tests.training.making import make_steps, training_of
from tpn.methods._config import Config
from tpn.methods._method import Dimensions
from tpn.methods._registry import build_method, find_method
from tpn.training.optimiser import build_optimiser, learning_rate, set_learning_rate, state_names


def rates(episodes, **settings):
    config = Config(episodes=100, lr=0.5, **settings)
    return [learning_rate(config, episode) for episode in episodes]


def test_it_falls_evenly_or_along_a_cosine_to_zero():
    assert rates((0, 25, 50, 100, 120), schedule="linear") == pytest.approx([0.5, 0.375, 0.25, 0, 0])
    expected = [0.25 * (1 + math.cos(math.pi * episode / 100)) for episode in (0, 25, 50, 99)]
    assert rates((0, 25, 50, 99), schedule="cosine") == pytest.approx(expected)
    assert rates((100, 120), schedule="cosine") == pytest.approx([0, 0], abs=1e-12)


def test_it_is_dropped_in_steps():
    settings = {"schedule": "step", "drop_at": (0.5, 0.9), "drop_by": 0.2}
    assert rates((0, 49, 50, 89, 90, 100), **settings) == pytest.approx([0.5, 0.5, 0.1, 0.1, 0.02, 0.02])


def test_one_cycle_rises_and_falls():
    found = rates((0, 15, 30, 65, 100), schedule="one-cycle")
    assert found == pytest.approx([0.02, 0.26, 0.5, 0.25, 0], abs=1e-9)


def test_the_backbone_can_learn_more_slowly():
    method = build_method("tpn", find_method("tpn").Config(lr=0.1, backbone_lr=0.1), Dimensions(1, 28, 3, 2, 5))
    optimiser = build_optimiser(method)
    set_learning_rate(optimiser, method.config, 0)
    rate = {id(parameter): group["lr"] for group in optimiser.param_groups for parameter in group["params"]}
    inside = {id(parameter) for parameter in method.backbone.parameters()}
    assert len(rate) == len(list(method.parameters()))
    assert all(value == pytest.approx(0.01 if key in inside else 0.1) for key, value in rate.items())


@pytest.mark.parametrize("schedule", ["halve", "linear", "step", "cosine", "one-cycle"])
def test_it_warms_up_under_every_schedule(schedule):
    cold, warm = rates(range(100), schedule=schedule), rates(range(100), schedule=schedule, warm_up=4)
    assert [one / other for one, other in zip(warm[:6], cold, strict=False)] == pytest.approx(
        [0.2, 0.4, 0.6, 0.8, 1, 1]
    )
    assert warm[4:] == cold[4:]


def protonet(**settings):
    torch.manual_seed(0)
    return build_method("protonet", find_method("protonet").Config(**settings), Dimensions(1, 28, 3, 2, 5)).train()


def steps(method, gradients):
    """The weights after a step on each of these gradients, all of one value."""
    optimiser = build_optimiser(method)
    for gradient in gradients:
        for parameter in method.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        optimiser.step()
    return optimiser


def test_momentum_is_nesterovs():
    method = protonet(optimiser="sgd", lr=0.1, momentum=0.9)
    before = [parameter.detach().clone() for parameter in method.parameters()]
    optimiser = steps(method, [1.0, -2.0, 0.5])
    velocity, moved = 0.0, 0.0
    for gradient in (1.0, -2.0, 0.5):
        velocity = 0.9 * velocity + gradient
        moved -= 0.1 * (gradient + 0.9 * velocity)
    for parameter, start in zip(method.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), start + moved)
    assert all(set(kept) == state_names(method.config) for kept in optimiser.state.values())


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_convolutions_decay_but_biases_and_normalisation_do_not(optimiser):
    method = protonet(optimiser=optimiser, lr=0.1, weight_decay=0.5)
    torch.nn.init.ones_(method.backbone.blocks[0].norm.bias)
    before = [parameter.detach().clone() for parameter in method.parameters()]
    steps(method, [0.0])
    for parameter, start in zip(method.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), start * (0.95 if start.ndim > 1 else 1.0))


def test_without_decay_adam_is_adam():
    one, other = protonet(), protonet()
    steps(one, [1.0, -0.3])
    adam = torch.optim.Adam(other.parameters(), lr=1e-3)
    for gradient in (1.0, -0.3):
        for parameter in other.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        adam.step()
    assert all(torch.equal(mine, his) for mine, his in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(("clip", "longest"), [(0.0, None), (1e-3, 1e-3), (1e6, None)])
def test_long_gradients_are_shortened(clip, longest):
    def moved(clip):
        training = training_of("protonet", optimiser="sgd", lr=1.0, clip=clip)
        before = torch.cat([parameter.detach().flatten().clone() for parameter in training.method.parameters()])
        make_steps(training)
        return before - torch.cat([parameter.detach().flatten() for parameter in training.method.parameters()])

    step_made, whole = moved(clip), moved(0.0)
    assert float(step_made.norm()) == pytest.approx(longest or float(whole.norm()), rel=1e-3)
    torch.testing.assert_close(step_made / step_made.norm(), whole / whole.norm(), rtol=1e-3, atol=1e-4)


def test_frozen_parameters_are_left_out():
    method = protonet(weight_decay=0.1)
    for parameter in method.backbone.blocks[0].parameters():
        parameter.requires_grad = False
    optimised = {id(parameter) for group in build_optimiser(method).param_groups for parameter in group["params"]}
    assert optimised == {id(parameter) for parameter in method.parameters() if parameter.requires_grad}
