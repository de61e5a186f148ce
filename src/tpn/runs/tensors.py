"""Tensors and metadata in one safetensors file, written atomically."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tpn.digests import DIGEST
from tpn.errors import TPNError
from tpn.files import replacing


def not_finite(tensors: dict[str, Tensor]) -> str | None:
    """Return the name of a tensor that contains NaN or infinity, if there is one."""
    return next((name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()), None)


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and metadata, which must be valid JSON, with a digest of both."""
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}  # the format supports no others
    facts = {**facts, DIGEST: _digest(tensors, facts)}
    content = save(tensors, {"facts": json.dumps(facts)})  # one entry: the format writes several in any order
    with replacing(path) as stream:
        stream.write(content)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and metadata that `write_tensors` wrote, and compare them with their digest.

    Files of earlier versions of tpn have no digest.
    """
    try:
        with safe_open(path, "pt") as stream:
            facts = json.loads((stream.metadata() or {}).get("facts", "{}"))
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        if not isinstance(facts, dict):
            raise ValueError("its metadata are not an object")
        digest = facts.pop(DIGEST, None)
        if digest is not None and digest != _digest(tensors, facts):
            raise ValueError("its content does not match its digest")
        return tensors, facts
    except (SafetensorError, ValueError, RecursionError) as failure:
        raise TPNError(f"{path} is damaged: {failure}.") from failure
    except OSError as failure:
        raise TPNError(f"Cannot read {path}: {failure.strerror or failure}.") from failure


def _digest(tensors: dict[str, Tensor], facts: dict[str, Any]) -> str:
    """Return a digest of names, types, shapes and values of tensors, and of the metadata."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return a digest of the content of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as failure:
        raise TPNError(f"Cannot read {path}: {failure.strerror}.") from failure
