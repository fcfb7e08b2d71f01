"""Measures the house: `python -m benchmarks.house [ROOT]` prints its figures as a Markdown table.

Import figures come from grimp (import-linter brings it), the others from the syntax trees and from
what git knows. ROOT is a checkout, by default this one. Nothing here passes or fails: the rules
that do are in tests/architecture.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grimp

PACKAGES = {"dgn_engine": Path(), "dgn_viewer": Path("app")}
PLUGINS = {"cli", "data", "experiments", "nets", "panels", "probes", "regimes"}
SCIENCE = ("dgn_engine/kernels", "dgn_engine/model", "dgn_engine/regimes")
# Words of everyday speech in place of the term; so is a name of one word that ends in -ed.
IDIOMS = re.compile(
    "told|said|kept|made|found|seen|meant|shown|taken|left|lit|held|words|sides|places|parts|say|"
    "tell|hear|meet|employ|follow|owe|settle|join|put|take|took|show|leave|look|rest|part|room|way|"
    ".*ed"
)
ODD_BEGINNINGS = {"What", "Of", "As", "How", "Where", "Which", "Whether"}
COMMON = {"errors", "plugins", "random_streams", "text"}  # what every unit may speak of
SLIVER = 60  # lines
COMMITS = 60
IMAGES = {".gif", ".jpg", ".png"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


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
            component: set[str] = set()
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


@dataclass(frozen=True)
class Functions:
    """The functions of some files, counted; dunder methods have names of Python and no say here."""

    count: int
    one_word: int
    idioms: int
    odd_docstrings: int
    public: int
    public_with_arguments: int
    nodes_per_line: float


def count_functions(trees: Iterable[ast.Module]) -> Functions:
    """Count how functions are named and described."""
    nodes = [n for tree in trees for n in ast.walk(tree) if isinstance(n, Function)]
    named = [node for node in nodes if not node.name.startswith("__")]
    one_word = [node.name.strip("_") for node in named if "_" not in node.name.strip("_")]
    public = [node for node in named if not node.name.startswith("_")]
    bodies = [node.body[1:] if ast.get_docstring(node) else node.body for node in nodes]
    statements = [statement for body in bodies for statement in body]
    lines = sum((one.end_lineno or 0) - one.lineno + 1 for one in statements)
    return Functions(
        count=len(named),
        one_word=len(one_word),
        idioms=sum(bool(IDIOMS.fullmatch(name)) for name in one_word),
        odd_docstrings=sum(begins_oddly(node) for node in nodes),
        public=len(public),
        public_with_arguments=sum(says_arguments(node) for node in public),
        nodes_per_line=sum(1 for one in statements for _ in ast.walk(one)) / max(lines, 1),
    )


def begins_oddly(node: Function) -> bool:
    """Return whether a docstring begins with no verb but with 'What', 'Of' and their like."""
    words = (ast.get_docstring(node) or "").split()
    return bool(words) and words[0].strip("`*") in ODD_BEGINNINGS


def says_arguments(node: Function) -> bool:
    """Return whether a docstring has a section on arguments or results."""
    text = ast.get_docstring(node) or ""
    return any(section in text for section in ("Args:", "Parameters", "Returns:"))


def share(part: int, whole: int) -> str:
    """Return '12.3 % (41 of 333)'."""
    return f"{100 * part / max(whole, 1):.1f} % ({part:,} of {whole:,})"


def late_imports(trees: Iterable[ast.Module]) -> int:
    """Count the imports of our own modules inside functions."""
    return sum(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith(tuple(PACKAGES))
        for tree in trees
        for function in ast.walk(tree)
        if isinstance(function, Function)
        for node in ast.walk(function)
    )


def slivers(graph: grimp.ImportGraph, lengths: dict[Path, int], root: Path) -> list[str]:
    """Return modules of few lines that one other alone imports, each with its importer."""
    found = []
    for path, lines in lengths.items():
        if lines >= SLIVER or path.stem.startswith("__") or is_plugin(path):
            continue
        parts = path.relative_to(root).with_suffix("").parts
        module = ".".join(parts[parts[0] == "app" :])
        importers = graph.find_modules_that_directly_import(module)
        if len(importers) == 1:
            found.append(f"{module} ({lines} lines), imported by {next(iter(importers))}")
    return found


def tracked(root: Path) -> list[Path]:
    """Return the files that git knows and that are there."""
    names = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [path for name in names if name and (path := root / name).is_file()]


def is_for_users(page: Path) -> bool:
    """Return whether a document is the README or one of docs/, decisions aside."""
    return page.parts[0] in ("README.md", "docs") and "decisions" not in page.parts


def commit_figures(root: Path) -> str:
    """Return how the last commits are described."""
    log = subprocess.run(
        ["git", "-C", str(root), "log", f"-{COMMITS}", "--format=%s%x00%b%x01"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\x01")
    commits = [entry.strip().partition("\0")[::2] for entry in log if entry.strip()]
    area = sum(bool(re.match(r"[\w, -]{1,23}:", subject)) for subject, _ in commits)
    body = sum(len(text.strip()) > 20 for _, text in commits)
    long = sum(len(subject) > 72 for subject, _ in commits)
    return f"{area} with an area, {body} with a body, {long} subjects over 72"


def function_figures(name: str, paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield (what, figure) of the functions and comments of some files."""
    texts = [path.read_text("utf-8") for path in paths]
    found = count_functions(map(ast.parse, texts))
    lines = [line.lstrip() for text in texts for line in text.splitlines()]
    yield f"{name}: functions named by one word", share(found.one_word, found.count)
    yield f"{name}: functions named by an idiom", share(found.idioms, found.count)
    yield (
        f"{name}: public functions with Args or Returns",
        share(found.public_with_arguments, found.public),
    )
    yield f"{name}: docstrings that begin with What, Of, As, How …", str(found.odd_docstrings)
    yield f"{name}: syntax nodes a line", f"{found.nodes_per_line:.1f}"
    yield f"{name}: comments", share(sum(line.startswith("#") for line in lines), len(lines))


