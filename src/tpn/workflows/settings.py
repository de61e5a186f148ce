"""The settings of episodes and methods, as the command line needs them. Only `method_settings` loads torch."""

from dataclasses import field, fields, make_dataclass

from tpn.episodes.setting import Setting
from tpn.methods._config import Config, PretrainingConfig
from tpn.methods._registry import find_method, list_methods
from tpn.runs.shipped import check_run
from tpn.workflows.keywords import field_docs

__all__ = [
    "Config",
    "PretrainingConfig",
    "Setting",
    "check_run",
    "list_methods",
    "method_settings",
    "own_settings_class",
]


def method_settings(name: str) -> type[Config]:
    """Return the settings class of a method."""
    return find_method(name).Config


def own_settings_class(name: str) -> type:
    """Return a dataclass of a method's settings besides those of every training; `tpn.evaluate` checks their values."""
    kind: type = find_method(name).Config
    training, docs = {one.name for one in fields(PretrainingConfig)}, field_docs(kind)
    own = [
        (one.name, one.type, field(default=one.default, metadata={"doc": docs.get(one.name, "")}))
        for one in fields(kind)
        if one.name not in training
    ]
    made = make_dataclass("HeadSettings", own, frozen=True)
    made.__doc__ = f"settings of {name}"
    return made
