import pytest

from tpn.cli import main


@pytest.fixture(scope="package")
def runs(tmp_path_factory):
    """Two short trainings, in the folders `one` and `two`."""
    folder = tmp_path_factory.mktemp("runs")
    tiny = ["--way", "3", "--shot", "1", "--query", "4", "--validation-episodes", "4", "--episodes", "6"]
    for name, seed in (("one", "0"), ("two", "1")):
        assert main(["train", "tpn", *tiny, "--seed", seed, "--out", str(folder / name), "--threads", "1"]) == 0
    return folder
