"""Heads: against NumPy, their mechanisms, their transforms."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from tests.conftest import refuses_setting
from tests.methods import graph_heads_reference, heads_reference
from tpn.episodes.task import Task
from tpn.errors import TPNError
from tpn.methods._head import Head
from tpn.methods._method import Dimensions
from tpn.methods._registry import all_methods, find_method
from tpn.methods._span import span_coordinates
from tpn.methods._transport import balanced_assignment

WAY, SHOT, QUERY, FEATURES = 3, 2, 12, 20
HEADS = sorted(name for name, kind in all_methods().items() if issubclass(kind, Head))


def features(seed=0, episodes=2, way=WAY, spread=0.9, n_features=FEATURES):
    """Embedded episodes of classes that overlap, with shuffled support and queries of unequal numbers."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(episodes, way, n_features))
    labels = np.stack([rng.permutation(np.repeat(np.arange(way), SHOT)) for _ in range(episodes)])
    truth = rng.choice(way, (episodes, QUERY), p=np.arange(1, way + 1) / sum(range(1, way + 1)))
    classes = np.concatenate([labels, truth], axis=1)
    means = np.take_along_axis(centres, classes[..., None], axis=1)
    inputs = means + spread * rng.normal(size=(*classes.shape, n_features))
    return Task(torch.from_numpy(inputs), torch.from_numpy(labels), way, QUERY)


def head(name, n_features=FEATURES, **settings):
    kind = find_method(name)
    return kind(kind.Config(backbone="identity", **settings), Dimensions(n_features, 1, WAY, SHOT, 4)).double().eval()


CASES = {
    "simple-shot": ("simple_shot", {}),
    "bd-cspn": ("bd_cspn", {}),
    "laplacian-shot": ("laplacian_shot", {}),
    "tim": ("tim", {"steps": 4, "step_size": 1e-2}),
    "tim adm": ("tim_adm", {"solver": "adm", "rounds": 5}),
    "alpha-tim": ("alpha_tim", {"steps": 4, "step_size": 1e-2}),
    "pt-map": ("pt_map", {}),
    "map-kmeans": ("map_kmeans", {"transform": "episode"}),
    "paddle": ("paddle", {"rounds": 10, "temperature": 15.0, "proportion_weight": 1.0}),
    "ilpc": ("ilpc", {"neighbours": 4, "rounds": 2}),
    "epnet": ("epnet", {"transform": "none"}),
    "tafssl": ("tafssl", {"dimensions": 5, "rounds": 4}),
    "proto-lp": ("proto_lp", {"dimensions": 6, "rounds": 10}),
    "transductive-fine-tuning": ("transductive_fine_tuning", {"steps": 3, "step_size": 1e-2}),
    "propagated-prototypes": ("propagated_prototypes", {"transform": "episode", "neighbours": 4, "rounds": 5}),
    "adaptive-manifold": ("adaptive_manifold", {"steps": 1, "step_size": 1e-2, "neighbours": 5, "alpha": 0.8}),
}


def by_hand(rule, task, transform):
    reference = getattr(heads_reference, rule, None) or getattr(graph_heads_reference, rule)
    scores = []
    for points, labels in zip(task.inputs.numpy(), task.support_labels.numpy(), strict=True):
        points = points if transform in ("none", "episode") else heads_reference.unit(points)
        scores.append(reference(points[: len(labels)], labels, points[len(labels) :], task.way))
    return np.array(scores)


@pytest.mark.parametrize("case", CASES)
def test_a_head_does_what_its_paper_says(case):
    rule, settings = CASES[case]
    settings = {"transform": "l2", **settings}
    task = features(episodes=1 if case == "adaptive-manifold" else 2)  # its gradients by differences take long
    scores = head(case.split()[0], **settings).score(task).softmax(-1)
    expected = torch.from_numpy(by_hand(rule, task, settings["transform"])).softmax(-1)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-6)


def test_every_head_is_tested_against_numpy():
    assert {case.split()[0] for case in CASES} | {"logistic-regression"} >= set(HEADS)


def test_logistic_regression_is_that_of_scikit_learn():
    task = features()
    scores = head("logistic-regression", transform="none", inverse_penalty=2.0, steps=2000).score(task)
    for points, labels, found in zip(task.inputs.numpy(), task.support_labels.numpy(), scores, strict=True):
        padded = np.pad(points, ((0, 0), (0, 1)), constant_values=1)  # the bias is penalised too
        model = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=5000)
        expected = model.fit(padded[: len(labels)], labels).predict_proba(padded[len(labels) :])
        np.testing.assert_allclose(found.softmax(-1), expected, atol=1e-3)


WITHOUT = {
    "bd-cspn": {"shift": False},
    "laplacian-shot": {"laplacian_weight": 0.0},
    "tim": {"marginal_weight": 0.0},
    "alpha-tim": {"entropy_alpha": 1.0},
    "pt-map": {"balanced": False},
    "map-kmeans": {"rounds": 0},
    "paddle": {"proportion_weight": 0.0},
    "ilpc": {"balanced": False},
    "epnet": {"embedding_alpha": 0.0},
    "tafssl": {"dimensions": 1000},
    "proto-lp": {"balanced": False},
    "transductive-fine-tuning": {"steps": 0},
    "adaptive-manifold": {"steps": 0},
    "propagated-prototypes": {"balance_weight": 0.0},
}


