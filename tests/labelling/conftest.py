import pytest

from tests.labelling.making import write_images


@pytest.fixture
def photos(tmp_path):
    return write_images(tmp_path / "photos")
