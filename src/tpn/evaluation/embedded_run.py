"""A run whose images are embedded once, to be tested with many heads."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tpn.backbones._backbone import Identity
from tpn.backbones._registry import Network
from tpn.errors import TPNError
from tpn.evaluation.protocol import embed_rows
from tpn.evaluation.subject import CPU, open_run
from tpn.files import make_folder
from tpn.images.cache_folder import cache_folder
from tpn.images.split import Images, Split
from tpn.methods._head import Head
from tpn.methods._inference import testing
from tpn.methods._method import Method
from tpn.progress import progress
from tpn.runs.config import RunConfig
from tpn.runs.folder import Run
from tpn.runs.loading import load_run, weights_digest
from tpn.runs.tensors import read_tensors, write_tensors

ANY_HEAD = "simple-shot"
"""The head that the backbone is loaded with to embed images; all heads have the same."""


@dataclass(frozen=True)
class EmbeddedRun:
    """The feature maps of a split by the backbone of a run, as a split of images with a channel for each map."""

    run: Run
    config: RunConfig
    head: Head
    """A head with the mean features of the training classes."""
    data: str
    split: Split
    digest: str
    """Of the weights and the images."""
    backbone: str | Network | None
    device: torch.device

    def method(self, name: str | None = None, settings: dict[str, Any] | None = None) -> Method:
        """Return the run as a head, or its own method, to be tested on the feature maps."""
        method = load_run(self.run, self.config, name, self.backbone, settings)
        if not isinstance(getattr(method, "backbone", None), torch.nn.Module):
            raise TPNError(f"{method.info.name} adapts its backbone to each task, so it cannot be tested on features.")
        method.backbone = Identity(self.split.images.shape[-1], self.split.images.shape[1])
        if isinstance(method, Head) and self.head.base_mean is not None and self.head.rooted_mean is not None:
            method.set_base_means({"base_mean": self.head.base_mean, "rooted_mean": self.head.rooted_mean})
        return method.to(self.device).eval()


def embed_run(
    run: Run,
    data: str | Images | None,
    split: str,
    cache: Path | None = None,
    backbone: str | Network | None = None,
    device: torch.device = CPU,
    check: Callable[[Split], None] = lambda split: None,
) -> EmbeddedRun:
    """Embed all images of a split by the backbone of a run, or read their feature maps from the cache folder.

    `check` may refuse the split before the images are embedded.
    """
    subject = open_run(run, data, split, cache=cache, as_method=ANY_HEAD, backbone=backbone, device=device)
    assert isinstance(subject.method, Head)
    assert subject.config is not None
    images, network = subject.split, subject.method.backbone
    check(images)
    identity = f"{weights_digest(run)} {_content_digest(images)}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    file = cache_folder(cache) / f"embedded-{digest}.safetensors"
    maps = _read(file, identity, len(images))
    if maps is None:
        with testing(subject.method), progress(f"embedding the {split} split", len(images), "images") as advance:
            flat = embed_rows(subject.method, images, np.arange(len(images)), advance)
        maps = flat.view(len(images), *network.map_shape).cpu().numpy()
        make_folder(file.parent)
        write_tensors(file, {"maps": torch.from_numpy(maps)}, {"of": identity})
    channels_last = np.moveaxis(maps, 1, -1)
    embedded = Split(images.name, channels_last, images.classes, images.starts)
    return EmbeddedRun(run, subject.config, subject.method, subject.data, embedded, digest, backbone, device)


def _content_digest(split: Split) -> str:
    """Return a digest of a sample of the pixels, the class names and the class sizes of a split."""
    sample = split.load(np.linspace(0, len(split) - 1, min(len(split), 200)).astype(np.int64))
    parts = [repr((split.name, split.classes)).encode(), split.starts.tobytes(), sample.numpy().tobytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _read(file: Path, identity: str, count: int) -> np.ndarray | None:
    if not file.is_file():
        return None
    try:
        tensors, facts = read_tensors(file)
    except TPNError:  # damaged: it is made again
        return None
    maps = tensors.get("maps")
    return maps.numpy() if facts.get("of") == identity and maps is not None and len(maps) == count else None
