"""A Python of the usual GPU image: the packages it has, and neither more packages nor this one.

Python imports a module of this name at its start where its folder is on PYTHONPATH, in every
process that is started from there as well. What is not in the list cannot be imported, nor is its
metadata seen, whatever this interpreter has installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
OURS = {"benchmarks", "dgn_engine", "dgn_resources", "dgn_viewer", "tests", "sitecustomize"}
# Modules and distributions: those of `benchmarks.gpu`, and what they need themselves.
IMAGE = {
    "matplotlib", "contourpy", "cycler", "dateutil", "python_dateutil", "fonttools", "kiwisolver",
    "mpl_toolkits", "packaging", "pil", "pillow", "pyparsing", "six", "numba", "llvmlite", "numpy",
    "pytest", "_pytest", "py", "iniconfig", "pluggy", "pygments", "pytest_timeout", "pytest_xdist",
    "xdist", "execnet", "rich", "markdown_it", "markdown_it_py", "mdurl", "safetensors",
    "scikit_learn", "sklearn", "joblib", "narwhals", "threadpoolctl", "scipy", "torch", "torchgen",
    "torchvision", "filelock", "fsspec", "functorch", "jinja2", "markupsafe", "mpmath", "networkx",
    "sympy", "typing_extensions",
}  # fmt: skip
KNOWN = {name.lower() for name in sys.stdlib_module_names} | OURS | IMAGE


def is_known(name: str) -> bool:
    return name.lower().replace("-", "_") in KNOWN or name.startswith("_sysconfigdata_")


class ImageFinder(PathFinder):
    """Finds on sys.path what the image has, as if nothing else were installed."""

    @classmethod
    def find_spec(
        cls,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if not is_known(fullname.partition(".")[0]):
            return None
        return super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(  # type: ignore[override]  # typeshed has an instance method
        cls, context: DistributionFinder.Context | None = None
    ) -> Iterable[Distribution]:
        found = super().find_distributions(context or DistributionFinder.Context())
        return (item for item in found if is_known(item.name))


sys.meta_path[:] = [ImageFinder if item is PathFinder else item for item in sys.meta_path]
# An editable install puts the checkout here; on a card's machine only its user does so.
_asked = os.environ.get("PYTHONPATH", "").split(os.pathsep)
_installed = {str(ROOT / folder) for folder in ("", "app", "resources")} - set(_asked)
sys.path[:] = [item for item in sys.path if item not in _installed]
