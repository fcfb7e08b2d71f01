"""A value that differs from its snapshot is shown, with the command that accepts it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import snapshots


def test_what_differs_is_shown_with_the_command_that_accepts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "FOLDER", tmp_path)
    item: Any = SimpleNamespace(path=snapshots.TESTS / "engine" / "test_x.py", name="test_of_x")
    accept = r"python -m pytest --write-snapshots tests/engine/test_x\.py"
    with pytest.raises(AssertionError, match=rf"test_x\.json has no test_of_x; .*{accept}"):
        snapshots.Snapshot(item, write=False)({"a": 1})
    snapshots.Snapshot(item, write=True)({"a": 1})
    snapshots.Snapshot(item, write=False)({"a": 1})
    with pytest.raises(AssertionError, match=rf'(?s)\n-{{"a": 1}}\n\+{{"a": 2}}\n.*{accept}'):
        snapshots.Snapshot(item, write=False)({"a": 2})
