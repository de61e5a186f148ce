"""The lines of metrics.jsonl, one per validation, each with a digest of itself and of the line before."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from tpn.digests import DIGEST
from tpn.errors import TPNError


def metrics_line(metrics: dict[str, Any], before: bytes) -> bytes:
    """Return the line to append to a metrics.jsonl that holds `before`."""
    last = before.splitlines()[-1] if before else b""
    return json.dumps({**metrics, DIGEST: _chained(metrics, last)}).encode() + b"\n"


def read_metrics(content: bytes, source: Path) -> list[dict[str, Any]]:
    """Parse and check the lines of a metrics.jsonl. Lines that earlier versions of tpn wrote have no digest."""
    metrics: list[dict[str, Any]] = []
    last, digests = b"", False
    for number, line in enumerate(content.splitlines(), 1):
        try:
            figures = json.loads(line)
            digest = figures.pop(DIGEST, None)
            digests |= digest is not None
            whole = isinstance(figures["episode"], int) and figures["val_accuracy"] is not None
            whole = whole and all(value is None or math.isfinite(value) for value in figures.values())
            whole = whole and (not digests or digest == _chained(figures, last))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            whole = False
        if not whole:
            raise TPNError(f"{source} is damaged in line {number}: it does not hold the metrics of a validation.")
        metrics.append(figures)
        last = line
    return metrics


def _chained(metrics: dict[str, Any], last: bytes) -> str:
    return hashlib.sha256(last + b"\n" + json.dumps(metrics, sort_keys=True).encode()).hexdigest()[:16]
