"""Plug-ins: every module of a folder offers one constant; the file name is its id."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TypeVar

T = TypeVar("T")


def discover(package: str, constant: str, kind: type[T]) -> dict[str, T]:
    """Import every public module of `package` and collect its `constant`, sorted by file name.

    A module whose name starts with an underscore is no plug-in, nor is a package.
    Raises `LookupError` on an empty folder or a module without its constant.
    """
    found: dict[str, T] = {}
    module = importlib.import_module(package)
    for info in sorted(pkgutil.iter_modules(module.__path__), key=lambda i: i.name):
        if info.ispkg or info.name.startswith("_"):  # also `__main__` where there is one
            continue
        plugin = getattr(importlib.import_module(f"{package}.{info.name}"), constant, None)
        if not isinstance(plugin, kind):
            raise LookupError(
                f"{package}/{info.name}.py has no constant {constant} of type {kind.__name__}."
            )
        found[info.name] = plugin
    if not found:
        raise LookupError(f"{package} holds no plug-ins: is the installation complete?")
    return found
