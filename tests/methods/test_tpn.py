from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import draw_task, refuses_setting, sampler
from tests.propagation import reference
from tpn.backbones._backbone import Identity
from tpn.episodes.task import as_task
from tpn.methods._registry import build_method, find_method
from tpn.methods.tpn import TPN, TPNConfig
from tpn.runs.loading import override

SETTING = {"way": 3, "shot": 2, "query": 4}


def build(dimensions, **config):
    torch.manual_seed(0)
    return TPN(TPNConfig(**config), dimensions)


def by_hand(method, task, k, alpha):
    """F* of the first episode from the feature maps on, in NumPy."""
    with torch.no_grad():
        maps = method.backbone(task.inputs[0])
        features, sigma = maps.flatten(1).double().numpy(), method.length_scale(maps).double().numpy()
    S = reference.normalise(reference.connect(reference.affinity(features, sigma), k))
    Y = np.zeros((len(S), task.way))
    Y[np.arange(task.n_support), task.support_labels[0]] = 1
    return reference.closed_form(S, Y, alpha)


@pytest.mark.parametrize(("loss_over", "first"), [("support+query", 0), ("query", 6)])
def test_the_whole_method_follows_the_paper(dimensions, drawings, loss_over, first):
    method = build(dimensions, loss_over=loss_over, k=7, alpha=0.9).train()
    task = draw_task(sampler(drawings, unlabelled=2, distractors=1, **SETTING), 1)
    method.initialise(task)
    method.eval()
    F = by_hand(method, task, k=7, alpha=0.9)
    loss, scores = method.loss(task)
    np.testing.assert_allclose(scores.detach()[0], F[6:18], rtol=1e-3, atol=1e-5)
    labels = np.concatenate([task.support_labels[0], task.query_labels[0]])
    assert loss.item() == pytest.approx(reference.loss(F[first:18], labels[first:]), rel=1e-4)


def test_length_scales_matter(dimensions, drawings):
    method = build(dimensions).train()
    task = draw_task(sampler(drawings, **SETTING), 1)
    method.initialise(task)
    maps = method.backbone(task.inputs[0])
    sigma = method.length_scale(maps)
    assert sigma.std() > 0
    torch.testing.assert_close(method.embed(task.inputs[0]) * sigma[:, None], maps.flatten(1))
    one_for_all = task.with_inputs((maps.flatten(1) / sigma.mean())[None])
    assert not torch.allclose(method.score(method.embedded(task)), method.score(one_for_all), rtol=1e-2)


def test_the_start_from_data_connects_neighbours_and_the_plain_one_does_not(dimensions, drawings):
    def typical_weight(initial_scale):
        method = build(dimensions, initial_scale=initial_scale).train()
        task = draw_task(sampler(drawings, way=3, shot=5, query=15), 1)
        method.initialise(task)
        W = method.graph(method.embedded(task))[0]
        return W.topk(20).values[:, 1:].median().item()

    assert 0.2 < typical_weight("from-data") < 0.6
    assert not 0.1 < typical_weight("plain") < 0.7


def test_many_iterations_score_as_the_closed_form_and_few_do_not(dimensions, drawings):
    method = build(dimensions, alpha=0.8).train()
    task = draw_task(sampler(drawings, **SETTING), 1)
    method.initialise(task)
    embedded = method.embedded(task)
    closed = method.score(embedded)
    for steps, equal in ((200, True), (1, False)):
        method.config = replace(method.config, solver="iterative", steps=steps)
        assert torch.allclose(method.score(embedded), closed, rtol=1e-3, atol=1e-4) == equal


def test_alpha_can_be_learned_inside_its_bounds(dimensions, drawings):
    method = build(dimensions, learn_alpha=True, alpha=0.7).train()
    assert method.alpha.item() == pytest.approx(0.7, rel=1e-4)
    method.learn(draw_task(sampler(drawings, **SETTING), 1))
    assert method.alpha_logit.grad.abs() > 0
    for extreme in (-1e4, 1e4):
        torch.nn.init.constant_(method.alpha_logit, extreme)
        assert 0 <= method.alpha.item() < 1
        learned = method.learn(draw_task(sampler(drawings, **SETTING), 1))
        assert np.isfinite(learned.loss)
    assert build(dimensions, learn_alpha=True, alpha=0.9999).alpha.item() < 1


