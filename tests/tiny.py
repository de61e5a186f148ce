"""The small settings that the tests train and test with: less than a second each."""

from typing import Any

SETTING: dict[str, Any] = {"way": 3, "shot": 1, "query": 2}
TINY: dict[str, Any] = {**SETTING, "episodes": 4, "validation_episodes": 2, "threads": 1}


def flags(**settings: Any) -> list[str]:
    """Return settings as arguments of a command."""
    arguments = []
    for name, value in settings.items():
        values = value if isinstance(value, tuple | list) else () if value is True else (value,)
        arguments += [f"--{name.replace('_', '-')}", *map(str, values)]
    return arguments


def tiny(**settings: Any) -> list[str]:
    """Return the arguments of a small training, with these settings changed or added."""
    return flags(**{**TINY, **settings})
