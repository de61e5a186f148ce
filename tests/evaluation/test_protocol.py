import copy

import numpy as np
import pytest
import torch

from tests.conftest import draw_task, noise, sampler
from tpn.backbones.batch_norm import batch_statistics
from tpn.episodes.episode_sampler import draw_episodes
from tpn.episodes.setting import Setting
from tpn.episodes.task import Role, Task, as_task
from tpn.errors import TPNError
from tpn.evaluation.comparison import paired_differences
from tpn.evaluation.intervals import mean_with_interval, percent
from tpn.evaluation.protocol import (
    evaluate,
    evaluate_each,
    images_to_embed,
    transduction,
)
from tpn.methods._config import Config
from tpn.methods._inference import finite_scores, scores_of_batches
from tpn.methods._method import Dimensions, Info, Method, check_way_and_shot
from tpn.methods._registry import build_method, find_method
from tpn.methods.tpn import TPN, TPNConfig

SETTING = Setting(way=3, shot=1, query=5)


@pytest.fixture(scope="module")
def built(drawings):
    torch.manual_seed(0)
    built = TPN(TPNConfig(k=5), Dimensions(1, 28, 3, 1, 50)).train()
    for _ in range(30):  # until its running statistics are those of the drawings
        built.initialise(draw_task(sampler(drawings, way=3), 1))
    return built


@pytest.fixture
def method(built):
    return copy.deepcopy(built)


class Counting(Method):
    """A method that counts what passes through it, and recognises an image by its mean."""

    def __init__(self):
        super().__init__(TPNConfig(), Dimensions(1, 28, 3, 1, 50))
        self.seen = 0

    def embed(self, images):
        self.seen += len(images)
        return images.mean((1, 2, 3))[:, None]

    def score(self, task):
        distances = (task.query - task.support.mT).abs()
        return -distances[..., torch.argsort(task.support_labels[0])]


def test_every_drawn_image_is_embedded_once(drawings):
    episodes = draw_episodes(drawings, SETTING, 200, seed=0)
    method, advanced = Counting(), []
    evaluate(method, drawings, episodes, advance=advanced.append)
    drawn = np.concatenate([episode.images for episode in episodes])
    assert method.seen == len(np.unique(drawn)) < len(drawn)
    assert sum(advanced) == method.seen == images_to_embed(method, episodes)


def test_accuracies_are_those_of_each_episode_by_itself(method, drawings):
    episodes = draw_episodes(drawings, SETTING, 40, seed=0)
    together = evaluate(method, drawings, episodes)
    method.eval()
    alone = []
    for episode in episodes:
        with torch.no_grad():
            scores = method.score(as_task([episode], method.embed(drawings.load(episode.images))[None]))
        answers = torch.from_numpy(episode.labels[episode.role == Role.QUERY])
        alone.append((scores[0].argmax(-1) == answers).double().mean().item())
    np.testing.assert_array_equal(together.accuracies, alone)
    assert together.mean.value > 0.4


def test_batch_norm_with_the_statistics_of_each_episode(method, drawings):
    episodes = draw_episodes(drawings, SETTING, 20, seed=0)
    got = evaluate(method, drawings, episodes, batch_norm="batch")
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    expected = []
    for episode in episodes:
        with torch.no_grad(), batch_statistics(method):
            scores = method.score(as_task([episode], method.embed(drawings.load(episode.images))[None]))
        answers = torch.from_numpy(episode.labels[episode.role == Role.QUERY])
        expected.append((scores[0].argmax(-1) == answers).double().mean().item())
    np.testing.assert_array_equal(got.accuracies, expected)
    assert (got.accuracies != evaluate(method, drawings, episodes).accuracies).any()
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.state_dict().items())
    assert images_to_embed(method, episodes, "batch") == 20 * 18


def test_the_mode_of_the_method_is_left_as_it_was(method, drawings):
    episodes = draw_episodes(drawings, SETTING, 2, seed=0)
    for training in (True, False):
        method.train(training)
        evaluate(method, drawings, episodes)
        assert method.training == method.backbone.training == training


def test_unbalanced_queries_and_unlabelled_images_are_evaluated(method, drawings):
    setting = Setting(way=3, shot=1, query=5, query_dirichlet=1.0, unlabelled=2, distractors=1)
    assert len(evaluate(method, drawings, draw_episodes(drawings, setting, 35, seed=0)).accuracies) == 35


