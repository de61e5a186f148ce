"""The settings of episodes and methods, as the command line needs them. Only `method_settings` loads torch."""

from tpn.episodes.setting import Setting
from tpn.methods._config import Config, PretrainingConfig
from tpn.methods._registry import find_method, list_methods
from tpn.runs.shipped import check_run

__all__ = ["Config", "PretrainingConfig", "Setting", "check_run", "list_methods", "method_settings"]


def method_settings(name: str) -> type[Config]:
    """Return the settings class of a method."""
    return find_method(name).Config