@pytest.mark.parametrize("name", [name for name in HEADS if find_method(name).info.transduction == "yes"])
def test_without_its_mechanism_it_scores_otherwise(name):
    task, quick = features(), {"steps": 20} if name in ("tim", "alpha-tim", "adaptive-manifold") else {}
    if name == "paddle":
        quick = {"temperature": 15.0}  # these classes are far apart: the proportions would make no difference
    with_it = head(name, **quick).score(task)
    without = head(name, **{**quick, **WITHOUT[name]}).score(task)
    assert not torch.allclose(with_it.softmax(-1), without.softmax(-1), atol=1e-4)


@pytest.mark.parametrize("name", HEADS)
def test_the_order_of_images_does_not_matter(name):
    task, model = features(), head(name, **({"steps": 10} if hasattr(find_method(name).Config, "steps") else {}))
    support, query = torch.randperm(task.n_support), torch.randperm(task.n_query)
    inputs = torch.cat([task.support[:, support], task.query[:, query]], dim=1)
    shuffled = replace(task, inputs=inputs, support_labels=task.support_labels[:, support])
    torch.testing.assert_close(model.score(shuffled), model.score(task)[:, query], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", HEADS)
def test_alike_images_give_finite_scores(name):
    task = features()
    for inputs in (torch.zeros_like(task.inputs), task.inputs[:, :1].expand_as(task.inputs)):
        model = head(name, **({"steps": 10} if hasattr(find_method(name).Config, "steps") else {}))
        assert torch.isfinite(model.score(task.with_inputs(inputs.contiguous()))).all()


def test_in_the_span_of_an_episode_nothing_changes():
    """TIM with 20 features for 18 images, and with the same images in their span, padded to 18 coordinates and more."""
    task = features(n_features=40)
    narrow = span_coordinates(task.inputs)
    assert narrow.shape == (2, 18, 18)
    torch.testing.assert_close(narrow @ narrow.mT, task.inputs @ task.inputs.mT)
    padded = torch.cat([narrow, torch.zeros(2, 18, 22)], dim=-1).double()
    settings = {"transform": "none", "steps": 50, "step_size": 1e-2}
    expected = head("tim", 40, **settings).score(task)
    torch.testing.assert_close(head("tim", 40, **settings).score(task.with_inputs(padded)), expected)


def test_points_that_depend_on_each_other_have_coordinates_too():
    points = torch.randn(2, 3, 50).repeat(1, 4, 1)
    narrow = span_coordinates(points)
    torch.testing.assert_close(narrow @ narrow.mT, points @ points.mT, rtol=1e-4, atol=1e-3)


def test_balanced_assignments_have_equal_classes():
    P = balanced_assignment(3 * torch.randn(4, 30, 5, dtype=torch.float64), iterations=500)
    torch.testing.assert_close(P.sum(-1), torch.ones(4, 30, dtype=torch.float64))
    torch.testing.assert_close(P.sum(1), torch.full((4, 5), 6.0, dtype=torch.float64), rtol=1e-4, atol=1e-4)


def transformed(task, name, mean=None, rooted=None):
    model = head("simple-shot", transform=name)
    if mean is not None:
        model.set_base_means({"base_mean": mean, "rooted_mean": rooted})
    return model.prepared(task.inputs).numpy()


def test_transforms_are_what_they_say():
    task, rng = features(), np.random.default_rng(1)
    mean, rooted_mean = torch.from_numpy(rng.normal(size=(2, FEATURES)))
    points, unit = task.inputs.numpy(), heads_reference.unit
    np.testing.assert_allclose(transformed(task, "none"), points)
    np.testing.assert_allclose(transformed(task, "l2"), unit(points))
    np.testing.assert_allclose(transformed(task, "cl2", mean, rooted_mean), unit(points - mean.numpy()))
    np.testing.assert_allclose(transformed(task, "auto", mean, rooted_mean), unit(points - mean.numpy()))
    np.testing.assert_allclose(transformed(task, "auto"), unit(points))
    root = unit(np.where(points < 0, -1, 1) * np.sqrt(np.abs(points) + 1e-6))
    np.testing.assert_allclose(transformed(task, "power"), root)
    np.testing.assert_allclose(transformed(task, "power", mean, rooted_mean), unit(root - rooted_mean.numpy()))
    centred = unit(unit(points) - unit(points).mean(1, keepdims=True))
    np.testing.assert_allclose(transformed(task, "episode"), centred)


def test_centring_on_the_episode_is_declared_as_transduction():
    assert head("simple-shot").transduction == "no"
    assert head("simple-shot", transform="episode").transduction == "yes"
    assert head("tim", transform="l2").transduction == "yes"


def test_cl2_without_a_mean_is_refused():
    with pytest.raises(TPNError, match="mean feature of the training classes"):
        head("simple-shot", transform="cl2").score(features())


def test_an_episode_that_is_too_large_for_a_graph_is_refused(monkeypatch):
    monkeypatch.setattr(find_method("ilpc"), "most_nodes", 10)
    with pytest.raises(TPNError, match="at most 10 images, not 18"):
        head("ilpc").score(features())


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("laplacian-shot", {"laplacian_weight": -1.0}),
        ("laplacian-shot", {"neighbours": 0}),
        ("tim", {"temperature": 0.0}),
        ("tim", {"conditional_weight": -1.0}),
        ("alpha-tim", {"entropy_alpha": 0.0}),
        ("pt-map", {"inertia": 1.5}),
        ("paddle", {"proportion_weight": float("nan")}),
        ("ilpc", {"alpha": 1.0}),
        ("epnet", {"label_alpha": 1.0}),
        ("tafssl", {"dimensions": 0}),
        ("adaptive-manifold", {"alpha": 0.0}),
        ("logistic-regression", {"inverse_penalty": -1.0}),
    ],
)
def test_settings_out_of_range_are_refused(name, setting):
    refuses_setting(find_method(name).Config, setting)
