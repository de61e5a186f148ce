"""The help text of a command, generated from its dataclass."""

import inspect
import shutil
import textwrap
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tpn.workflows.keywords import field_docs
from tpn.workflows.options import Flag

WIDEST, INDENT = 100, 26
NAMES = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def help_text(kind: Any, prog: str, default: Any = None) -> str:
    """Return the usage, description, arguments and options of a command as text."""
    width = max(40, min(shutil.get_terminal_size().columns, WIDEST))
    kind, chosen = get_origin(kind) or kind, get_args(kind)
    generic = dict(zip(getattr(kind, "__parameters__", ()), chosen, strict=False))
    hints = {name: generic.get(hint, hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
    docs = field_docs(kind)
    positional = [field for field in fields(kind) if _is_positional(hints[field.name])]
    usage = " ".join([prog, *(_metavar(field, hints[field.name]) for field in positional), "[options]"])
    parts = [f"usage: {usage}", *(_filled(text, width) for text in inspect.cleandoc(kind.__doc__ or "").split("\n\n"))]
    if positional:
        entries = [_entry(_metavar(field, hints[field.name]), docs.get(field.name, ""), width) for field in positional]
        parts.append("\n".join(["arguments:", *entries]))
    own, groups = [], []
    for field in _nearest_first(kind):
        hint = hints[field.name]
        if is_dataclass(hint):
            value = getattr(default, field.name, None)
            lines = _options(hint, value, width)
            groups.append("\n".join([f"{(hint.__doc__ or field.name).strip().rstrip('.')}:", *lines]))
        elif field not in positional:
            own.append(_option(field, hint, docs.get(field.name, ""), getattr(default, field.name, MISSING), width))
    parts += ["\n".join(["options:", *own]), *groups] if own else groups
    return "\n\n".join(parts)


def flag_name(field: "Field[Any]") -> str:
    """Return the flag of a field without its dashes."""
    name = getattr(_argument(field.type), "name", None)
    return str(name) if name else field.name.replace("_", "-")


def _nearest_first(kind: Any) -> list["Field[Any]"]:
    """Return the fields of a dataclass: those of the command itself first, those that all commands share last."""
    known = {field.name: field for field in fields(kind)}
    names = [name for base in kind.__mro__ for name in vars(base).get("__annotations__", {}) if name in known]
    return [known[name] for name in dict.fromkeys(names)]


def _options(kind: Any, values: Any, width: int) -> list[str]:
    hints, docs = get_type_hints(kind, include_extras=True), field_docs(kind)
    return [
        _option(field, hints[field.name], docs.get(field.name, ""), getattr(values, field.name, MISSING), width)
        for field in fields(kind)
    ]


def _option(field: "Field[Any]", hint: Any, doc: str, value: Any, width: int) -> str:
    default = field.default if value is MISSING else value
    flag = f"--{flag_name(field)}"
    if hint == Flag:
        return _entry(flag, doc, width)
    flag = f"{flag}, --no-{flag_name(field)}" if hint is bool else f"{flag} {_metavar(field, hint)}"
    shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
    documented = "default:" in doc or default is MISSING or shown in (None, "")
    return _entry(flag, doc if documented else f"{doc.rstrip('.')} (default: {shown}).", width)


def _entry(left: str, text: str, width: int) -> str:
    body = textwrap.wrap(" ".join(text.split()), width - INDENT, break_on_hyphens=False) or [""]
    if len(left) + 4 > INDENT:
        return "\n".join([f"  {left}", *(" " * INDENT + line for line in body)])
    first = f"  {left}".ljust(INDENT) + body[0]
    return "\n".join([first, *(" " * INDENT + line for line in body[1:])])


def _filled(text: str, width: int) -> str:
    return textwrap.fill(" ".join(text.split()), width, break_on_hyphens=False)


def _metavar(field: "Field[Any]", hint: Any) -> str:
    argument = _argument(field.type)
    if metavar := getattr(argument, "metavar", None):
        return str(metavar)
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    name = _type_name(hint)
    return field.name.upper() if name in ("PATH", "TEXT") and _is_positional(field.type) else name


def _type_name(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type_name(parts[0])
    if origin in (Union, UnionType):
        return "|".join(dict.fromkeys(_type_name(part) for part in parts if part is not NoneType))
    if origin is Literal:
        return "{" + ",".join(map(str, parts)) + "}" if len(parts) > 1 else str(parts[0])
    if origin is tuple:
        return f"{_type_name(parts[0])} ..."
    return NAMES.get(hint, "TEXT")


def _is_positional(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any("ositional" in repr(one) for one in get_args(hint)[1:])


def _argument(hint: Any) -> Any:
    """Return tyro's `arg` annotation of a field, if there is one."""
    if get_origin(hint) is not Annotated:
        return None
    return next((one for one in get_args(hint)[1:] if hasattr(one, "metavar")), None)
