"""Digests that tell whether a JSON object is still what was written."""

import hashlib
import json
from pathlib import Path
from typing import Any

from tpn.errors import TPNError

DIGEST = "digest"
"""The entry of a JSON object that holds the digest of all other entries."""


def digest_of(content: Any) -> str:
    """Return a digest of JSON data, which does not depend on the order of keys or on white space."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def with_digest(content: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with the digest of its other entries, which `check_digest` compares."""
    return {**content, DIGEST: digest_of(content)}


def check_digest(content: dict[str, Any], path: Path, required: bool = False) -> dict[str, Any]:
    """Return a JSON object without its digest; refuse it if the digest is wrong, or missing where it is `required`.

    What earlier versions of tpn wrote has no digest.
    """
    rest = {name: value for name, value in content.items() if name != DIGEST}
    if (DIGEST in content or required) and content.get(DIGEST) != digest_of(rest):
        raise TPNError(f"{path} is damaged, or was edited: its content does not match its digest.")
    return rest
