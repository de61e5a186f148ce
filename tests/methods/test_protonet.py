import numpy as np
import pytest
import torch

from tests.conftest import refuses_setting
from tests.methods import reference
from tests.methods.reference import double_task
from tests.propagation.reference import loss as cross_entropy
from tpn.methods.protonet import ProtoNet


@pytest.fixture
def method(dimensions):
    torch.manual_seed(0)
    return ProtoNet(ProtoNet.Config(backbone="conv4-32"), dimensions).double().train()


def by_hand(method, task, episode):
    features = method.backbone(task.inputs[episode]).detach().flatten(1).numpy()
    centres = reference.prototypes(features[:6], task.support_labels[episode].numpy(), 3)
    return reference.prototype_scores(features[6:18], centres)


def test_the_whole_method_follows_the_paper(method, drawings):
    task = double_task(drawings, unlabelled=1)
    expected = np.stack([by_hand(method, task, episode) for episode in range(2)])
    loss, scores = method.loss(task)
    np.testing.assert_allclose(scores.detach(), expected, rtol=1e-9)
    assert loss.item() == pytest.approx(cross_entropy(expected.reshape(24, 3), task.query_labels.flatten()))


def test_float32_loses_few_digits_far_from_the_origin(method, drawings):
    task = method.embedded(double_task(drawings))
    far = task.with_inputs(task.inputs + 100)
    torch.testing.assert_close(
        method.score(far.with_inputs(far.inputs.float())).double(), method.score(task), rtol=1e-3, atol=1e-3
    )


def test_the_mean_of_the_support_counts_and_not_one_of_its_images(method, drawings):
    task = method.embedded(double_task(drawings, episodes=1))
    scores = method.score(task)
    first = [(task.support_labels[0] == label).nonzero()[0, 0] for label in range(3)]
    nearest = -(task.query[0][:, None] - task.support[0][torch.stack(first)]).square().sum(-1)
    assert not torch.allclose(scores[0], nearest, rtol=1e-2)


def test_a_image_of_the_support_counts_for_its_class_only(method, drawings):
    task = method.embedded(double_task(drawings, episodes=1))
    moved = task.inputs.clone()
    moved[0, 0] += 1
    same = torch.isclose(method.score(task.with_inputs(moved)), method.score(task))[0].all(0)
    assert same.tolist() == [label != task.support_labels[0, 0] for label in range(3)]


def test_a_feature_length_makes_the_scores_a_matter_of_angles(dimensions, drawings):
    torch.manual_seed(0)
    method = ProtoNet(ProtoNet.Config(backbone="conv4-32", feature_length=2.5), dimensions).double().train()
    task = double_task(drawings, episodes=1)
    features = method.backbone(task.inputs[0]).detach().flatten(1).numpy()
    features *= 2.5 / np.linalg.norm(features, axis=1)[:, None]
    centres = reference.prototypes(features[:6], task.support_labels[0].numpy(), 3)
    expected = reference.prototype_scores(features[6:18], centres)
    np.testing.assert_allclose(method.loss(task)[1][0].detach(), expected, rtol=1e-9)


@pytest.mark.parametrize("length", [-1.0, float("nan"), float("inf")])
def test_a_feature_length_out_of_range_is_refused(length):
    refuses_setting(ProtoNet.Config, {"feature_length": length})
