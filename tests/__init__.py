"""How types are checked while the tests run: as mypy reads them, a whole number may stand for a float.

Functions within functions are not checked: each call would prepare them anew, for longer than they take.
"""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function check its arguments and what it returns."""
    return function if "<locals>" in function.__qualname__ else _checked(function)
