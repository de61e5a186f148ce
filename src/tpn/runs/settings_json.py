"""Settings dataclasses from JSON, with checks of their types."""

from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tpn.errors import TPNError

Settings = TypeVar("Settings")


def from_json(kind: type[Settings], content: Any) -> Settings:
    """Return an instance of the dataclass `kind` with the values of a JSON object; check their types."""
    if not isinstance(content, dict):
        raise TPNError(f"an object with settings was expected, not {content!r}.")
    known, hints = {field.name: field for field in fields(kind)}, get_type_hints(kind)  # type: ignore[arg-type]
    if unknown := sorted(set(content) - set(known)):
        raise TPNError(f"it has the unknown setting {', '.join(unknown)}.")
    if missing := [name for name, field in known.items() if name not in content and field.default is MISSING]:
        raise TPNError(f"the setting {', '.join(missing)} is missing.")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    for name, value in values.items():
        if not fits(value, hints[name]):
            raise TPNError(f"the setting {name} cannot be {value!r}.")
    return kind(**values)


def fits(value: Any, hint: Any) -> bool:
    """Return whether the value is of that type; an integer is also a valid float."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(item, parts[0]) for item in value)
    if hint in (int, float, str, bool, NoneType):
        return type(value) is hint or (hint is float and type(value) is int)
    return isinstance(value, hint)
