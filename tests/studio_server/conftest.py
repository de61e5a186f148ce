import pytest

from tests.studio_server.making import make_workspace, write_drawings


@pytest.fixture
def drawings(tmp_path):
    """A folder of drawings, and the class of each."""
    return tmp_path / "drawings", write_drawings(tmp_path / "drawings")


@pytest.fixture
def workspace(drawings, tmp_path):
    opened = make_workspace(*drawings, tmp_path / "cache")
    yield opened
    opened.close()
