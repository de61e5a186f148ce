import numpy as np
import pytest
from PIL import Image

from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.evaluation.intervals import Mean
from tpn.evaluation.plots.comparison import draw_comparison
from tpn.evaluation.plots.episode import THUMBNAIL, _places, draw_episode
from tpn.evaluation.plots.learning_curve import draw_learning_curve
from tpn.methods._method import Dimensions
from tpn.methods.tpn import TPN, TPNConfig


def is_a_image(path):
    """An image with something in it."""
    return np.asarray(Image.open(path).convert("L")).std() > 5


def line(episode, accuracy, loss=None):
    return {"episode": episode, "val_accuracy": accuracy, "val_ci95": 0.02, "train_loss": loss, "lr": 1e-3}


def test_learning_curve(tmp_path):
    metrics = [line(0, 0.2), line(100, 0.5, 1.1), line(200, 0.6, 0.8)]
    draw_learning_curve(metrics, "tpn", tmp_path / "curve.png")
    assert is_a_image(tmp_path / "curve.png")
    draw_learning_curve(metrics[:1], "tpn", tmp_path / "one.png")
    with pytest.raises(TPNError, match="no learning curve yet"):
        draw_learning_curve([], "tpn", tmp_path / "none.png")


@pytest.mark.parametrize("setting", [Setting(way=3, shot=1, query=4), Setting(2, 2, 3, unlabelled=2, distractors=1)])
def test_episode_graph(tmp_path, drawings, setting):
    method = TPN(TPNConfig(), Dimensions(1, 28, 3, 1, 50))
    draw_episode(method, drawings, EpisodeSampler(drawings, setting, 0).draw(), tmp_path / "episode.png")
    assert is_a_image(tmp_path / "episode.png")


def test_no_image_of_the_graph_hides_another():
    rng = np.random.default_rng(0)
    features, weights = rng.normal(size=(60, 20)), rng.uniform(size=(60, 60))
    places = _places(features, weights + weights.T)
    distances = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1)) + 10 * np.eye(60)
    assert distances.min() > 0.6 * THUMBNAIL
    assert places.min() == 0
    assert places.max() == 1
    assert np.isfinite(_places(np.ones((5, 3)), None)).all()


def test_comparison(tmp_path):
    draw_comparison({"a": Mean(0.5, 0.01), "b": Mean(0.6, None)}, "on some data", tmp_path / "comparison.svg")
    assert "<svg" in (tmp_path / "comparison.svg").read_text()
    with pytest.raises(TPNError, match="the ending must be one of"):
        draw_comparison({"a": Mean(0.5, 0.01)}, "on some data", tmp_path / "comparison.doc")
