"""Plug-ins: every module of a folder offers one constant; the file name is its id."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TypeVar

T = TypeVar("T")


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
