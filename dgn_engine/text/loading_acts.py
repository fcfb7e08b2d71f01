"""What Python would do to load a file, as words of warnings; the terminal and the window say it."""

from __future__ import annotations

from collections.abc import Sequence


def acts_of_loading(
    would_call: Sequence[str], would_look_up: Sequence[str], would_import: Sequence[str]
) -> list[str]:
    """Return what Python would do, a clause each: 'call os.system', 'look up os.system', 'import
    mymodels and look up mymodels.helper'. A module is not named twice."""
    acts = [f"call {name}" for name in would_call]
    said: set[str] = set()
    for name in would_look_up:
        modules = [module for module in would_import if name.startswith(f"{module}.")]
        module = max(modules, key=len, default="")
        said.add(module)
        acts.append(f"import {module} and look up {name}" if module else f"look up {name}")
    return acts + [f"import {module}" for module in would_import if module not in said]
