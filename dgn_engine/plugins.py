"""Plug-ins: every module of a folder offers one constant; the file name is its id.

Also public names that are imported when they are first used: `lazy_names`.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
OptionValue = int | float | str | bool


@dataclass(frozen=True)
class PluginOption:
    """An option of a plug-in; its default says of which type its values are.

    Args:
        name: Its name in configurations and on the command line.
        label: The words beside its field in a form; without them it has no row.
        default: The value where nobody gives one.
        least: The smallest number that is allowed.
        most: The largest number that is allowed.
    """

    name: str
    label: str
    default: Any
    least: float | None = None
    most: float | None = None


def plugin_names(package: str) -> tuple[str, ...]:
    """The file names of the plug-ins of `package`, sorted; none of them is imported.

    A module whose name starts with an underscore is no plug-in, nor is a package.
    """
    return _names_in(tuple(importlib.import_module(package).__path__))


@cache
def _names_in(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Read once a process: a regime is looked for in every configuration."""
    modules = pkgutil.iter_modules(folders)
    # `__main__`, where there is one, starts with an underscore too
    return tuple(sorted(m.name for m in modules if not m.ispkg and not m.name.startswith("_")))


def plugin(package: str, name: str, constant: str, kind: type[T]) -> T:
    """The `constant` of one plug-in, which is imported; raises `LookupError` where it has none."""
    found = getattr(importlib.import_module(f"{package}.{name}"), constant, None)
    if not isinstance(found, kind):
        raise LookupError(
            f"{package}/{name}.py has no constant {constant} of type {kind.__name__}."
        )
    return found


def discover(package: str, constant: str, kind: type[T]) -> dict[str, T]:
    """Import every plug-in of `package` and collect its `constant`, sorted by file name.

    Raises `LookupError` on an empty folder or a module without its constant.
    """
    found = {name: plugin(package, name, constant, kind) for name in plugin_names(package)}
    if not found:
        raise LookupError(f"{package} holds no plug-ins: is the installation complete?")
    return found


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose stub imports its names.

    Args:
        package: Its `__name__`.
        file: Its `__file__`, `__init__.py`; the stub `__init__.pyi` beside it is what type
            checkers read, and all that says where a name lives.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    modules = {
        name.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for name in node.names
    }

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = vars(importlib.import_module(package))[name] = getattr(
            importlib.import_module(modules[name]), name
        )
        return found

    return get, lambda: sorted({*vars(importlib.import_module(package)), *modules}), sorted(modules)
