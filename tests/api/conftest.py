"""The journeys of a researcher, who imports `tpn` and nothing below it."""

import pytest

import tpn

TINY = {
    "way": 3,
    "shot": 1,
    "query": 3,
    "episodes": 6,
    "validate_every": 3,
    "validation_episodes": 4,
    "backbone": "conv4-32",
    "threads": 1,
    "progress": False,
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Two runs on the drawings that come with the package."""
    folder = tmp_path_factory.mktemp("trained")
    return {name: tpn.train(name, out=folder / name, **TINY) for name in ("tpn", "protonet")}
