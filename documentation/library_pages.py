"""The reference of the library: one page per subject, with docstrings set by mkdocstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dgn_engine
from documentation.generated_page import GeneratedPage

FOLDER = "reference/library"
KERNELS = "dgn_engine.kernels"
# Subjects of the functions of dgn_engine.kernels, by the module that defines them.
SUBJECTS = {
    "Your own network": ("from_module", "empirical", "shared"),
    "Gates, overlaps and path kernels": ("path_kernels", "path_blocks", "path_inputs", "gram"),
    "Gates in the input space": ("half_spaces", "gate_boundaries"),
    "Path norms": ("path_norms",),
    "Tangent kernels": (
        "ntk",
        "tangent_sweep",
        "tangent_estimator",
        "operators",
        "kernel_motion",
    ),
    "Spectra and ν": ("spectra", "target_alignment", "generalisation"),
    "Estimates": ("estimator", "kernel_average"),
    "Expectations and limits": (
        "expectation",
        "expected_features",
        "infinite",
        "cntk",
        "architecture_limits",
    ),
    "Residual networks": ("residual",),
    "Learning with a kernel": ("kernel_learning", "convex_gates"),
    "Budgets": ("peak_memory",),
}


def generate() -> Iterator[GeneratedPage]:
    names = _names(Path(dgn_engine.__file__).parent / "kernels" / "__init__.pyi")
    known = {module for modules in SUBJECTS.values() for module in modules}
    left = sorted(set(names.values()) - known)
    if left:
        raise RuntimeError(f"SUBJECTS of {__name__} has no place for {', '.join(left)}")
    yield GeneratedPage(f"{FOLDER}/index.md", "\n".join(_index(names)))
    yield GeneratedPage(f"{FOLDER}/dgn.md", "\n".join(_package_page()))
    for subject, modules in SUBJECTS.items():
        shown = [name for name, module in names.items() if module in modules]
        yield GeneratedPage(_path(subject), "\n".join(_page(subject, shown)))


def _path(subject: str) -> str:
    words = subject.lower().replace("ν", "nu").replace(",", "")
    return f"{FOLDER}/{words.replace(' ', '-')}.md"


def _names(source: Path) -> dict[str, str]:
    """Return each public name that a stub imports, with the last part of its module."""
    return {
        alias.name: node.module.rpartition(".")[2]
        for node in ast.parse(source.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def _index(names: dict[str, str]) -> Iterator[str]:
    yield "# Library\n"
    yield (
        "`import dgn_engine.kernels as k` gives you pure functions on tensors: no training, no "
        "window, no global state. Start with "
        "[Kernels of your own network](../../own-network.md) and [Kernels](../../kernels.md). "
        "These pages list every public name with its docstring. Letters at the end of a name are "
        "its shape: `gates_NW` is (examples, units). *theory §4* is section 4 of "
        "[All definitions](../../theory.md). [The papers](../../cite.md) lists [NPF] and the "
        "others.\n"
    )
    yield "- [In your scripts and notebooks](dgn.md): `import dgn_engine as dgn`"
    for subject, modules in SUBJECTS.items():
        place = Path(_path(subject)).name
        shown = ", ".join(f"`{name}`" for name, module in names.items() if module in modules)
        yield f"- [{subject}]({place}): {shown}"


def _package_page() -> Iterator[str]:
    """Yield the page of the package's own names, which its stub imports."""
    yield "# In your scripts and notebooks\n"
    yield "`import dgn_engine as dgn` takes milliseconds and gives you these names:\n"
    stub = Path(dgn_engine.__file__).with_suffix(".pyi").read_text("utf-8")
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield f"::: {node.module}.{alias.name}"
                yield "    options:\n      heading_level: 2\n"


def _page(subject: str, names: list[str]) -> Iterator[str]:
    yield f"# {subject}\n"
    for name in names:
        yield f"::: {KERNELS}.{name}"
        yield "    options:\n      heading_level: 2\n"
