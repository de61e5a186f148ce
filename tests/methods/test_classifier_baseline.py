from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import draw_task, refuses_setting
from tests.methods.reference import classifier, double_task, gradients, prototypes
from tpn.episodes.mini_batches import MiniBatches
from tpn.episodes.setting import Setting
from tpn.methods._config import PretrainingConfig
from tpn.methods.classifier_baseline import ClassifierBaseline, neighbourhood_loss


def build(dimensions, **config):
    torch.manual_seed(0)
    return ClassifierBaseline(PretrainingConfig(**{"backbone": "conv4-32", **config}), dimensions).double().train()


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


def double_batches(drawings, steps=2):
    """Mini-batches of one step, in float64, and the rows they are made of."""
    batches, twin = (MiniBatches(drawings, Setting(), 16, seed=0) for _ in range(2))
    drawn = draw_task(batches, steps)
    return replace(drawn, inputs=drawn.inputs.double()), [twin.draw().images for _ in range(steps)]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_it_learns_to_which_training_class_each_image_belongs(dimensions, drawings, smoothing):
    method, (batches, rows) = build(dimensions, label_smoothing=smoothing), double_batches(drawings)
    weights = {name: weight.detach().clone().requires_grad_() for name, weight in method.named_parameters()}
    losses, right = [], []
    for images, of_batch in zip(batches.inputs, rows, strict=True):
        classes = np.searchsorted(drawings.starts, of_batch, side="right") - 1
        scores, _ = classifier(weights, images)
        losses.append(smoothed_cross_entropy(scores, classes, smoothing))
        right += [row.argmax().item() == label for row, label in zip(scores, classes, strict=True)]
    expected = torch.autograd.grad(sum(losses) / 2, list(weights.values()))

    learned = method.learn(batches)
    assert learned.loss == pytest.approx((sum(losses) / 2).item())
    assert learned.accuracy == pytest.approx(np.mean(right))
    torch.testing.assert_close(gradients(method), dict(zip(weights, expected, strict=True)), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 1},
        {"label_smoothing": 1.0},
        {"label_smoothing": -0.1},
        {"label_smoothing": float("nan")},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    refuses_setting(PretrainingConfig, settings)


def test_a_cosine_classifier_scores_by_angle(dimensions):
    method = build(dimensions, classifier="cosine")
    features = np.random.default_rng(0).normal(size=(4, method.head.in_features))
    weights = method.head.weight.detach().numpy()
    cosines = (features @ weights.T) / np.linalg.norm(features, axis=1)[:, None] / np.linalg.norm(weights, axis=1)
    np.testing.assert_allclose(method.head(torch.from_numpy(features)).detach(), 10 * cosines, rtol=1e-9)
    assert "head.scale" in method.state_dict()
    assert "head.bias" not in method.state_dict()


def test_the_neighbourhood_loss_follows_its_definition():
    features, classes = np.random.default_rng(1).normal(size=(7, 5)), np.array([0, 1, 0, 2, 1, 0, 3])
    directions = features / np.linalg.norm(features, axis=1)[:, None]
    losses = []
    for one in range(7):
        others = [other for other in range(7) if other != one]
        weight = {other: np.exp(10 * directions[one] @ directions[other]) for other in others}
        same = sum(weight[other] for other in others if classes[other] == classes[one])
        if same:
            losses.append(-np.log(same / sum(weight.values())))
    assert len(losses) == 5
    found = neighbourhood_loss(torch.from_numpy(features), torch.from_numpy(classes))
    assert float(found) == pytest.approx(np.mean(losses))
    alone = torch.from_numpy(features).requires_grad_()
    loss = neighbourhood_loss(alone, torch.arange(7))
    loss.backward()
    assert loss == 0
    assert torch.equal(alone.grad, torch.zeros_like(alone))


def test_the_neighbourhood_loss_is_part_of_training(dimensions, drawings):
    task, _ = double_batches(drawings)
    assert build(dimensions, nca=1.0).learn(task).loss > build(dimensions).learn(task).loss