def test_the_same_seed_means_the_same_episodes_for_everyone(drawings):
    one, other, third = (draw_episodes(drawings, SETTING, 5, seed) for seed in (0, 0, 1))
    assert all((a.images == b.images).all() for a, b in zip(one, other, strict=True))
    assert any((a.images != b.images).any() for a, b in zip(one, third, strict=True))


def test_no_episodes_are_refused():
    with pytest.raises(TPNError, match="episodes must be at least 1, not 0"):
        draw_episodes(noise(3, 20), SETTING, 0, seed=0)


def test_the_interval_covers_the_truth_95_times_in_100():
    rng = np.random.default_rng(0)
    trials = rng.binomial(75, 0.6, (2000, 300)) / 75
    covered = [abs(mean.value - 0.6) <= mean.ci95 for mean in map(mean_with_interval, trials)]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


def test_one_value_has_no_interval():
    mean = mean_with_interval(np.array([0.5]))
    assert (mean.value, mean.ci95, str(mean)) == (0.5, None, "50.00 %")
    assert percent(0.01234, 0.001, sign="+") == "+1.23 ± 0.10 %"


def test_differences_are_paired():
    rng = np.random.default_rng(0)
    hard = rng.uniform(0.3, 0.9, 400)
    tests = {"worse": hard, "better": hard + rng.normal(0.02, 0.02, 400), "same": hard + rng.normal(0.0, 0.02, 400)}
    pairs = {(pair.better, pair.worse): pair for pair in paired_differences(tests)}
    difference = pairs["better", "worse"]
    assert difference.clear
    assert difference.difference.value == pytest.approx(0.02, abs=0.003)
    assert difference.difference.ci95 < mean_with_interval(hard).ci95 / 5
    assert len(pairs) == 3


def test_scores_that_are_not_numbers_are_no_result(drawings):
    class Broken(Method):
        info = Info(name="broken", paper="none", transduction="no")

        def score(self, task):
            return torch.full((len(task.inputs), task.n_query, task.way), float("nan"))

    method = Broken(Config(), Dimensions(1, 28, 3, 1, 50))
    episodes = draw_episodes(drawings, Setting(way=3, shot=1, query=2), 2, 0)
    with pytest.raises(TPNError, match="broken gives scores that are not finite"):
        evaluate(method, drawings, episodes)


def several_tests(drawings, *settings, episodes=6):
    return [draw_episodes(drawings, setting, episodes, seed=0) for setting in settings]


def untrained(name, **settings):
    torch.manual_seed(0)
    return build_method(name, find_method(name).Config(**settings), Dimensions(1, 28, 3, 1, 50))


SETTINGS = (SETTING, Setting(way=3, shot=4, query=5), Setting(way=3, shot=1, query=2, unlabelled=3))


@pytest.mark.parametrize(("batch_norm", "episodes"), [("running", 33), ("batch", 4)])
def test_several_tests_show_what_each_shows_by_itself(drawings, batch_norm, episodes):
    method = untrained("tpn", backbone="conv4-32", k=5)
    tests = several_tests(drawings, *SETTINGS, Setting(way=5, shot=1, query=5), episodes=episodes)
    alone = [evaluate(method, drawings, episodes, batch_norm) for episodes in tests]
    together = list(evaluate_each(method, drawings, tests, batch_norm))
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.accuracies, other.accuracies)
        assert one.seconds > 0
    assert len({one.mean.value for one in together}) == len(tests), "the tests are different"


def test_several_tests_of_a_method_that_adapts(drawings):
    method = untrained("maml", test_steps=2)
    tests = several_tests(drawings, *SETTINGS[:2], episodes=5)
    advanced = []
    together = list(evaluate_each(method, drawings, tests, advance=advanced.append))
    for one, episodes in zip(together, tests, strict=True):
        np.testing.assert_array_equal(one.accuracies, evaluate(method, drawings, episodes).accuracies)
    everything = [episode for episodes in tests for episode in episodes]
    assert sum(advanced) == images_to_embed(method, everything)


