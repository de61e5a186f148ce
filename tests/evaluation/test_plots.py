"""The plots: figures for notebooks, or files; and an episode in which nothing covers anything else."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from PIL import Image

from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.evaluation.intervals import Mean
from tpn.evaluation.plots.comparison import draw_comparison
from tpn.evaluation.plots.contact_sheet import draw_contact_sheet
from tpn.evaluation.plots.episode import EDGES, draw_episode
from tpn.evaluation.plots.figure import class_colour
from tpn.evaluation.plots.learning_curve import draw_learning_curve
from tpn.evaluation.protocol import evaluate
from tpn.methods._method import Dimensions
from tpn.methods.protonet import ProtoNet
from tpn.methods.tpn import TPN, TPNConfig


def has_content(path):
    """Return whether an image file is more than one colour."""
    return np.asarray(Image.open(path).convert("L")).std() > 5


def line(episode, accuracy, loss=None):
    return {"episode": episode, "val_accuracy": accuracy, "val_ci95": 0.02, "train_loss": loss, "lr": 1e-3}


def test_learning_curve(tmp_path):
    metrics = [line(0, 0.2), line(100, 0.5, 1.1), line(200, 0.6, 0.8)]
    draw_learning_curve(metrics, "tpn", tmp_path / "curve.png")
    assert has_content(tmp_path / "curve.png")
    figure = draw_learning_curve(metrics[:1], "tpn")
    assert figure.get_suptitle() == "tpn"
    with pytest.raises(TPNError, match="no learning curve"):
        draw_learning_curve([], "tpn")


@pytest.fixture
def tpn():
    return TPN(TPNConfig(), Dimensions(1, 28, 3, 1, 50)).eval()


def drawn(method, split, setting, **options):
    """Draw an episode: the episode, and the axes of its figure."""
    episode = EpisodeSampler(split, setting, 0).draw()
    [axes] = draw_episode(method, split, episode, **options).axes
    return episode, axes


def accuracy_of(method, split, episode):
    return evaluate(method, split, [episode]).accuracies[0]


def test_an_episode_is_written_to_a_file(tmp_path, drawings, tpn):
    drawn(tpn, drawings, Setting(3, 1, 4), path=tmp_path / "episode.png")
    assert has_content(tmp_path / "episode.png")


SETTINGS = [Setting(5, 1, 12), Setting(3, 5, 4), Setting(2, 2, 3, unlabelled=2, distractors=1)]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_image_and_no_caption_covers_an_image(drawings, tpn, setting):
    episode, axes = drawn(tpn, drawings, setting)
    axes.figure.canvas.draw()
    images = [image.get_window_extent() for image in axes.images]
    captions = [text.get_window_extent() for text in axes.texts]
    assert len(images) == len(episode.images)
    for number, image in enumerate(images):
        assert not any(image.padded(-1).overlaps(other) for other in images[:number])
        assert not any(image.padded(-1).overlaps(caption) for caption in captions)


def test_the_title_names_the_run_and_tells_the_accuracy(drawings, tpn):
    episode, axes = drawn(tpn, drawings, Setting(3, 1, 4), title="runs/mine: tpn on drawings, 3-way 1-shot")
    *name, result = axes.get_title().splitlines()
    assert " ".join(name) == "runs/mine: tpn on drawings, 3-way 1-shot"
    accuracy = accuracy_of(tpn, drawings, episode)
    assert f"{round(12 * accuracy)} of 12" in result
    assert f"{100 * accuracy:.1f} %" in result


def test_captions_name_the_support_and_the_true_class_of_each_mistake(drawings, tpn):
    episode, axes = drawn(tpn, drawings, Setting(5, 1, 12))
    mistakes = round(60 * (1 - accuracy_of(tpn, drawings, episode)))
    assert mistakes > 0, "it is not trained"
    assert len(axes.texts) == 5 + mistakes
    names = [drawings.classes[index] for index in episode.classes]
    for text in axes.texts:
        [label] = [number for number, name in enumerate(names) if name.startswith(text.get_text().rstrip("…"))]
        assert text.get_color() == class_colour(label)


def test_only_the_strongest_edges_are_drawn_the_stronger_the_wider(drawings, tpn):
    _, axes = drawn(tpn, drawings, Setting(5, 1, 12))
    [lines] = [collection for collection in axes.collections if isinstance(collection, LineCollection)]
    edges = len(lines.get_segments())
    assert EDGES * 65 / 2 <= edges <= EDGES * 65
    widths, alphas = np.array(lines.get_linewidths()), np.array(lines.get_alpha())
    assert len(np.unique(widths)) > edges / 2
    assert (np.argsort(widths) == np.argsort(alphas)).all()


def test_a_method_without_a_graph_has_no_edges(drawings):
    method = ProtoNet(ProtoNet.Config(), Dimensions(1, 28, 3, 1, 50)).eval()
    _, axes = drawn(method, drawings, Setting(3, 1, 4))
    assert not axes.collections
    assert len(axes.images) == 15


def test_contact_sheet(tmp_path, drawings):
    episode = EpisodeSampler(drawings, Setting(2, 1, 3, unlabelled=2, distractors=1), 0).draw()
    figure = draw_contact_sheet(drawings, episode, "some", tmp_path / "sheet.png")
    assert has_content(tmp_path / "sheet.png")
    assert len(figure.axes[0].images) == len(episode.images)


def test_comparison(tmp_path):
    draw_comparison({"a": Mean(0.5, 0.01), "b": Mean(0.6, None)}, "on some data", tmp_path / "comparison.svg")
    assert "<svg" in (tmp_path / "comparison.svg").read_text()
    figure = draw_comparison({"a": Mean(0.5, 0.01), "b": Mean(0.6, None)})
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["a", "b"], "the best on top"
    with pytest.raises(TPNError, match="the ending must be one of"):
        draw_comparison({"a": Mean(0.5, 0.01)}, "on some data", tmp_path / "comparison.doc")
