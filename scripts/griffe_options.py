"""An extension of Griffe, for the reference of the site: the keywords that `takes` adds to a call are documented.

Griffe reads the source, where the docstring of such a call has the line `{options}`. The docstring of the imported call
has a description of each keyword instead, made from the option dataclasses.
"""

import inspect
from importlib import import_module
from typing import Any

import griffe


class Options(griffe.Extension):
    """Gives calls that are decorated with `takes` the docstring that they have when imported."""

    def on_function(self, *, func: griffe.Function, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Replace the docstring of a call."""
        if func.docstring is None or "{options}" not in func.docstring.value:
            return
        call = getattr(import_module(func.module.canonical_path), func.name)
        func.docstring.value = inspect.getdoc(call) or func.docstring.value
