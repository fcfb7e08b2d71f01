"""Code metrics: `python -m benchmarks.house [ROOT]` prints them as a Markdown table.

Import figures come from grimp (a dependency of import-linter), the others from syntax trees and
git. ROOT is a checkout, by default this one. Nothing here passes or fails: the rules that do are in
tests/architecture.
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
# Everyday words in place of the term; a one-word name that ends in -ed counts as well.
IDIOMS = re.compile(
    "told|said|kept|made|found|seen|meant|shown|taken|left|lit|held|words|sides|places|parts|say|"
    "tell|hear|meet|employ|follow|owe|settle|join|put|take|took|show|leave|look|rest|part|room|way|"
    ".*ed"
)
ODD_BEGINNINGS = {"What", "Of", "As", "How", "Where", "Which", "Whether"}
COMMON = {"errors", "plugins", "random_streams", "text"}  # every unit may import these
SLIVER = 60  # lines
COMMITS = 60
IMAGES = {".gif", ".jpg", ".png"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def list_modules(root: Path) -> Iterator[Path]:
    """Yield every source file of both packages."""
    for package, above in PACKAGES.items():
        yield from sorted((root / above / package).rglob("*.py"))


def find_units(graph: grimp.ImportGraph, package: str) -> dict[str, set[str]]:
    """Return the units each unit imports. A unit is a module or package directly in `package`."""

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


def find_components(edges: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components (Tarjan), each after those it imports."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[set[str]] = []

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
            result.append(component)

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return result


def count_levels(edges: dict[str, set[str]]) -> int:
    """Return the length of the longest import chain, counting a cycle as one unit."""
    level: dict[str, int] = {}
    for component in find_components(edges):
        below = [level[x] for node in component for x in edges[node] if x not in component]
        for node in component:
            level[node] = 1 + max(below, default=0)
    return max(level.values(), default=0)


def list_definitions(
    paths: Iterable[Path],
) -> Iterator[tuple[Path, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every class and function of the files."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield path, node


def count_repeated(names: Iterable[str]) -> int:
    """Return how many names occur more than once."""
    return sum(count > 1 for count in Counter(names).values())


def has_short_docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the docstring has fewer than three words."""
    text = ast.get_docstring(node)
    return text is not None and len(text.split()) < 3


def is_plugin(path: Path) -> bool:
    """Return whether the file is a plug-in, which is discovered in its folder by name."""
    return path.parent.name in PLUGINS and not path.name.startswith("_")


@dataclass(frozen=True)
class Functions:
    """Counts over the functions of some files, without dunder methods."""

    count: int
    one_word: int
    idioms: int
    odd_docstrings: int
    public: int
    public_with_arguments: int
    nodes_per_line: float


def count_functions(trees: Iterable[ast.Module]) -> Functions:
    """Count how the functions are named and documented."""
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
        public_with_arguments=sum(documents_arguments(node) for node in public),
        nodes_per_line=sum(1 for one in statements for _ in ast.walk(one)) / max(lines, 1),
    )


def begins_oddly(node: Function) -> bool:
    """Return whether the docstring begins with 'What', 'Of' or the like instead of a verb."""
    words = (ast.get_docstring(node) or "").split()
    return bool(words) and words[0].strip("`*") in ODD_BEGINNINGS


def documents_arguments(node: Function) -> bool:
    """Return whether the docstring has a section on arguments or results."""
    text = ast.get_docstring(node) or ""
    return any(section in text for section in ("Args:", "Parameters", "Returns:"))


def format_share(part: int, whole: int) -> str:
    """Return '12.3 % (41 of 333)'."""
    return f"{100 * part / max(whole, 1):.1f} % ({part:,} of {whole:,})"


def count_late_imports(trees: Iterable[ast.Module]) -> int:
    """Count the imports of our own modules inside functions."""
    return sum(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith(tuple(PACKAGES))
        for tree in trees
        for function in ast.walk(tree)
        if isinstance(function, Function)
        for node in ast.walk(function)
    )


def find_slivers(graph: grimp.ImportGraph, lengths: dict[Path, int], root: Path) -> list[str]:
    """Return the short modules that have a single importer, each with that importer."""
    result = []
    for path, lines in lengths.items():
        if lines >= SLIVER or path.stem.startswith("__") or is_plugin(path):
            continue
        parts = path.relative_to(root).with_suffix("").parts
        module = ".".join(parts[parts[0] == "app" :])
        importers = graph.find_modules_that_directly_import(module)
        if len(importers) == 1:
            result.append(f"{module} ({lines} lines), imported by {next(iter(importers))}")
    return result


def list_tracked_files(root: Path) -> list[Path]:
    """Return the tracked files that exist."""
    names = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [path for name in names if name and (path := root / name).is_file()]


def is_for_users(page: Path) -> bool:
    """Return whether a document is the README or in docs/, except for decisions."""
    return page.parts[0] in ("README.md", "docs") and "decisions" not in page.parts


