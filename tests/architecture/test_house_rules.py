"""Rules of the house that no linter knows: size, names, opening sentences, foreign paths."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "dgn_engine", ROOT / "app" / "dgn_viewer", ROOT / "resources" / "dgn_resources")
MODULES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
VAGUE = {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common"}
TEXTS = {".py", ".md", ".toml", ".yml", ".json", ".svg", ".txt", ".spec", ""}
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


def opening(module: Path) -> str:
    """The first paragraph of its docstring; an empty __init__.py says it by its folder."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").split("\n\n")[0].strip() if tree.body else "."


def test_no_module_is_longer_than_500_lines() -> None:
    lengths = {name(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {path: length for path, length in lengths.items() if length > 500} == {}


def test_a_module_opens_with_one_sentence_that_says_what_it_is_for() -> None:
    openings = {name(path): opening(path) for path in MODULES}
    assert {path: text for path, text in openings.items() if not text.endswith((".", "?"))} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [name(path) for path in MODULES if path.stem.strip("_") in VAGUE] == []


def test_test_files_have_names_of_their_own() -> None:
    """They are imported without packages, so two of one name would be confused."""
    names = [path.name for path in TESTS if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_no_file_names_a_path_of_one_machine() -> None:
    assert [name(path) for path in texts() if FOREIGN.search(path.read_text("utf-8"))] == []


def test_packaging_is_a_folder_and_not_a_package() -> None:
    """A package of that name would hide the library `packaging`."""
    assert not (ROOT / "packaging" / "__init__.py").exists()
