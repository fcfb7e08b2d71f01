"""Checkpoints read in the process of the tests: starting one for each would be most of the time."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import IO, Any

import pytest

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints import checkpoint_reader, reader_child
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.inner_path import FilePath


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(
        path: FilePath, command: list[str], receive: Callable[[IO[bytes], int], Any], *more: Any
    ) -> Any:
        part, *shard = *command[command.index(checkpoint_reader.READER) + 2 :], ""
        *_, most, name = more
        file, _ = checkpoint_reader._opened(path, name, most)
        with file:
            content, said = file.read(), io.BytesIO()
        reader_child.answer(content, said, part, bare=not any(shard))
        said.seek(0)
        try:
            return receive(said, len(content))
        except UnreadableFile as verdict:
            raise UserError(f"{name} {verdict}.", kind=verdict.kind) from None

    monkeypatch.setattr(checkpoint_reader, "ask_child", ask)
