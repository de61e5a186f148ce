"""An extension of Griffe, for the reference of the site: docstrings as users see them.

Griffe reads the source, where the docstring of a call that is decorated with `takes` has the line `{options}`. The
docstring of the imported call has a description of each keyword instead, made from the option dataclasses. And Griffe
takes the first of the choices `{"a", "b"}` as the default, whatever is written after them; as a Literal they are read
with their default.
"""

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

CHOICES = re.compile(r"^(\s*\w+ : )\{([^}\n]*)\}", re.MULTILINE)


class Options(griffe.Extension):
    """Completes docstrings before they are parsed."""

    def on_function(self, *, func: griffe.Function, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Give a call that is decorated with `takes` the docstring that it has when imported."""
        if func.docstring is not None and "{options}" in func.docstring.value:
            call = getattr(import_module(func.module.canonical_path), func.name)
            func.docstring.value = inspect.getdoc(call) or func.docstring.value
        with_literals(func)

    def on_class(self, *, cls: griffe.Class, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Write choices as literals."""
        with_literals(cls)


def with_literals(documented: griffe.Object) -> None:
    """Write the choices of parameters as `Literal["a", "b"]`."""
    if documented.docstring is not None:
        documented.docstring.value = CHOICES.sub(r"\1Literal[\2]", documented.docstring.value)
