"""The networks that embed images: what there is, what is at hand, and fetching those with published weights."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tpn.backbones._fetching import details_of, fetch, record
from tpn.backbones._pretrained import PRETRAINED, Pretrained, at_hand, find_pretrained, weights_path
from tpn.backbones._registry import list_backbones
from tpn.errors import TPNError
from tpn.files import make_folder
from tpn.images.cache_folder import cache_folder
from tpn.labelling.embedding_pipeline import EMBEDDED_AT_ONCE
from tpn.labelling.network_choice import best_at_hand, is_usable
from tpn.labelling.networks import find_network
from tpn.progress import say, showing
from tpn.results import Result
from tpn.training.device import computing

TRIALS = 3


@dataclass(frozen=True)
class BackboneList(Result):
    """What is known of each network: those with published weights, and the names of all."""

    names: list[str]
    pretrained: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        return {"backbones": self.names, "pretrained": self.pretrained}

    def rows(self) -> list[dict[str, Any]]:
        return self.pretrained

    def summary(self) -> str:
        width = max(len(row["name"]) for row in self.pretrained)
        lines = [f"{'pre-trained':<{width}}  input  features  licence     size    here         at hand"]
        for row in self.pretrained:
            speed = "" if row["images_per_second"] is None else f"{row['images_per_second']:.1f} images/s"
            hand = row["at_hand"] or f"no: {row['how']}"
            lines.append(
                f"{row['name']:<{width}}  {row['image_size']:>5}  {row['width']:>8}  {row['licence']:<10}  "
                f"{row['megabytes']:>3} MB  {speed:<12} {hand}"
            )
        others = [name for name in self.names if name not in {row["name"] for row in self.pretrained}]
        best = next(row["name"] for row in reversed(self.pretrained) if row["default"])
        lines += [
            f"`tpn label` uses {best} by default, the strongest at hand (the table is ordered from weak to strong).",
            "--backbone also takes onnx:FILE, timm:MODEL, or the folder of a run.",
            f"Networks without weights, for tpn train --backbone: {', '.join(others)}.",
        ]
        return "\n".join(lines)


def describe_backbones(*, measure: bool = False, cache: str | Path | None = None) -> BackboneList:
    """Describe the networks: input, number of features, licence, size, speed here, and whether they are at hand.

    Parameters
    ----------
    measure : bool, default=False
        Measure how many images each network at hand embeds in a second here, on one core, and remember it.
    cache : path, optional
        The cache folder, which holds fetched networks.

    Returns
    -------
    BackboneList
        Prints as a table; `to_dataframe()` has a row for each network with published weights.
    """
    folder = None if cache is None else Path(cache)
    if measure:
        for network in PRETRAINED:
            if is_usable(network, folder):
                _measure(network, folder)
    return BackboneList(list_backbones(), [_row(network, folder) for network in PRETRAINED])


def get_backbone(name: str, *, cache: str | Path | None = None, progress: bool = True) -> BackboneList:
    """Fetch a network with published weights into the cache, check its SHA-256, and try it.

    Parameters
    ----------
    name : str
        A name that `describe_backbones` lists as pre-trained.
    cache : path, optional
        The cache folder (default: TPN_CACHE if it is set, otherwise ~/.cache/tpn).
    progress : bool, default=True
        Say what is fetched, from where and under which licence.

    Returns
    -------
    BackboneList
        The network, as `describe_backbones` describes it.
    """
    folder = None if cache is None else Path(cache)
    network = find_pretrained(name)
    with showing(progress):
        if at_hand(name, folder) is None:
            fetch(name, folder)
        else:
            say(f"{name} is at hand already: {at_hand(name, folder)}.")
        if not is_usable(network, folder):
            raise TPNError(
                f"{name} is in the cache now, but needs onnxruntime to run: `pip install 'tpn[{network.extra}]'`."
            )
        _measure(network, folder)
    return BackboneList(list_backbones(), [_row(network, folder)])


def _row(network: Pretrained, cache: Path | None) -> dict[str, Any]:
    file = at_hand(network.name, cache)
    install = f"`pip install 'tpn[{network.extra}]'`"
    how = f"tpn backbones get {network.name}" if file is None else f"{install} to run it"
    here = "" if file is None else ("in the cache" if file == weights_path(network.name, cache) else "installed")
    return {
        "name": network.name,
        "title": network.title,
        "image_size": network.image_size,
        "width": network.width,
        "licence": network.licence,
        "megabytes": network.megabytes,
        "images_per_second": details_of(_speeds(cache)).get(network.name),
        "from": [str(source) for source in network.sources],
        "at_hand": here if is_usable(network, cache) else "",
        "how": how,
        "default": best_at_hand(cache) == network.name,
        "file": None if file is None else str(file),
    }


def _speeds(cache: Path | None) -> Path:
    """The file that remembers measured speeds, without its suffix."""
    return cache_folder(cache) / "networks" / "speeds"


def _measure(network: Pretrained, cache: Path | None) -> None:
    """Embed a few images on one core: it works, it gives what it should, and takes so long."""
    with computing(threads=1, device="cpu") as device:
        loaded = find_network(network.name, device, cache).load()
        images = torch.rand(EMBEDDED_AT_ONCE, 3, loaded.image_size, loaded.image_size)
        seconds = []
        with torch.inference_mode():
            for _ in range(TRIALS):
                start = time.perf_counter()
                features = loaded.embed(images)
                seconds.append(time.perf_counter() - start)
    if features.shape != (len(images), network.width) or not torch.isfinite(features).all():
        raise TPNError(f"{network.name} does not work here: its features are not {network.width} finite numbers.")
    make_folder(_speeds(cache).parent)
    record(_speeds(cache), **{network.name: round(len(images) / min(seconds), 1)})
