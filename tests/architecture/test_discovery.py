"""Plug-ins are found by their file names, and a broken folder is an error, not a silence."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from dgn_engine.plugins import discover_plugins
from dgn_engine.regimes import all_regimes

ROOT = Path(__file__).parents[2]
PLUG_INS = {
    "dgn_engine.panels": "PANEL",
    "dgn_engine.regimes": "REGIME",
    "dgn_engine.model.nets": "NET",
    "dgn_engine.training.probes": "PROBE",
    "dgn_engine.data": "DATA",
    "dgn_engine.cli": "COMMAND",
}


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> str:
    """A package of these modules, importable under a name of its own."""
    name = f"plug_ins_of_{folder.name}"
    (folder / name).mkdir()
    (folder / name / "__init__.py").touch()
    for module, text in modules.items():
        (folder / name / f"{module}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return name


# Names of configurations may be paths ('file:net.pt', 'folder:images'): one function of each
# kind looks them up and answers for names that are no plug-in.
_LOOK_UPS = {
    "all_nets": "find_net",
    "data_sets": "find_data_set",
    "all_regimes": "find_regime",
}
_LOOK_UP_MODULES = {
    "dgn_engine/importing/from_config.py",
    "dgn_engine/data/__init__.py",
    "dgn_engine/regimes/__init__.py",
}


def plug_ins_taken_by_name(tree: ast.AST) -> list[int]:
    """The lines that take a plug-in out of a whole table by a name, past the look-up function."""
    tables = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and is_table(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and (is_table(node.value) or (isinstance(node.value, ast.Name) and node.value.id in tables))
    ]


def is_table(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Name) and function.id in _LOOK_UPS


def test_no_plug_in_is_looked_up_by_a_name_that_may_be_a_path() -> None:
    offenders = []
    for top in ("dgn_engine", "app", "benchmarks", "documentation"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if path.relative_to(ROOT).as_posix() in _LOOK_UP_MODULES:
                continue
            text = path.read_text("utf-8")
            taken = any(table in text for table in _LOOK_UPS)
            lines = plug_ins_taken_by_name(ast.parse(text)) if taken else ()
            offenders += [f"{path.relative_to(ROOT)}:{n}" for n in lines]
    assert not offenders, f"use {', '.join(_LOOK_UPS.values())}: {', '.join(offenders)}"


def test_a_look_up_in_a_table_is_noticed() -> None:
    for text in ("all_nets()[name]", "known = all_nets()\nwidth = known[name].options"):
        assert plug_ins_taken_by_name(ast.parse(text))
    assert not plug_ins_taken_by_name(ast.parse("names = list(all_nets())\nfirst = names[0]"))


@pytest.mark.parametrize("modules", [{}, {"_shared": "NUMBER = 1"}], ids=["none", "private"])
def test_a_folder_without_plug_ins_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: dict[str, str]
) -> None:
    name = package(tmp_path, monkeypatch, **modules)
    with pytest.raises(LookupError, match=re.escape(name)):
        discover_plugins(name, "NUMBER", int)


@pytest.mark.parametrize("text", ["OTHER = 2", "NUMBER = 'one'"])
def test_a_module_without_its_constant_or_with_one_of_another_type_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    name = package(tmp_path, monkeypatch, good="NUMBER = 1", wrong=text)
    with pytest.raises(LookupError, match=r"wrong\.py .*NUMBER .*int"):
        discover_plugins(name, "NUMBER", int)


def test_the_file_name_is_the_id_and_the_order_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = package(tmp_path, monkeypatch, b="NUMBER = 2", a="NUMBER = 1")
    assert list(discover_plugins(name, "NUMBER", int).items()) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(("folder", "constant"), PLUG_INS.items())
def test_every_file_of_a_plug_in_folder_is_discovered(folder: str, constant: str) -> None:
    module = importlib.import_module(folder)
    assert module.__file__ is not None
    files = {
        path.stem
        for path in Path(module.__file__).parent.glob("*.py")
        if not path.name.startswith("_")
    }
    assert set(discover_plugins(folder, constant, object)) == files


def calls_discover(function: ast.AST) -> bool:
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "discover_plugins" for called in calls)


def lists_entries(function: ast.FunctionDef) -> bool:
    return function.returns is not None and "Entry, ...]" in ast.unparse(function.returns)


def discoveries() -> set[str]:
    """Names of the functions that return all plug-ins of a kind, or what forms show of them."""
    sources = (*(ROOT / "dgn_engine").rglob("*.py"), *(ROOT / "app").rglob("*.py"))
    texts = (path.read_text("utf-8") for path in sources)
    trees = (
        ast.parse(text) for text in texts if "discover_plugins(" in text or "Entry, ...]" in text
    )
    return {
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and (calls_discover(node) or lists_entries(node))
    }


def takes_all(node: ast.AST, whole: set[str]) -> bool:
    """Whether code takes one of these collections as a whole: not `PANELS[name]`, and not our own
    plug-ins alone, `own(PANELS)`."""
    chosen = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Subscript)}
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "own":
            chosen |= {id(part) for part in ast.walk(call)}
    chosen |= {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call) and id(n) in chosen}
    return any(
        isinstance(name, ast.Name) and name.id in whole and id(name) not in chosen
        for name in ast.walk(node)
    )


def unmarked(module: Path, found: set[str]) -> Iterator[str]:
    """Tests over a discovery that neither use `each` nor are marked, or that are in a snapshot."""
    body = ast.parse(module.read_text("utf-8")).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    # `catalogue` is also the name of a module, which holds no plug-ins.
    functions = [node for node in imports if node.module != "dgn_engine.protocol"]
    whole = {alias.name for node in functions for alias in node.names} & found
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if takes_all(value, whole):
                whole.add(name)
            case ast.FunctionDef(name=name) if not name.startswith("test_"):
                if takes_all(ast.Module(node.body, []), whole):
                    whole.add(name)
            case ast.FunctionDef(name=name):
                marks = [ast.unparse(mark) for mark in node.decorator_list]
                rows = [mark for mark in node.decorator_list if "parametrize" in ast.unparse(mark)]
                over = any(takes_all(row, whole) for row in rows)
                used = takes_all(ast.Module(node.body, []), whole)
                used |= any(argument.arg in whole for argument in node.args.args)
                if over and not any("each(" in mark for mark in marks):
                    yield f"{module.name}::{name} (parametrize needs each)"
                if used and not any("mark.discovery" in mark for mark in marks):
                    yield f"{module.name}::{name} (needs pytest.mark.discovery)"
                types = {ast.unparse(one.annotation) for one in node.args.args if one.annotation}
                if "Recorded" in types and any("discovery" in m or "each(" in m for m in marks):
                    yield f"{module.name}::{name} (a snapshot holds for every set of plug-ins)"


def test_every_test_over_a_discovery_is_marked() -> None:
    """The night runs them again with the examples of docs/adding.md in place."""
    found = discoveries()
    assert {"all_regimes", "all_panels", "data_sets"} <= found
    said = re.compile(rf"\b({'|'.join(found)})\b")
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    modules = [path for path in tests if said.search(path.read_text("utf-8"))]
    assert [line for module in modules for line in unmarked(module, found)] == []


def strings(module: Path) -> set[str]:
    tree = ast.parse(module.read_text("utf-8"))
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.discovery
def test_no_code_but_its_own_names_a_regime() -> None:
    """It asks for what a regime says of itself. Experiments name those of their papers, the
    configuration its default; what is also the name of a torch module is that of a layer."""
    names = {regime.name for regime in all_regimes() if not hasattr(torch.nn, regime.name)}
    free = ("dgn_engine/regimes/", "dgn_engine/experiments/", "dgn_engine/config/__init__.py")
    sources = sorted((*(ROOT / "dgn_engine").rglob("*.py"), *(ROOT / "app").rglob("*.py")))
    said = re.compile(f"[\"']({'|'.join(names)})[\"']")
    sources = [path for path in sources if said.search(path.read_text("utf-8"))]
    named = {path.relative_to(ROOT).as_posix(): strings(path) & names for path in sources}
    assert {path: n for path, n in named.items() if n and not path.startswith(free)} == {}