def test_fewer_neighbours_and_mutual_ones_make_another_graph(dimensions, drawings):
    method = build(dimensions, k=4).eval()
    task = method.embedded(draw_task(sampler(drawings, **SETTING), 1))
    edges = (method.graph(task) > 0).sum().item()
    method.config = replace(method.config, mutual=True)
    assert (method.graph(task) > 0).sum().item() < edges


def test_unlabelled_images_take_part_in_the_propagation(dimensions, drawings):
    method = build(dimensions).train()
    drawn = sampler(drawings, unlabelled=4, **SETTING)
    method.initialise(draw_task(drawn, 1))
    method.eval()
    episode = drawn.draw()
    inputs = method.embed(drawings.load(episode.images))[None]
    known = episode.role != 2
    without = replace(episode, images=episode.images[known], labels=episode.labels[known], role=episode.role[known])
    with_them, alone = method.score(as_task([episode], inputs)), method.score(as_task([without], inputs[:, known]))
    assert with_them.shape == alone.shape
    assert not torch.allclose(with_them, alone)


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0.99999},
        {"alpha": 0.0},
        {"alpha": float("nan")},
        {"k": 0},
        {"test_k": 0},
        {"test_alpha": 1.0},
        {"steps": -1},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(TPNConfig, settings)


def test_unit_features_make_the_graph_a_matter_of_angles(dimensions, drawings):
    method = build(dimensions, unit_features=True).train()
    maps = method.backbone(draw_task(sampler(drawings, **SETTING), 1).inputs[0])
    features = maps.flatten(1).detach().double().numpy()
    expected = features / np.linalg.norm(features, axis=1)[:, None] * np.sqrt(features.shape[1])
    np.testing.assert_allclose(method.features(maps).detach(), expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(method.features(3 * maps), method.features(maps))


def test_the_initial_sharpness_is_the_exponent_of_a_typical_edge(dimensions, drawings):
    task = draw_task(sampler(drawings, way=3, shot=5, query=15), 1)
    scales = {}
    for sharpness in (1.0, 4.0):
        method = build(dimensions, initial_sharpness=sharpness, unit_features=True).train()
        method.initialise(task)
        scales[sharpness] = method.length_scale.out.bias.item()
    assert scales[1.0] == pytest.approx(2 * scales[4.0], rel=1e-5)


def test_further_tasks_of_an_episode_have_the_same_images_in_other_places(drawings):
    task = draw_task(sampler(drawings, unlabelled=2, distractors=1, way=3, shot=2, query=4), 2)
    several = task.rearranged(5)
    assert several.inputs.shape == (10, *task.inputs.shape[1:])
    assert torch.equal(several.inputs[:2], task.inputs)
    assert torch.equal(several.support_labels, task.support_labels.repeat(5, 1))
    assert torch.equal(several.query_labels, task.query_labels.repeat(5, 1))
    for number, images in enumerate(several.inputs):
        episode = number % 2
        assert torch.equal(images[18:], task.inputs[episode, 18:]), "unlabelled images stay where they are"
        for label in range(3):
            places = task.labels[episode] == label
            one, other = (
                {image.numpy().tobytes() for image in inputs[:18][places]} for inputs in (images, task.inputs[episode])
            )
            assert one == other, "each class keeps its images"
    assert not torch.equal(several.inputs[2], task.inputs[0])


def test_the_loss_of_several_tasks_is_their_mean(dimensions, drawings):
    task = draw_task(sampler(drawings, **SETTING), 2)
    method = build(dimensions, tasks_per_episode=3).train()
    method.initialise(task)
    method.eval()
    torch.manual_seed(1)
    loss, scores = method.loss(task)
    torch.manual_seed(1)
    several = replace(task, inputs=method.embedded(task).inputs).rearranged(3)
    F = method.propagate(several)
    losses = [
        reference.loss(spread.detach().double().numpy(), labels.numpy())
        for spread, labels in zip(F, several.labels, strict=True)
    ]
    assert loss.item() == pytest.approx(np.mean(losses), rel=1e-4)
    torch.testing.assert_close(scores, method.score(method.embedded(task)))


def test_the_base_class_loss_is_the_cross_entropy_of_the_training_classes(dimensions, drawings):
    task = draw_task(sampler(drawings, unlabelled=1, **SETTING), 2)
    plain, with_base = (build(dimensions, base_loss=weight).train() for weight in (0.0, 0.5))
    plain.load_state_dict(with_base.state_dict(), strict=False)
    for method in (plain, with_base):
        method.eval()
    features = with_base.embedded(task).inputs[:, :18].detach().flatten(0, 1).double().numpy()
    weights, factor = with_base.base_classifier.weight.detach().double().numpy(), with_base.base_classifier.scale.item()
    cosines = (
        features / np.linalg.norm(features, axis=1)[:, None] @ (weights / np.linalg.norm(weights, axis=1)[:, None]).T
    )
    classes = np.concatenate([classes[labels] for classes, labels in zip(task.classes, task.labels, strict=True)])
    expected = reference.loss(factor * cosines, classes)
    assert with_base.loss(task)[0].item() - plain.loss(task)[0].item() == pytest.approx(0.5 * expected, rel=1e-3)
    assert not hasattr(plain, "base_classifier")


@pytest.mark.parametrize("settings", [{"initial_sharpness": 0.0}, {"base_loss": -1.0}, {"tasks_per_episode": 0}])
def test_settings_of_the_second_stage_out_of_range_are_refused(settings):
    refuses_setting(TPNConfig, settings)


def test_another_graph_in_testing_than_in_training(dimensions, drawings):
    task = draw_task(sampler(drawings, **SETTING), 1)
    own, other = build(dimensions), build(dimensions, test_k=3, test_alpha=0.5)
    as_tested = build(dimensions, k=3, alpha=0.5)
    for method in (other, as_tested):
        method.load_state_dict(own.state_dict())
    with torch.no_grad():
        for method in (own, other, as_tested):
            method.train()
        assert torch.equal(other.loss(task)[0], own.loss(task)[0]), "training does not change"
        for method in (own, other, as_tested):
            method.load_state_dict(own.state_dict())
            method.eval()
        scores = {method: method.score(method.embedded(task)) for method in (own, other, as_tested)}
    torch.testing.assert_close(scores[other], scores[as_tested], rtol=0, atol=0)
    assert not torch.equal(scores[other], scores[own])


def test_a_graph_that_is_asked_for_counts_in_tests():
    settings = TPNConfig(test_k=3, test_alpha=0.5)
    assert override(settings, {"k": 7}) == TPNConfig(k=7, test_k=None, test_alpha=0.5)
    assert override(settings, {"k": 7, "test_k": 4, "alpha": 0.9}) == TPNConfig(k=7, test_k=4, alpha=0.9)


@pytest.mark.parametrize("name", ["tpn", "tpn-semi", "label-propagation"])
def test_mirror_images_are_averaged_in_tests_only(name, dimensions):
    images = torch.rand(4, dimensions.channels, dimensions.image_size, dimensions.image_size)
    own, flips = (build_method(name, find_method(name).Config(test_flip=flip), dimensions) for flip in (False, True))
    flips.load_state_dict(own.state_dict())
    with torch.no_grad():
        assert torch.equal(own.train().embed(images), flips.train().embed(images)), "training does not change"
        flips.load_state_dict(own.eval().state_dict())
        found = flips.eval().embed(images)
        torch.testing.assert_close(flips.embed(images.flip(-1)), found, msg="a mirror image has the same features")
        mean = torch.stack([own.backbone(images), own.backbone(images.flip(-1))]).mean(0)
        own.backbone = flips.backbone = Identity(mean.shape[1], mean.shape[-1])
        torch.testing.assert_close(own.embed(mean), found)
        assert torch.equal(flips.embed(mean), own.embed(mean)), "features have no mirror image"
