"""The confined reader asked once for each content; what reading itself does is tested elsewhere."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.storage.checkpoints import checkpoint_reader

_ANSWERS: dict[tuple[object, ...], Any] = {}


@pytest.fixture
def files_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes under the same name get the answer that the child has given before.

    For tests of what is done with a file, which read one like it again and again: a child takes a
    fifth of a second. What it refuses is asked for anew.
    """
    ask = checkpoint_reader.ask_child

    def once(path: Path, command: list[str], *more: Any) -> Any:
        reads = checkpoint_reader.READER in command  # another child may write
        if not reads or not isinstance(path, Path) or not path.is_file():
            return ask(path, command, *more)
        content = hashlib.sha256(path.read_bytes()).digest()
        key = (path.name, content, *command)
        if key not in _ANSWERS:
            _ANSWERS[key] = ask(path, command, *more)
        return copy.deepcopy(_ANSWERS[key])

    monkeypatch.setattr(checkpoint_reader, "ask_child", once)
