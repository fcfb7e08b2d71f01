"""What the packages import is either Python's own, ours, or a declared dependency."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = {"dgn_engine", "dgn_viewer", "dgn_resources"}
DISTRIBUTIONS = {  # where the name to import is not that of the distribution
    "PIL": "pillow",
    "PySide6": "PySide6-Essentials",
    "dask": "distributed",  # it comes with it, in the same release
    "dask_jobqueue": "dask-jobqueue",
    "shiboken6": "PySide6-Essentials",  # it comes with it, in the same release
    "sklearn": "scikit-learn",
}
EXTRAS = ("cluster", "notebook")  # of what a user may leave out; the others are for tests


def imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def test_every_import_is_declared_and_every_dependency_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = {re.split(r"[<>=]", item)[0] for item in project["dependencies"]}
    extras = project["optional-dependencies"]
    optional = {re.split(r"[<>=]", item)[0] for name in EXTRAS for item in extras[name]}
    modules = [*(ROOT / "dgn_engine").rglob("*.py"), *(ROOT / "app").rglob("*.py")]
    found = {name for module in modules for name in imported(module)}
    foreign = found - set(sys.stdlib_module_names) - OURS
    # torchvision is imported by name, in the one module that knows how.
    needed = {DISTRIBUTIONS.get(name, name) for name in foreign} | {"torchvision"}
    assert optional <= needed
    assert needed - optional == required
