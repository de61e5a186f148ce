import pytest

from tests.tiny import tiny
from tpn.cli import main


@pytest.fixture(scope="package")
def runs(tmp_path_factory):
    """Two short trainings, in the folders `one` and `two`."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seed in (("one", 0), ("two", 1)):
        settings = tiny(query=4, validation_episodes=4, episodes=6, seed=seed)
        assert main(["train", "tpn", *settings, "--out", str(folder / name)]) == 0
    return folder
