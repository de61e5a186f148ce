import pytest

from tpn.images.opening import open_images
from tpn.images.split import Images


@pytest.fixture(scope="session")
def images() -> Images:
    """The drawings that ship with the package."""
    return open_images("quickdraw", 28)