def file_figures(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (what, figure) of documents, tests, images and commits."""
    files = tracked(root)
    python = [path for path in files if path.suffix == ".py"]
    tests = [path for path in python if path.is_relative_to(root / "tests")]
    ours = [*modules(root), *tests]
    yield "lines of tests", f"{sum(len(p.read_text('utf-8').splitlines()) for p in tests):,}"
    marks = sum(len(re.findall(r"# fmt: (?:skip|off)", p.read_text("utf-8"))) for p in ours)
    yield "marks that keep the formatter away, tests included", str(marks)
    pages = [path for path in files if path.suffix == ".md"]
    read = [path for path in pages if is_for_users(path.relative_to(root))]
    for what, chosen in (("Markdown", pages), ("README and docs without decisions", read)):
        yield f"words of {what}", f"{sum(len(p.read_text('utf-8').split()) for p in chosen):,}"
    images = sum(path.stat().st_size for path in files if path.suffix in IMAGES)
    yield "images", f"{images / 1e6:.1f} MB"
    yield f"last {COMMITS} commits", commit_figures(root)


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (what, figure) in the order of the table."""
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
        rooms = sum(len(edges[unit] - COMMON) for unit in edges)
        yield f"{package}: edges between units, to words in common not counted", str(rooms)
        yield f"{package}: cycles between units", str(len(cycles))
        yield f"{package}: modules", str(sum(package in path.parts for path in paths))
    source = sum(lengths.values())
    yield "lines of source", f"{source:,}"
    yield "modules of fewer than 40 lines", str(sum(n < 40 for n in lengths.values()))
    yield f"modules of fewer than {SLIVER} lines", str(sum(n < SLIVER for n in lengths.values()))
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
    methods = [
        sum(isinstance(one, Function) for one in node.body)
        for _, node in found
        if isinstance(node, ast.ClassDef)
    ]
    yield (
        "classes of more than 12 and of more than 20 methods",
        f"{sum(n > 12 for n in methods)}, {sum(n > 20 for n in methods)}",
    )
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    yield "imports of our own modules inside functions", str(late_imports(trees))
    for package in PACKAGES:
        yield from function_figures(package, [path for path in paths if package in path.parts])
    science = tuple(root / folder for folder in SCIENCE)
    of_science = [path for path in paths if any(path.is_relative_to(each) for each in science)]
    yield from function_figures("kernels, model, regimes", of_science)
    yield from file_figures(root)


def main() -> int:
    """Print the table, and below it the modules that might be part of another."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    print("| what | figure |\n| --- | ---: |")
    for what, figure in figures(root):
        print(f"| {what} | {figure} |")
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in modules(root)}
    found = slivers(graph, lengths, root)
    print(f"\n{len(found)} modules of fewer than {SLIVER} lines have one importer:\n")
    for line in found:
        print(f"- {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
