"""Tensors and metadata in one safetensors file, written atomically."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tpn.errors import TPNError
from tpn.files import replacing


def not_finite(tensors: dict[str, Tensor]) -> str | None:
    """Return the name of a tensor that contains NaN or infinity, if there is one."""
    return next((name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()), None)


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and metadata, which must be valid JSON. The format supports contiguous tensors only."""
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()}, {"facts": json.dumps(facts)})
    with replacing(path) as stream:
        stream.write(content)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and metadata that `write_tensors` wrote."""
    try:
        with safe_open(path, "pt") as stream:
            facts = json.loads((stream.metadata() or {}).get("facts", "{}"))
            return {name: stream.get_tensor(name) for name in stream.keys()}, facts  # noqa: SIM118
    except (SafetensorError, ValueError, RecursionError) as failure:
        raise TPNError(f"{path} is damaged: {failure}.") from failure
    except OSError as failure:
        raise TPNError(f"Cannot read {path}: {failure.strerror or failure}.") from failure


def file_digest(path: Path) -> str:
    """Return a digest of the content of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as failure:
        raise TPNError(f"Cannot read {path}: {failure.strerror}.") from failure
