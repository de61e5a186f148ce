"""The settings of episodes and methods, as the command line needs them: without loading torch for built-in methods."""

import sys
from dataclasses import field, fields, make_dataclass

from tpn.episodes.setting import Setting
from tpn.images.source_names import check_source
from tpn.methods._config import Config, PretrainingConfig
from tpn.methods._registry import find_method, is_built_in, list_methods
from tpn.methods._settings_source import settings_class
from tpn.runs.shipped import check_run
from tpn.workflows.keywords import field_docs

__all__ = [
    "Config",
    "PretrainingConfig",
    "Setting",
    "check_run",
    "check_source",
    "list_methods",
    "method_settings",
    "own_settings_class",
]


def method_settings(name: str) -> type[Config]:
    """Return the settings class of a method, or a copy of it from its source, if torch is not loaded yet."""
    if is_built_in(name) and "torch" not in sys.modules:
        return settings_class(name)
    return find_method(name).Config


def own_settings_class(name: str) -> type:
    """Return a dataclass of a method's settings besides those of every training; `tpn.evaluate` checks their values."""
    kind: type = method_settings(name)
    training, docs = {one.name for one in fields(PretrainingConfig)}, field_docs(kind)
    own = [
        (one.name, one.type, field(default=one.default, metadata={"doc": docs.get(one.name, "")}))
        for one in fields(kind)
        if one.name not in training
    ]
    made = make_dataclass("HeadSettings", own, frozen=True)
    made.__doc__ = f"settings of {name}"
    return made
