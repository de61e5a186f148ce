"""The settings class of a built-in method without loading torch, for the command line.

The file of a method defines its settings and its network. Importing it loads torch, which takes seconds; help texts and
errors of the command line need the settings only. Here the statements of the file that define settings are executed in
a module of their own: imports that need no torch, constants, functions and dataclasses. What needs torch is left out.
"""

import ast
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tpn.methods._config import Config

FOLDER, PACKAGE = Path(__file__).parent, "tpn.methods"
WITHOUT_TORCH = ("dataclasses", "typing", "math", "itertools", "collections.abc", "tpn.errors", f"{PACKAGE}._config")
"""Modules that are imported as they are."""
BASE = "Method"
"""The class whose settings are those of every method."""


class SettingsModule(ModuleType):
    """The part of a method's file that defines settings."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(f"{name} (settings)")
        self.__file__ = str(file)
        self.settings_of: dict[str, type[Config]] = {}
        """The settings class of each class of methods that the file defines or imports."""

    def run(self, node: ast.stmt) -> bool:
        """Execute a statement; return whether it could be, without what was left out."""
        try:
            exec(compile(ast.Module([node], []), str(self.__file__), "exec"), self.__dict__)
        except NameError:
            return False
        return True


def settings_class(name: str) -> type[Config]:
    """Return the settings class of a built-in method."""
    module = f"{PACKAGE}.{name.replace('-', '_')}"
    return settings_module(module).settings_of[f"registered in {module}"]


@cache
def settings_module(name: str) -> SettingsModule:
    """Execute the part of a module of this package that defines settings."""
    file = FOLDER / f"{name.removeprefix(f'{PACKAGE}.')}.py"
    module = SettingsModule(name, file)
    sys.modules[module.__name__] = module  # where `inspect` looks for the source of a class
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            _import(module, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.FunctionDef):
            module.run(node)
        elif isinstance(node, ast.ClassDef) and not (_decorated(node, "dataclass") and module.run(node)):
            _note_settings(module, node, name)
    return module


def _import(module: SettingsModule, node: ast.ImportFrom) -> None:
    """Take over what a file imports, if it needs no torch."""
    source = str(node.module)
    if source in WITHOUT_TORCH:
        found: ModuleType = import_module(source)
    elif source.startswith(f"{PACKAGE}.") and not source.endswith("._registry"):
        found = settings_module(source)
    else:
        return
    for alias in node.names:
        known_as = alias.asname or alias.name
        if hasattr(found, alias.name):
            setattr(module, known_as, getattr(found, alias.name))
        if isinstance(found, SettingsModule) and alias.name in found.settings_of:
            module.settings_of[known_as] = found.settings_of[alias.name]


def _note_settings(module: SettingsModule, node: ast.ClassDef, name: str) -> None:
    """Note the settings class of a class of methods: its attribute Config, or that of its base."""
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
    own = [
        one.value.id
        for one in node.body
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Name)
        and any(isinstance(target, ast.Name) and target.id == "Config" for target in one.targets)
    ]
    inherited = [module.settings_of[base] for base in bases if base in module.settings_of]
    settings = getattr(module, own[0]) if own else inherited[0] if inherited else Config if node.name == BASE else None
    if settings is not None:
        module.settings_of[node.name] = settings
        if _decorated(node, "register_method"):
            module.settings_of[f"registered in {name}"] = settings


def _decorated(node: ast.ClassDef, name: str) -> bool:
    """Whether a class has the decorator of this name, with or without arguments."""
    functions = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return any(isinstance(function, ast.Name) and function.id == name for function in functions)
