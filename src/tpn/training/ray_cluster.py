"""Connecting to a Ray cluster."""

import socket
from typing import Any

from tpn.errors import TPNError

SECONDS_FOR_AN_ANSWER = 5.0


def connect(address: str) -> Any:
    """Connect to the cluster at this address (auto, local, HOST:PORT, ray://HOST:PORT); return the module ray."""
    try:
        import ray
    except ImportError:
        raise TPNError("--ray needs Ray: `pip install 'tpn[ray]'`.") from None
    check_address(address)
    try:
        ray.init(address=address, log_to_driver=False, include_dashboard=False if address == "local" else None)
    except (ConnectionError, ValueError, RuntimeError) as failure:
        raise TPNError(f"There is no Ray cluster at {address!r}: {' '.join(str(failure).split())}") from failure
    return ray


def check_address(address: str) -> None:
    """Refuse an address that does not answer: Ray itself would try for minutes."""
    place = address.removeprefix("ray://")
    if place in ("auto", "local"):
        return
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal():
        raise TPNError(f"--ray must be auto, local, HOST:PORT or ray://HOST:PORT, not {address!r}.")
    try:
        socket.create_connection((host, int(port)), SECONDS_FOR_AN_ANSWER).close()
    except (OSError, OverflowError, UnicodeError) as failure:
        raise TPNError(f"There is no Ray cluster at {address!r}: {failure}.") from failure