def test_every_image_is_embedded_once_for_several_tests(drawings):
    tests = several_tests(drawings, *SETTINGS, episodes=70)
    method, advanced = Counting(), []
    made = evaluate_each(method, drawings, [*tests, tests[0]], advance=advanced.append)
    first = next(made)
    drawn = np.concatenate([episode.images for episodes in tests for episode in episodes])
    seen = method.seen
    assert seen == len(np.unique(drawn)) < len(drawn)
    *_, again = made
    assert method.seen == seen == sum(advanced), "before the first, and never again"
    np.testing.assert_array_equal(first.accuracies, again.accuracies)
    assert images_to_embed(method, [episode for episodes in tests for episode in episodes]) == seen


def test_several_tests_leave_the_mode_and_the_statistics_as_they_were(drawings):
    """Also while the caller holds a result in hand, and when it takes no more of them."""
    method = untrained("tpn", backbone="conv4-32")
    tests = several_tests(drawings, *SETTINGS[:2], episodes=2)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    for training in (True, False):
        method.train(training)
        for batch_norm in ("running", "batch"):
            made = evaluate_each(method, drawings, tests, batch_norm)
            next(made)
            assert method.training == method.backbone.training == training
            assert all(parameter.requires_grad for parameter in method.parameters())
            made.close()
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.state_dict().items())


def test_the_time_of_embedding_is_counted_with_the_first_test(drawings, monkeypatch):
    clock, method = [0.0], Counting()
    embed, score = method.embed, method.score

    def timed(seconds, call):
        def passing(given):
            clock[0] += seconds
            return call(given)

        return passing

    method.embed, method.score = timed(100.0, embed), timed(1.0, score)
    monkeypatch.setattr("tpn.evaluation.protocol.time.perf_counter", lambda: clock[0])
    tests = several_tests(drawings, SETTING, SETTING, episodes=5)
    once, later = evaluate_each(method, drawings, tests)
    assert once.seconds >= 101
    assert later.seconds == 1


def test_episodes_that_a_method_is_not_made_for_are_refused():
    maml, trained = find_method("maml").info, Dimensions(1, 28, 3, 1, 50)
    check_way_and_shot(maml, trained, way=3, shots=[7, 2, 2])
    check_way_and_shot(find_method("tpn").info, trained, way=9, shots=[7])
    with pytest.raises(TPNError, match=r"maml was trained for 3 classes.* way 5"):
        check_way_and_shot(maml, trained, way=5, shots=[1])
    one_shot = Info(name="one-shot", paper="none", transduction="no", fixed_shot=True)
    check_way_and_shot(one_shot, trained, way=7, shots=[1, 1])
    for shots, named in (([2], "2"), ([1, 2, 1], "1 and 2")):
        with pytest.raises(TPNError, match=f"one-shot was trained with 1 shots.* shot {named}"):
            check_way_and_shot(one_shot, trained, way=3, shots=shots)


def test_what_is_transductive():
    def of(name, batch_norm):
        return transduction(untrained(name), batch_norm)

    assert (of("tpn", "running"), of("tpn", "batch")) == ("yes", "yes")
    assert (of("protonet", "running"), of("protonet", "batch")) == ("no", "bn")


def test_threads_that_take_batches_of_their_own_give_the_same_scores():
    """As many batches as threads or more, fewer, and an error in one of them."""
    head = find_method("laplacian-shot")(
        find_method("laplacian-shot").Config(backbone="identity"), Dimensions(4, 1, 3, 1, 2)
    ).eval()
    torch.manual_seed(0)
    labels = torch.arange(3).expand(2, -1)
    batches = [([place], Task(torch.rand(2, 9, 4), labels, 3, 6)) for place in range(7)]
    expected = [(drawn, finite_scores(head, task)) for drawn, task in batches]
    for count in (0, 1, 2, 7):
        before = torch.get_num_threads()
        torch.set_num_threads(3)
        try:
            scored = scores_of_batches(head, iter(batches[:count]))
            assert torch.get_num_threads() == 3
            bad = Task(torch.full((2, 9, 4), torch.nan), labels, 3, 6)
            with pytest.raises(TPNError, match="not finite"):
                scores_of_batches(head, [*batches, ([7], bad)])
            assert torch.get_num_threads() == 3
        finally:
            torch.set_num_threads(before)
        assert [drawn for drawn, _ in scored] == [drawn for drawn, _ in expected[:count]]
        for (_, got), (_, wanted) in zip(scored, expected, strict=False):
            torch.testing.assert_close(got, wanted)
