"""Session files unpacked in this process, for tests of thousands of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.session_file import session_reader
from dgn_engine.storage.session_file.unpack_child import answer


def read_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader in this process: starting one for each file would be most of the time."""

    def ask(path: Path, _command: object, receive: Callable[..., None], *_: object) -> None:
        content, said = path.read_bytes(), io.BytesIO()
        answer(content, said)
        said.seek(0)
        try:
            receive(said, len(content))
        except UnreadableFile as verdict:
            raise UserError(f"{path.name} {verdict}.") from None

    monkeypatch.setattr(session_reader, "ask_child", ask)
