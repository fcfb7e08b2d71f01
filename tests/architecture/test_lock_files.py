"""The lock names what pyproject.toml wants, each with its digest; no document mixes two indexes."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    ROOT / "Makefile",
    *(ROOT / "requirements").glob("*.*"),
    *(ROOT / ".github" / "workflows").glob("*.yml"),
]


@pytest.fixture(scope="module")
def lock() -> Any:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "requirements" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_everything_that_the_program_needs_is_locked_within_its_window(lock: Any) -> None:
    packaging = pytest.importorskip("packaging.requirements")
    pinned = {pin["name"]: pin["version"] for pin in lock.pins()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pinned |= {pin["name"]: pin["version"] for pin in lock.pins(lock.BUILT)}
    extras = [line for name in lock.EXTRAS for line in project["optional-dependencies"][name]]
    for line in (*project["dependencies"], *extras):
        wanted = packaging.Requirement(line)
        assert pinned[wanted.name.lower()] in wanted.specifier, line


def test_every_line_of_the_lock_has_one_digest_and_none_is_of_cuda(lock: Any) -> None:
    for path in (lock.TORCH, lock.LOCK, *lock.EXTRAS.values()):
        text, found = path.read_text("utf-8"), lock.pins(path)
        assert found
        assert text.count("==") == text.count("--hash=sha256:") == len(found)
    for extra in lock.EXTRAS.values():  # beside the others each name stands once
        names = [pin["name"] for pin in lock.pins(lock.TORCH, lock.LOCK, extra)]
        assert len(set(names)) == len(names)
    assert not [name for name in names if name.startswith(("nvidia", "triton", "cuda"))]
    assert lock.pins()[0]["version"].endswith("+cpu")


def test_the_list_of_parts_holds_every_pin_and_is_the_same_each_time(
    lock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lock.bill_of_materials()
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert len(made["components"]) == len(lock.pins())
    assert {part["hashes"][0]["content"] for part in made["components"]} == {
        pin["digest"] for pin in lock.pins()
    }
    assert made == lock.bill_of_materials()
    monkeypatch.setattr("sys.argv", ["lock.py", "sbom", str(tmp_path / "new" / "sbom.json")])
    assert lock.main() == 0
    assert json.loads((tmp_path / "new" / "sbom.json").read_text("utf-8")) == made


def test_no_document_asks_two_indexes_at_once() -> None:
    mixed = re.compile(r"extra[-_]index[-_]url", re.IGNORECASE)
    for document in DOCUMENTS:
        for line in document.read_text("utf-8").splitlines():
            assert not mixed.search(line) or "never" in line, (document, line)
