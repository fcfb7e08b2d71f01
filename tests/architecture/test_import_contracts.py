"""The import rules of pyproject.toml hold, and each of them is shown to bite."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "dgn_engine", ROOT / "app" / "dgn_viewer", ROOT / "resources" / "dgn_resources")
LINT = "import importlinter.cli as c; raise SystemExit(c.lint_imports(no_cache=True, no_logo=True))"


def contracts() -> list[dict[str, Any]]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return found


def violations() -> Iterator[tuple[str, str, str]]:
    """(contract, module that will trespass, what it imports), for every rule of every contract."""
    for contract in contracts():
        match contract["type"]:
            case "forbidden":
                for source in contract["source_modules"]:
                    for forbidden in contract["forbidden_modules"]:
                        yield contract["name"], source, forbidden
            case "independence":
                for package in contract["modules"]:
                    parent = package.removesuffix(".*")
                    yield contract["name"], parent, f"{parent}.neighbour"
            case "layers":
                (container,) = contract["containers"]
                rows = [[name.strip() for name in row.split("|")] for row in contract["layers"]]
                for upper, lower in pairwise(rows):
                    yield contract["name"], f"{container}.{lower[0]}", f"{container}.{upper[0]}"
                for one, other in (pair for row in rows for pair in pairwise(row)):
                    yield contract["name"], f"{container}.{one}", f"{container}.{other}"
            case unknown:
                raise AssertionError(f"no violation is known for contracts of type {unknown}")


def flat_copy(target: Path) -> None:
    for package in PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package, target / package.name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", target)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT], cwd=folder, capture_output=True, text=True, check=False
    )


def trespass(root: Path, source: str, imported: str) -> None:
    """Let `source` import what it must not: a new module in a package, a line in a module."""
    place = root.joinpath(*source.split("."))
    line = f"\nimport {imported}\n"
    if place.is_dir():
        (place / "neighbour.py").touch()
        (place / "intruder.py").write_text(line, encoding="utf-8")
    else:
        with place.with_suffix(".py").open("a", encoding="utf-8") as module:
            module.write(line)


def test_the_packages_keep_every_contract(tmp_path: Path) -> None:
    flat_copy(tmp_path)
    result = lint(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(contracts())} kept, 0 broken" in result.stdout


@pytest.mark.parametrize(("contract", "source", "imported"), list(violations()))
def test_a_trespassing_import_breaks_its_contract(
    contract: str, source: str, imported: str, tmp_path: Path
) -> None:
    flat_copy(tmp_path)
    trespass(tmp_path, source, imported)
    result = lint(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contract} BROKEN" in result.stdout
