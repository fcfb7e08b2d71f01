"""Plug-ins: each module of a folder provides one constant, and its file name is the plug-in's id.

`lazy_names` provides public names that are imported on first use.
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
    """An option of a plug-in. The type of the default is the type of its values.

    Args:
        name: Its name in configurations and on the command line.
        label: Its label in a form; without one it has no row.
        default: The default value.
        least: The smallest allowed number.
        most: The largest allowed number.
    """

    name: str
    label: str
    default: Any
    least: float | None = None
    most: float | None = None


def plugin_names(package: str) -> tuple[str, ...]:
    """Return the sorted names of the plug-ins of `package`, without importing them.

    Modules whose names start with an underscore, and packages, are not plug-ins.
    """
    return _names_in(tuple(importlib.import_module(package).__path__))


@cache
def _names_in(folders: tuple[str, ...]) -> tuple[str, ...]:
    """List plug-ins once per process: every configuration looks up a regime."""
    modules = pkgutil.iter_modules(folders)
    # this excludes `__main__` too
    return tuple(sorted(m.name for m in modules if not m.ispkg and not m.name.startswith("_")))


def import_plugin(package: str, name: str, constant: str, kind: type[T]) -> T:
    """Import one plug-in and return its `constant`; raises `LookupError` if it has none."""
    value = getattr(importlib.import_module(f"{package}.{name}"), constant, None)
    if not isinstance(value, kind):
        raise LookupError(
            f"{package}/{name}.py has no constant {constant} of type {kind.__name__}."
        )
    return value


def discover_plugins(package: str, constant: str, kind: type[T]) -> dict[str, T]:
    """Import every plug-in of `package` and return their constants, sorted by file name.

    Raises `LookupError` for an empty folder, or a module without its constant.
    """
    plugins = {name: import_plugin(package, name, constant, kind) for name in plugin_names(package)}
    if not plugins:
        raise LookupError(f"{package} contains no plug-ins. Reinstall dgn-viewer.")
    return plugins


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose stub imports its names.

    Args:
        package: Its `__name__`.
        file: The `__file__` of its `__init__.py`. The stub `__init__.pyi` next to it is read by
            type checkers, and is the only place that says where a name comes from.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    modules = {
        name.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for name in node.names
    }

    def get_lazily(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = vars(importlib.import_module(package))[name] = getattr(
            importlib.import_module(modules[name]), name
        )
        return value

    return (
        get_lazily,
        lambda: sorted({*vars(importlib.import_module(package)), *modules}),
        sorted(modules),
    )
