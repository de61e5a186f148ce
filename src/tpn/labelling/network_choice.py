"""Which network is taken, and what identifies it in the cache of features. Nothing here needs torch."""

from pathlib import Path

from tpn.backbones._onnx_files import onnxruntime_is_installed
from tpn.backbones._pretrained import DEFAULT, PRETRAINED, Pretrained, at_hand, find_pretrained, is_pretrained
from tpn.progress import say

ADVICE = (
    "A stronger one is a command away: `tpn backbones get tinyvit-5m` (21 MB); with five labels of each of 81 kinds of "
    "groceries it was right on 84 % of the photographs instead of 73 %."
)


def best_at_hand(cache: Path | None = None) -> str:
    """Return the name of the strongest network whose weights are here and that can run here."""
    return next((one.name for one in reversed(PRETRAINED) if is_usable(one, cache)), DEFAULT.name)


def name_network(wanted: str | None, name: str) -> None:
    """Say which network is taken where none was asked for, and what a better one would bring."""
    if wanted is None and name != DEFAULT.name:
        say(f"Network: {name}, the best at hand (`tpn backbones`; --backbone chooses another).")
    elif wanted is None:
        say(f"Network: {name}. {ADVICE}")


def is_usable(network: Pretrained, cache: Path | None = None) -> bool:
    """Return whether a network can be used without fetching or installing anything."""
    return at_hand(network.name, cache) is not None and (network.kind != "onnx" or onnxruntime_is_installed())


def published_key(name: str) -> str | None:
    """Return what identifies a network with its published weights; None for any other network."""
    return f"{name}-{find_pretrained(name).sources[0].sha256[:8]}" if is_pretrained(name) else None