def describe_commits(root: Path) -> str:
    """Return a summary of the messages of the last commits."""
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
    """Yield (label, figure) for the functions and comments of some files."""
    texts = [path.read_text("utf-8") for path in paths]
    counts = count_functions(map(ast.parse, texts))
    lines = [line.lstrip() for text in texts for line in text.splitlines()]
    yield f"{name}: functions named by one word", format_share(counts.one_word, counts.count)
    yield f"{name}: functions named by an idiom", format_share(counts.idioms, counts.count)
    yield (
        f"{name}: public functions with Args or Returns",
        format_share(counts.public_with_arguments, counts.public),
    )
    yield f"{name}: docstrings that begin with What, Of, As, How …", str(counts.odd_docstrings)
    yield f"{name}: syntax nodes a line", f"{counts.nodes_per_line:.1f}"
    yield f"{name}: comments", format_share(sum(line.startswith("#") for line in lines), len(lines))


def file_figures(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (label, figure) for documents, tests, images and commits."""
    files = list_tracked_files(root)
    python = [path for path in files if path.suffix == ".py"]
    tests = [path for path in python if path.is_relative_to(root / "tests")]
    ours = [*list_modules(root), *tests]
    yield "lines of tests", f"{sum(len(p.read_text('utf-8').splitlines()) for p in tests):,}"
    marks = sum(len(re.findall(r"# fmt: (?:skip|off)", p.read_text("utf-8"))) for p in ours)
    yield "marks that keep the formatter away, tests included", str(marks)
    pages = [path for path in files if path.suffix == ".md"]
    read = [path for path in pages if is_for_users(path.relative_to(root))]
    for what, chosen in (("Markdown", pages), ("README and docs without decisions", read)):
        yield f"words of {what}", f"{sum(len(p.read_text('utf-8').split()) for p in chosen):,}"
    images = sum(path.stat().st_size for path in files if path.suffix in IMAGES)
    yield "images", f"{images / 1e6:.1f} MB"
    yield f"last {COMMITS} commits", describe_commits(root)


def collect_figures(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (label, figure) in the order of the table."""
    paths = list(list_modules(root))
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in paths}
    for package, above in PACKAGES.items():
        sys.path.insert(0, str(root / above))
        graph = grimp.build_graph(package, cache_dir=None)
        edges = find_units(graph, package)
        inner = [path for path in (root / above / package).glob("*.py") if path.stem != "__init__"]
        cycles = [component for component in find_components(edges) if len(component) > 1]
        yield f"{package}: modules in the root", str(len(inner))
        yield f"{package}: units (modules and packages right below)", str(len(edges))
        yield f"{package}: levels of imports between units", str(count_levels(edges))
        yield f"{package}: edges between units", str(sum(map(len, edges.values())))
        rooms = sum(len(edges[unit] - COMMON) for unit in edges)
        yield f"{package}: edges between units, to words in common not counted", str(rooms)
        yield f"{package}: cycles between units", str(len(cycles))
        yield f"{package}: modules", str(sum(package in path.parts for path in paths))
    source = sum(lengths.values())
    yield "lines of source", f"{source:,}"
    yield "modules of fewer than 40 lines", str(sum(n < 40 for n in lengths.values()))
    yield f"modules of fewer than {SLIVER} lines", str(sum(n < SLIVER for n in lengths.values()))
    nodes = list(list_definitions(paths))
    classes = [n.name for _, n in nodes if isinstance(n, ast.ClassDef) and n.name[0] != "_"]
    yield "class names that occur twice", str(count_repeated(classes))
    plain = [p.stem for p in paths if not p.stem.startswith("__") and not is_plugin(p)]
    yield "module names that occur twice (plug-ins aside)", str(count_repeated(plain))
    yield "docstrings of fewer than three words", str(sum(has_short_docstring(n) for _, n in nodes))
    spans = sorted(
        (
            ((n.end_lineno or 0) - n.lineno + 1, n.name, path.stem)
            for path, n in nodes
            if not isinstance(n, ast.ClassDef)
        ),
        reverse=True,
    )
    yield "longest functions", ", ".join(f"{m}.{n} {k}" for k, n, m in spans[:5])
    yield "functions of more than 50 lines", str(sum(k > 50 for k, _, _ in spans))
    methods = [
        sum(isinstance(one, Function) for one in node.body)
        for _, node in nodes
        if isinstance(node, ast.ClassDef)
    ]
    yield (
        "classes of more than 12 and of more than 20 methods",
        f"{sum(n > 12 for n in methods)}, {sum(n > 20 for n in methods)}",
    )
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    yield "imports of our own modules inside functions", str(count_late_imports(trees))
    for package in PACKAGES:
        yield from function_figures(package, [path for path in paths if package in path.parts])
    science = tuple(root / folder for folder in SCIENCE)
    of_science = [path for path in paths if any(path.is_relative_to(each) for each in science)]
    yield from function_figures("kernels, model, regimes", of_science)
    yield from file_figures(root)


def main() -> int:
    """Print the table, followed by the modules that could be merged into their importer."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    print("| what | figure |\n| --- | ---: |")
    for what, figure in collect_figures(root):
        print(f"| {what} | {figure} |")
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in list_modules(root)}
    listed = find_slivers(graph, lengths, root)
    print(f"\n{len(listed)} modules of fewer than {SLIVER} lines have one importer:\n")
    for line in listed:
        print(f"- {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
