"""Checkpoints that the tests wrote themselves, read in this process."""

from __future__ import annotations

import io
from typing import Any

import pytest

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints import checkpoint_reader, reader_child
from dgn_engine.storage.checkpoints.contents import UnreadableFile


@pytest.fixture
def checkpoints_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's own reading, without the child: to start one takes a third of a second.

    That children read, and what confines them, is tested in storage and confinement.
    """
    ask, plain = checkpoint_reader.ask_child, checkpoint_reader.confined_command

    def here(path: Any, command: list[str], receive: Any, timeout: float, *more: Any) -> Any:
        _, most, name = more
        if command != plain(checkpoint_reader.READER, timeout):  # a part, or another child
            return ask(path, command, receive, timeout, *more)
        file, said = checkpoint_reader._opened(path, name, most)[0], io.BytesIO()
        with file:
            content = file.read()
        reader_child.answer(content, said)
        said.seek(0)
        try:
            return receive(said, len(content))
        except UnreadableFile as verdict:
            raise UserError(f"{name} {verdict}.", kind=verdict.kind) from None

    monkeypatch.setattr(checkpoint_reader, "ask_child", here)
