"""Where prepared images, features and networks are kept. Nothing here needs torch or NumPy."""

import os
from pathlib import Path

from tpn.files import resolved


def cache_folder(cache: Path | None) -> Path:
    """Return the folder that stores are kept in: as given, TPN_CACHE, or the user's cache folder."""
    named = cache or os.environ.get("TPN_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "tpn")
    return resolved(Path(named))
