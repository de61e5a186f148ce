"""What all tests share. Shapes and types are checked while they run (`--jaxtyping-packages` in pyproject.toml)."""

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does, before torch is loaded
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tests run side by side, and so do the processes they start
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # more would each load torch first
# a cache of their own: where a test names no network, the best one in the user's own cache would be taken
os.environ.setdefault("TPN_CACHE", str(Path("~/.cache/tpn-tests").expanduser()))
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process would compile our modules again

import numpy as np
import pytest
import torch
from hypothesis import settings

from tpn.cli import main
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.sampler import Learnable, Sampler
from tpn.episodes.setting import Setting
from tpn.errors import TPNError, TPNWarning
from tpn.images.opening import open_images
from tpn.images.split import Split
from tpn.methods._method import Dimensions
from tpn.training.setup import draw_step

torch.set_num_threads(1)
MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30
LONGEST = ("torture", "training", "paper", "methods", "studio_server")
EXAMPLES = int(os.environ.get("TPN_TEST_EXAMPLES", "20"))
"""How many examples Hypothesis makes for a property: always the same ones. Before a release, let it make 500."""
settings.register_profile("tpn", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.load_profile("tpn")


def pytest_configure() -> None:
    """Make temporary folders in memory, if there is room: all that tpn writes is flushed, and a disk lets it wait."""
    if MEMORY.is_dir():
        found = os.statvfs(MEMORY)
        if found.f_bavail * found.f_frsize > ROOM and not found.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the folders that have tests of many seconds: none of them is left to a single process in the end."""
    items.sort(key=lambda item: item.path.parent.name not in LONGEST)


@pytest.fixture(scope="session")
def drawings() -> Split:
    """The validation drawings, the smallest split there is."""
    return open_images("quickdraw").split("val")


@pytest.fixture(scope="session")
def mini_imagenet() -> Split:
    """The test split of the real miniImageNet, if there is a copy. Preparing it warns of images it has twice."""
    if "TPN_MINI_IMAGENET" not in os.environ:
        pytest.skip("TPN_MINI_IMAGENET does not name a copy of miniImageNet")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*are both in the", TPNWarning)
        return open_images(f"mini-imagenet:{os.environ['TPN_MINI_IMAGENET']}").split("test")


@pytest.fixture
def dimensions() -> Dimensions:
    return Dimensions(channels=1, image_size=28, way=3, shot=2, train_classes=50)


@pytest.fixture
def refused(capsys):
    """Run a command that must be refused: exit code 2, one paragraph on standard error, nothing on standard output."""

    def run(*arguments):
        capsys.readouterr()
        assert main(list(map(str, arguments))) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        error = captured.err.strip()
        assert error.startswith("tpn: ")
        assert "\n" not in error
        assert "Traceback" not in error
        return error

    return run


def refuses_setting(kind: Callable[..., Any], settings: dict[str, Any]) -> None:
    """Check that settings are refused, by an error that names the first of them and its value."""
    name, value = next(iter(settings.items()))
    shown = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    with pytest.raises(TPNError, match=rf"^{name} .* not {re.escape(shown)}"):
        kind(**settings)


def noise(classes: int, per_class: int | list[int], size: int = 28, channels: int = 1, seed: int = 0) -> Split:
    """A split of random images."""
    counts = [per_class] * classes if isinstance(per_class, int) else per_class
    images = np.random.default_rng(seed).integers(0, 256, (sum(counts), size, size, channels), dtype=np.uint8)
    names = tuple(f"class {index}" for index in range(classes))
    return Split("val", images, names, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


def draw_task(drawn: Sampler, episodes: int = 1) -> Learnable:
    """What a method learns from in one step: the next episodes (or mini-batches), with their images."""
    return draw_step(drawn, episodes, torch.device("cpu"))


def sampler(split: Split, seed: int = 0, **setting: object) -> EpisodeSampler:
    return EpisodeSampler(split, Setting(**setting), seed)  # type: ignore[arg-type]
