"""Plug-ins are found by their file names, and a broken folder is an error, not a silence."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from dgn_engine.plugins import discover

ROOT = Path(__file__).parents[2]
PLUG_INS = {
    "dgn_viewer.panels": "PANEL",
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


def test_an_empty_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LookupError, match="holds no plug-ins"):
        discover(package(tmp_path, monkeypatch), "NUMBER", int)


def test_a_folder_of_private_modules_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LookupError, match="holds no plug-ins"):
        discover(package(tmp_path, monkeypatch, _shared="NUMBER = 1"), "NUMBER", int)


def test_a_module_without_its_constant_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = package(tmp_path, monkeypatch, good="NUMBER = 1", lacking="OTHER = 2")
    with pytest.raises(LookupError, match=r"lacking\.py has no constant NUMBER of type int"):
        discover(name, "NUMBER", int)


def test_a_constant_of_another_type_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = package(tmp_path, monkeypatch, wrong="NUMBER = 'one'")
    with pytest.raises(LookupError, match=r"wrong\.py has no constant NUMBER of type int"):
        discover(name, "NUMBER", int)


def test_the_file_name_is_the_id_and_the_order_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = package(tmp_path, monkeypatch, b="NUMBER = 2", a="NUMBER = 1")
    assert list(discover(name, "NUMBER", int).items()) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(("folder", "constant"), PLUG_INS.items())
def test_every_file_of_a_plug_in_folder_is_discovered(folder: str, constant: str) -> None:
    module = importlib.import_module(folder)
    assert module.__file__ is not None
    files = {
        path.stem
        for path in Path(module.__file__).parent.glob("*.py")
        if not path.name.startswith("_")
    }
    assert set(discover(folder, constant, object)) == files
