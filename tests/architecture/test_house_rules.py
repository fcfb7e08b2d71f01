"""Rules of the house that no linter knows: names, places of imports, paths, ways to print.

What is measured and not ruled is printed by `make house` (benchmarks/house.py).
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "dgn_engine", ROOT / "app" / "dgn_viewer", ROOT / "resources" / "dgn_resources")
MODULES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
VAGUE = {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common"}
pytestmark = pytest.mark.discovery  # a plug-in keeps these rules too
TEXTS = {".py", ".md", ".ipynb", ".toml", ".yml", ".json", ".svg", ".txt", ".spec", ""}
# Folders whose files are plug-ins: what is in a file there has its name from the folder.
PLUG_IN_FOLDERS = {
    "dgn_engine/panels",
    "dgn_engine/cli",
    "dgn_engine/data",
    "dgn_engine/experiments",
    "dgn_engine/model/nets",
    "dgn_engine/regimes",
    "dgn_engine/training/probes",
}
NOUNS = {  # of the field or the platform, though they end in -ing
    "file_reading",
    "formatting",
    "importing",
    "kernel_learning",
    "painting",
    "preprocessing",
    "recording",
    "sequence_reading",
    "setting",
    "tiling",
    "training",
    "watching",
    "wiring",
}
# Where a function imports one of our modules, and why the module does not.
LATE_IMPORTS = {
    "app/dgn_viewer/__main__.py": "arguments and libraries are checked before Qt is loaded",
    "app/dgn_viewer/application.py": "the session in a process is for who asks for one",
    "app/dgn_viewer/docks/panel_dock.py": "the window is shown before pyqtgraph is loaded",
    "app/dgn_viewer/experiments/results_panel.py": "pyqtgraph is loaded by the first figure",
    "app/dgn_viewer/inspector/formula.py": "matplotlib is loaded by the first formula",
    "app/dgn_viewer/shell/export": "matplotlib is loaded by the first export, in its thread",
    "app/dgn_viewer/shell/remote_run.py": "http is loaded by who follows a run of another machine",
    "dgn_engine/attachment/watcher.py": "matplotlib is loaded by who passes a TensorBoard writer",
    "dgn_engine/cli/_network_options.py": "numpy is loaded by who normalises pixels",
    "dgn_engine/cli/run/change_runs.py": "matplotlib is loaded by the export to TensorBoard",
    "dgn_engine/cli/run/examine_health.py": "torch is loaded by who asks it for its devices",
    "dgn_engine/cli/run/show_run.py": "runs are shown without numpy",
    "dgn_engine/cli/run/start_sweep.py": "sweeps are listed without torch",
    "dgn_engine/data/__init__.py": "torch is loaded where images are resized",
    "dgn_engine/data/_cifar.py": "torchvision is loaded by the data sets that need it",
    "dgn_engine/data/_idx.py": "torchvision is loaded by the data sets that need it",
    "dgn_engine/experiments/report/": "matplotlib is loaded by reports with figures",
    "dgn_engine/kernels/slabs.py": "numba is loaded where there are enough pairs of positions",
    "dgn_engine/notebook/notebook_run.py": "runs and figures know each other",
    "dgn_engine/session/thread_session.py": "torch is loaded in the thread of the engine",
    "dgn_engine/storage/runs/frame_files.py": "runs are listed without numpy",
    "dgn_engine/storage/runs/manifest.py": "runs are listed without numpy",
    "dgn_engine/storage/runs/run_checkpoints.py": "runs are listed without numpy",
    "dgn_engine/sweep/slurm.py": "dask is loaded by who asks for a cluster",
    "dgn_engine/sweep/workers/": "a worker loads what its units need, and dask only if asked for",
    "dgn_engine/views/frame_source.py": "other people's runs are checked by who shows one",
}
# Written in pieces, so that this file does not name what it forbids.
FOREIGN = re.compile(r"(?<![\w.~])/(?:" + "|".join(["work", "root", "tmp/" + "venv"]) + r")/")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def texts() -> list[Path]:
    folders = [
        ROOT / folder for folder in ("app", "dgn_engine", "resources", "tests", "docs", ".ci")
    ]
    inside = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    top = [path for path in ROOT.glob("*") if path.is_file()]
    return sorted(
        path
        for path in (*inside, *top)
        if path.suffix in TEXTS and path.name != ".git" and "__pycache__" not in path.parts
    )


@pytest.fixture(scope="module")
def trees() -> Iterator[dict[Path, ast.Module]]:
    """Every module, parsed; a garbage collector that looks for cycles in them triples the time."""
    gc.disable()
    parsed = {path: ast.parse(path.read_text("utf-8")) for path in MODULES}
    gc.enable()
    yield parsed
    parsed.clear()


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The tree and every statement in it, at any depth: a tenth of its nodes."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, part, None)
            left.extend(inside if isinstance(inside, list) else [])


def calls(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def is_plug_in(module: Path) -> bool:
    return name(module.parent) in PLUG_IN_FOLDERS and not module.name.startswith("_")


def repeated(places: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Of (name, place) the names of several places; a leading underscore is no difference."""
    found: dict[str, list[str]] = {}
    for called, place in places:
        found.setdefault(called.lstrip("_"), []).append(place)
    return {called: where for called, where in found.items() if len(where) > 1}


def test_a_module_name_occurs_once_in_the_tree() -> None:
    modules = [path for path in MODULES if path.stem != "__init__" and not is_plug_in(path)]
    places = [(path.stem, name(path)) for path in modules if path.stem != "__main__"]
    assert repeated(places) == {}


