"""Measures the house: `python -m benchmarks.house [ROOT]` prints its figures as a Markdown table.

Import figures come from grimp (import-linter brings it), the others from the syntax trees. ROOT is
a checkout, by default this one.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

PACKAGES = {"dgn_engine": Path(), "dgn_viewer": Path("app")}
PLUGINS = {
    *("cli", "data", "experiments", "nets", "panels", "probes", "regimes"),
}


def modules(root: Path) -> Iterator[Path]:
    """Every source file of both packages."""
    for package, above in PACKAGES.items():
        yield from sorted((root / above / package).rglob("*.py"))


def units(graph: grimp.ImportGraph, package: str) -> dict[str, set[str]]:
    """Unit → units that it imports. A unit is a module or a package right below `package`."""

    def unit(module: str) -> str:
        return module.split(".")[1]

    edges: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        if not module.startswith(f"{package}."):
            continue
        edges[unit(module)] |= set()
        for imported in graph.find_modules_directly_imported_by(module):
            if imported.startswith(f"{package}.") and unit(imported) != unit(module):
                edges[unit(module)].add(unit(imported))
    return dict(edges)


def components(edges: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components (Tarjan), each after those it imports."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = set()
            while not component or node not in component:
                component.add(stack.pop())
            found.append(component)

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def levels(edges: dict[str, set[str]]) -> int:
    """The longest chain of imports between units, cycles counted as one unit."""
    level: dict[str, int] = {}
    for component in components(edges):
        below = [level[x] for node in component for x in edges[node] if x not in component]
        for node in component:
            level[node] = 1 + max(below, default=0)
    return max(level.values(), default=0)


def definitions(
    paths: Iterable[Path],
) -> Iterator[tuple[Path, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every class and function of the files."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield path, node


def twice(names: Iterable[str]) -> int:
    """How many names occur more than once."""
    return sum(count > 1 for count in Counter(names).values())


def says_nothing(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a docstring has fewer than three words."""
    text = ast.get_docstring(node)
    return text is not None and len(text.split()) < 3


def is_plugin(path: Path) -> bool:
    """Whether the file is found by name in a folder of plug-ins."""
    return path.parent.name in PLUGINS and not path.name.startswith("_")


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """(what, figure) in the order of the table."""
    paths = list(modules(root))
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in paths}
    for package, above in PACKAGES.items():
        sys.path.insert(0, str(root / above))
        graph = grimp.build_graph(package, cache_dir=None)
        edges = units(graph, package)
        inner = [path for path in (root / above / package).glob("*.py") if path.stem != "__init__"]
        cycles = [component for component in components(edges) if len(component) > 1]
        yield f"{package}: modules in the root", str(len(inner))
        yield f"{package}: units (modules and packages right below)", str(len(edges))
        yield f"{package}: levels of imports between units", str(levels(edges))
        yield f"{package}: edges between units", str(sum(map(len, edges.values())))
        yield f"{package}: cycles between units", str(len(cycles))
        yield f"{package}: modules", str(sum(package in path.parts for path in paths))
    source = sum(lengths.values())
    yield "lines of source", f"{source:,}"
    yield "modules of fewer than 40 lines", str(sum(n < 40 for n in lengths.values()))
    found = list(definitions(paths))
    classes = [n.name for _, n in found if isinstance(n, ast.ClassDef) and n.name[0] != "_"]
    yield "class names that occur twice", str(twice(classes))
    plain = [p.stem for p in paths if not p.stem.startswith("__") and not is_plugin(p)]
    yield "module names that occur twice (plug-ins aside)", str(twice(plain))
    yield "docstrings of fewer than three words", str(sum(says_nothing(n) for _, n in found))
    spans = sorted(
        (
            ((n.end_lineno or 0) - n.lineno + 1, n.name, path.stem)
            for path, n in found
            if not isinstance(n, ast.ClassDef)
        ),
        reverse=True,
    )
    yield "longest functions", ", ".join(f"{m}.{n} {k}" for k, n, m in spans[:5])
    yield "functions of more than 50 lines", str(sum(k > 50 for k, _, _ in spans))


def main() -> int:
    """Print the table."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    print("| what | figure |\n| --- | ---: |")
    for what, figure in figures(root):
        print(f"| {what} | {figure} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
