"""Describe what Python would do to load a file, for warnings in the terminal and the window."""

from __future__ import annotations

from collections.abc import Sequence


def describe_loading(
    would_call: Sequence[str], would_look_up: Sequence[str], would_import: Sequence[str]
) -> list[str]:
    """Return what Python would do, a clause each: 'call os.system', 'import mymodels and look up
    mymodels.helper'. No module is listed twice."""
    acts = [f"call {name}" for name in would_call]
    listed: set[str] = set()
    for name in would_look_up:
        modules = [module for module in would_import if name.startswith(f"{module}.")]
        module = max(modules, key=len, default="")
        listed.add(module)
        acts.append(f"import {module} and look up {name}" if module else f"look up {name}")
    return acts + [f"import {module}" for module in would_import if module not in listed]