def test_a_class_name_occurs_once_in_the_tree(trees: dict[Path, ast.Module]) -> None:
    places = [
        (node.name, name(path))
        for path, tree in trees.items()
        if not is_plug_in(path)
        for node in statements(tree)
        if isinstance(node, ast.ClassDef)
    ]
    assert repeated(places) == {}


def test_no_module_is_named_by_a_gerund() -> None:
    packages = {path.parent for path in MODULES}
    modules = {path for path in MODULES if not is_plug_in(path)}
    named = [path for path in sorted(packages | modules) if path.stem.endswith("ing")]
    assert [name(path) for path in named if path.stem.lstrip("_") not in NOUNS] == []
    assert {path.stem.lstrip("_") for path in named} == NOUNS, "and each of those is there"


def test_the_engines_root_holds_at_most_six_modules() -> None:
    modules = [path.name for path in (ROOT / "dgn_engine").glob("[!_]*.py")]
    assert len(modules) <= 6, modules


def test_only_listed_modules_import_ours_inside_a_function(trees: dict[Path, ast.Module]) -> None:
    late = {
        name(path)
        for path, tree in trees.items()
        for function in statements(tree)
        if isinstance(function, ast.FunctionDef)
        for node in statements(function)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and "dgn_" in ast.unparse(node)
    }
    assert {path for path in late if not path.startswith(tuple(LATE_IMPORTS))} == set()
    assert [place for place in LATE_IMPORTS if not any(p.startswith(place) for p in late)] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [name(path) for path in MODULES if path.stem.strip("_") in VAGUE] == []


def test_test_files_have_names_of_their_own() -> None:
    """They are imported without packages, so two of one name would be confused."""
    names = [path.name for path in TESTS if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_no_test_module_imports_another() -> None:
    """What several share is in a conftest or in a module of builders."""
    imported = re.compile(r"^\s*(?:from|import) .*\btest_", re.MULTILINE)
    suspects = [path for path in TESTS if imported.search(path.read_text("utf-8"))]
    imports = {
        name(path): [
            node.module
            for node in statements(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.ImportFrom) and re.search(r"\btest_", node.module or "")
        ]
        for path in suspects
    }
    assert {path: found for path, found in imports.items() if found} == {}


def test_no_file_names_a_path_of_one_machine() -> None:
    assert [name(path) for path in texts() if FOREIGN.search(path.read_text("utf-8"))] == []


def test_packaging_is_a_folder_and_not_a_package() -> None:
    """A package of that name would hide the library `packaging`."""
    assert not (ROOT / "packaging" / "__init__.py").exists()


# Who may write on a terminal by other means than `dgn_engine.text.printable`, and why.
PRINTS = {
    "dgn_engine/text/printable.py": "it is the way out",
    "dgn_engine/kernels/slab_loops.py": "kernels import no text of ours; one sentence of its own",
    "dgn_engine/confinement/trial.py": "a child answers its parent by one line of JSON",
    "app/dgn_viewer/system_libraries.py": "it is run before anything is installed; its own words",
}
STYLED = {
    "dgn_engine/text/printable.py": "it makes the console",
    "dgn_engine/training/run_progress_bar.py": "its column makes text of `printable` words",
}


def test_text_is_printed_in_one_way_only(trees: dict[Path, ast.Module]) -> None:
    assert [name(path) for path in trees if name(path) not in PRINTS and prints(trees[path])] == []
    assert [name(path) for path in trees if name(path) not in STYLED and styles(trees[path])] == []


def prints(module: ast.Module) -> bool:
    return any(
        call.func.id == "print"
        if isinstance(call.func, ast.Name)
        else ast.unparse(call.func) in ("sys.stdout.write", "sys.stderr.write")
        for call in calls(module)
        if isinstance(call.func, ast.Name) or getattr(call.func, "attr", "") == "write"
    )


def styles(module: ast.Module) -> bool:
    imported = {
        f"{node.module}.{alias.name}"
        for node in statements(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return bool(
        imported & {"rich.console.Console", "rich.text.Text", "rich.print", "rich.markup.render"}
    )


# Who may make a label of Qt itself, and why; every other is a `PlainLabel`.
LABELS = {
    "app/dgn_viewer/widgets/layouts.py": "it is where they come from",
    "app/dgn_viewer/inspector/pages/about_page.py": "our own words with mathematics, escaped",
}
WORDS_OF_TIPS = {"wrapping_tip", "plain_tip", "label_html"}


def test_no_name_is_taken_for_markup_by_a_label_or_a_tip(trees: dict[Path, ast.Module]) -> None:
    found = {name(path): markup(tree, name(path) in LABELS) for path, tree in trees.items()}
    assert {path: texts for path, texts in found.items() if texts} == {}


def markup(module: ast.Module, may_make_labels: bool) -> list[str]:
    """Calls that may take a name for markup."""
    found = []
    for call in calls(module):
        called = call.func.id if isinstance(call.func, ast.Name) else ""
        method = call.func.attr if isinstance(call.func, ast.Attribute) else called
        if (
            (called == "QLabel" and not may_make_labels)
            or (method == "setToolTip" and not is_escaped(call.args[-1]))
            or method == "QMessageBox"
        ):
            found.append(ast.unparse(call))
    return found


def is_escaped(words: ast.expr) -> bool:
    """A string of our own, or what `tip` and its like return."""
    if isinstance(words, ast.IfExp):
        return is_escaped(words.body) and is_escaped(words.orelse)
    if isinstance(words, ast.Call):
        return isinstance(words.func, ast.Name) and words.func.id in WORDS_OF_TIPS
    return isinstance(words, ast.Constant)
