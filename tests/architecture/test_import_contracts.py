"""The import rules of pyproject.toml hold, and each of them is shown to bite.

The import graph is built once; a violation is one import more in a copy of it.
"""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest
from grimp import ImportGraph, build_graph
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "dgn_engine", ROOT / "app" / "dgn_viewer", ROOT / "resources" / "dgn_resources")
CONFIGURATION = read_configuration(str(ROOT / "pyproject.toml"))
KINDS = {
    "forbidden": ForbiddenContract,
    "independence": IndependenceContract,
    "layers": LayersContract,
}
CONTRACTS: dict[str, dict[str, Any]] = {
    contract["name"]: contract for contract in CONFIGURATION["contracts_options"]
}
ORDERS = [name for name, contract in CONTRACTS.items() if contract["type"] == "layers"]
LINT = "import importlinter.cli as c; raise SystemExit(c.lint_imports(no_cache=True, no_logo=True))"


def rows_of(contract: dict[str, Any]) -> list[list[str]]:
    """The layers of a contract, uppermost first, each with its full module names."""
    (container,) = contract["containers"]
    return [
        [f"{container}.{name.strip()}" for name in row.split("|")] for row in contract["layers"]
    ]


def violations(contract: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(importing module, imported module), for every rule of a contract."""
    match contract["type"]:
        case "forbidden":
            for source in contract["source_modules"]:
                for forbidden in contract["forbidden_modules"]:
                    yield source, forbidden
        case "independence":
            for package in contract["modules"]:
                parent = package.removesuffix(".*")
                yield f"{parent}.first", f"{parent}.second"
        case "layers":
            rows = rows_of(contract)
            for above, below in combinations(rows, 2):
                yield from ((lower, upper) for lower in below for upper in above)
            for row in rows:
                yield from permutations(row, 2)
        case unknown:
            raise AssertionError(f"no violation is known for contracts of type {unknown}")


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    options = CONFIGURATION["session_options"]
    assert options["include_external_packages"] == "True"
    return build_graph(*options["root_packages"], include_external_packages=True, cache_dir=None)


@pytest.fixture
def keeps(graph: ImportGraph) -> Callable[..., bool]:
    """`keeps(name, importing, imported)`: whether the contract is kept with one import more."""

    def check(name: str, *imports: str) -> bool:
        changed = copy.deepcopy(graph)
        if imports:
            source, imported = imports
            is_package = source in changed.modules and changed.find_children(source)
            importer = f"{source}.intruder" if is_package else source
            changed.add_module(importer)
            changed.add_import(importer=importer, imported=imported)
        options = CONTRACTS[name]
        contract = KINDS[options["type"]](name, CONFIGURATION["session_options"], options)
        return bool(contract.check(changed, verbose=False).kept)

    return check


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_packages_keep_the_contract(name: str, keeps: Callable[..., bool]) -> None:
    assert keeps(name)


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_import_that_a_contract_forbids_breaks_it(
    name: str, keeps: Callable[..., bool]
) -> None:
    forbidden = list(violations(CONTRACTS[name]))
    assert forbidden
    assert [imports for imports in forbidden if keeps(name, *imports)] == []


@pytest.mark.parametrize("name", ORDERS)
def test_a_new_module_in_the_root_must_be_given_its_layer(
    name: str, keeps: Callable[..., bool]
) -> None:
    (root,) = CONTRACTS[name]["containers"]
    assert not keeps(name, f"{root}.newcomer", "json")


def test_the_linter_sees_a_trespassing_import_in_a_file(tmp_path: Path) -> None:
    for package in PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package, tmp_path / package.name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    intruder = tmp_path / "dgn_engine" / "storage" / "intruder.py"
    intruder.write_text("import dgn_engine.cli\n", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-c", LINT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "The engine is one strict order BROKEN" in result.stdout
    assert f"{len(CONTRACTS) - 1} kept, 1 broken" in result.stdout


def test_no_modules_import_each_other_in_a_circle(graph: ImportGraph) -> None:
    """Imports inside functions and those of types alone count too."""
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    ours = {name: {one for one in found if one in imported} for name, found in imported.items()}
    order = TopologicalSorter(ours)
    try:
        order.prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None
