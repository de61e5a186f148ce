"""Keyword arguments from option dataclasses: an option is defined once, as a documented field.

The same field is a keyword argument of a public function, a flag of the command line and, for settings of a run, a key
in config.json.
"""

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from tpn.errors import TPNError, with_keywords

Options = TypeVar("Options")
Function = TypeVar("Function", bound=Callable[..., Any])


def takes(*kinds: type) -> Callable[[Function], Function]:
    """Document the `**options` of a function as the fields of these dataclasses.

    The signature that `help` and notebooks show gets a keyword for each field, and the docstring a description of each,
    in place of the line `{options}`.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        known = {parameter.name for parameter in own}
        options = {name: field for name, field in option_fields(*kinds).items() if name not in known}
        added = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=_plain(field.type)
            )
            for name, field in options.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        documentation = {name: text for kind in kinds for name, text in field_docs(kind).items()}
        lines = [
            f"{name} : {_type_text(field)}\n{textwrap.indent(with_keywords(documentation.get(name, '')), '    ')}"
            for name, field in options.items()
        ]
        function.__doc__ = (inspect.getdoc(function) or "").replace("{options}", "\n".join(lines))
        return function

    return decorate


def option_fields(*kinds: type) -> dict[str, "Field[Any]"]:
    """Return the fields of dataclasses by name; a later class overrides an earlier one."""
    return {field.name: field for kind in kinds for field in fields(kind)}


def take(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    """Take the fields of a dataclass out of `options`; convert text to paths, and lists to tuples."""
    known = option_fields(kind)
    return {name: _as_given(field, options.pop(name)) for name, field in known.items() if name in options}


def build(kind: type[Options], options: dict[str, Any]) -> Options:
    """Take the fields of a dataclass out of `options`, and build it; missing fields have their defaults."""
    return kind(**take(kind, options))


def _as_given(field: "Field[Any]", value: Any) -> Any:
    """Convert text to a path where one is expected, and a list to a tuple; refuse a value that is not a choice."""
    annotation = _plain(field.type)
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    if isinstance(value, str) and not value and {str, Path} & set(members):
        raise TPNError(f"The value of --{field.name.replace('_', '-')} is empty.")
    if isinstance(value, str | os.PathLike) and Path in members and str not in members:
        return Path(value)
    if isinstance(value, list):
        return tuple(value)
    choices = [choice for member in members if get_origin(member) is Literal for choice in get_args(member)]
    only = all(get_origin(member) is Literal or member is type(None) for member in members)
    if only and choices and value not in (*choices, *([None] if type(None) in members else [])):
        flag = field.name.replace("_", "-")
        raise TPNError(f"--{flag} must be {', '.join(map(str, choices[:-1]))} or {choices[-1]}, not {value!r}.")
    return value


def refuse_unknown(function: str, left: dict[str, Any], *kinds: type) -> None:
    """Raise the TypeError of an unknown keyword argument if any is left."""
    for name in left:
        near = get_close_matches(name, option_fields(*kinds), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}.{hint}")


@cache
def field_docs(kind: type) -> dict[str, str]:
    """Return the documentation of each field of a dataclass: the string below it, or that of its base class.

    Classes that are made at run time have it in the metadata of their fields.
    """
    docs = {field.name: str(field.metadata["doc"]) for field in fields(kind) if "doc" in field.metadata}
    for base in reversed(kind.__mro__):
        if base.__module__ != "builtins" and "__dataclass_fields__" in vars(base):
            try:
                body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            except (OSError, TypeError, IndexError):  # defined in an interactive session, or made at run time
                continue
            assert isinstance(body, ast.ClassDef)
            for one, text in zip(body.body, body.body[1:], strict=False):
                target = one.target if isinstance(one, ast.AnnAssign) else None
                if isinstance(target, ast.Name) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                    docs[target.id] = inspect.cleandoc(str(text.value.value))
    return docs


def _default(field: "Field[Any]") -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else inspect.Parameter.empty


def _type_text(field: "Field[Any]") -> str:
    kind = inspect.formatannotation(_plain(field.type))
    kind = re.sub(r"\b(pathlib|typing|collections\.abc|tpn(\.\w+)+)\.(?=\w)", "", kind)
    kind = re.sub(r"Literal\[([^\]]*)\]", r"{\1}", kind)
    default = _default(field)
    return kind if default is inspect.Parameter.empty else f"{kind}, default={default!r}"


def _plain(annotation: Any) -> Any:
    """Return a type without its annotations for the command line."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
