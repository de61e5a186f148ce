from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.conftest import sampler
from tests.methods.reference import classifier, double_task, gradients, prototypes
from tpn.episodes.mini_batches import MiniBatches
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.methods.classifier_baseline import BaseClassConfig, ClassifierBaseline, training_classes
from tpn.training.loop import draw_task


def build(dimensions, **config):
    torch.manual_seed(0)
    return ClassifierBaseline(BaseClassConfig(**{"backbone": "conv4-32", **config}), dimensions).double().train()


def test_scores_are_cosines_to_the_means_of_classes(dimensions, drawings):
    method = build(dimensions)
    with torch.no_grad():
        task = method.embedded(double_task(drawings, unlabelled=1))
    for features, labels, scores in zip(
        task.inputs.numpy(), task.support_labels.numpy(), method.score(task).numpy(), strict=True
    ):
        centres = prototypes(features[:6], labels, 3)
        for query, row in zip(features[6:18], scores, strict=True):
            cosines = [query @ centre / np.sqrt((query @ query) * (centre @ centre)) for centre in centres]
            np.testing.assert_allclose(row, 10 * np.array(cosines), rtol=1e-9)


def test_the_length_of_a_query_makes_no_difference_and_that_of_a_support_image_does(dimensions, drawings):
    method = build(dimensions)
    with torch.no_grad():
        task = method.embedded(double_task(drawings))
    longer_query, longer_support = task.inputs.clone(), task.inputs.clone()
    longer_query[:, task.n_support :] *= 7
    longer_support[:, 0] *= 7
    torch.testing.assert_close(method.score(task.with_inputs(longer_query)), method.score(task))
    assert not torch.allclose(method.score(task.with_inputs(longer_support)), method.score(task), rtol=1e-2)


def smoothed_cross_entropy(scores, classes, smoothing):
    """Of the true classes, with a share of certainty dealt to all."""
    target = torch.full_like(scores, smoothing / scores.shape[1])
    for row, label in enumerate(classes):
        target[row, label] += 1 - smoothing
    return -(target * (scores - scores.exp().sum(1, keepdim=True).log())).sum(1).mean()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_it_learns_to_which_training_class_each_image_belongs(dimensions, drawings, smoothing):
    method, task = build(dimensions, label_smoothing=smoothing), double_task(drawings, unlabelled=2, distractors=1)
    weights = {name: weight.detach().clone().requires_grad_() for name, weight in method.named_parameters()}
    losses, right = [], []
    for episode in range(2):
        labels = torch.cat([task.support_labels[episode], task.query_labels[episode]])
        classes = [task.classes[episode, label].item() for label in labels]
        scores, _ = classifier(weights, task.inputs[episode, : len(classes)])
        losses.append(smoothed_cross_entropy(scores, classes, smoothing))
        right += [row.argmax().item() == label for row, label in zip(scores, classes, strict=True)]
    expected = torch.autograd.grad(sum(losses) / 2, list(weights.values()))

    learned = method.learn(task)
    assert learned.loss == pytest.approx((sum(losses) / 2).item())
    assert learned.accuracy == pytest.approx(np.mean(right))
    torch.testing.assert_close(gradients(method), dict(zip(weights, expected, strict=True)), rtol=1e-6, atol=1e-10)


def test_the_whole_of_a_mini_batch_is_learned_from(dimensions, drawings):
    method = build(dimensions)
    drawn = draw_task(MiniBatches(drawings, Setting(), 16, seed=0), 1)
    task = replace(drawn, inputs=drawn.inputs.double())
    rows = MiniBatches(drawings, Setting(), 16, seed=0).draw().images
    classes = np.searchsorted(drawings.starts, rows, side="right") - 1
    np.testing.assert_array_equal(training_classes(task)[0], classes)
    scores, _ = classifier(dict(method.named_parameters()), task.inputs[0])
    expected = F.cross_entropy(scores, torch.from_numpy(classes)).item()
    assert method.learn(task).loss == pytest.approx(expected)


def test_unlabelled_images_take_no_part_in_learning(dimensions, drawings):
    task, found = double_task(drawings, unlabelled=2, distractors=1), []
    other = task.inputs.clone()
    other[:, task.n_support + task.n_query :] = torch.rand_like(task.unlabelled)
    for inputs in (task.inputs, other, task.inputs[:, : task.n_support + task.n_query]):
        method = build(dimensions)
        method.learn(replace(task, inputs=inputs))
        found.append({**gradients(method), "running": method.backbone.blocks[0].norm.running_mean})
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)
    torch.testing.assert_close(found[2], found[0], rtol=0, atol=0)


def test_training_classes_are_those_the_images_come_from(drawings):
    drawn, twin = (sampler(drawings, way=4, shot=2, query=3, unlabelled=1) for _ in range(2))
    task = draw_task(drawn, 3)
    classes = training_classes(task)
    assert classes.shape == (3, 4 * 2 + 4 * 3)
    for row in classes:
        rows = twin.draw().images[: len(row)]
        np.testing.assert_array_equal(row, np.searchsorted(drawings.starts, rows, side="right") - 1)


def test_base_classes_are_learned_with_settings_of_their_own():
    config = BaseClassConfig()
    assert (config.optimiser, config.schedule, config.augment) == ("sgd", "cosine", ("crop", "flip"))
    assert (config.lr, config.momentum, config.weight_decay) == (0.1, 0.9, 5e-4)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"batch_size": 1}, "--batch-size must be at least 2, not 1"),
        ({"label_smoothing": 1.0}, "--label-smoothing must be at least 0 and below 1, not 1.0"),
        ({"label_smoothing": -0.1}, "--label-smoothing must be at least 0 and below 1, not -0.1"),
        ({"label_smoothing": float("nan")}, "--label-smoothing must be at least 0 and below 1, not nan"),
        ({"optimiser": "adam"}, "--momentum is for --optimiser sgd"),
    ],
)
def test_settings_out_of_range_are_refused(settings, complaint):
    with pytest.raises(TPNError, match=complaint):
        BaseClassConfig(**settings)
