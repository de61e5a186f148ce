"""Compatibility with earlier versions of tpn: reading every released format of a run folder.

format 4    `data_digest` was called `pictures`, and SNAIL's `projection` was called `embed`
format 5    files had no digests
format 6    current
"""

from typing import Any

from torch import Tensor

from tpn.episodes.setting import Setting
from tpn.errors import TPNError
from tpn.methods._registry import find_method
from tpn.runs.config import RunConfig, content_digest
from tpn.runs.settings_json import from_json

FORMAT = 6
READABLE = (4, 5, 6)
WITH_DIGEST = (6,)
"""Formats whose config.json has a digest."""
ABOUT = ("format", "written_with")
"""Entries of config.json besides the settings."""


def config_from_json(content: dict[str, Any]) -> RunConfig:
    """Convert the content of a config.json of any format to the settings of a run."""
    version = content.get("format")
    if version not in READABLE:
        raise TPNError(f"it has the format {version!r}; this version of tpn reads {', '.join(map(str, READABLE))}.")
    content = {name: value for name, value in content.items() if name not in ABOUT}
    digest = str(content.get("began_as") or content_digest(content))
    if version == 4:
        content["data_digest"] = content.pop("pictures", None)
    kinds = {"settings": find_method(str(content.get("method"))).Config, "episode": Setting}
    config = from_json(RunConfig, content | {name: from_json(kind, content.get(name)) for name, kind in kinds.items()})
    return config if config.digest == digest else RunConfig(**{**vars(config), "began_as": digest})


def current_names(method: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors under their current names."""
    return {current_name(method, name): tensor for name, tensor in tensors.items()}


def current_name(method: str, name: str) -> str:
    """Return the current name of a weight of a method."""
    if method == "snail":
        for prefix in ("", "model/", "optimiser/"):
            if name.startswith(f"{prefix}embed."):
                return name.replace(f"{prefix}embed.", f"{prefix}projection.", 1)
    return name
