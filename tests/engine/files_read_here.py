"""Files of strangers read in the process of the tests, by what the confined child runs."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import IO, Any

import pytest

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints import checkpoint_reader, limits, reader_child
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.file_content import content_of
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.session_file import session_reader, unpack_child


def read_files_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let checkpoints and sessions be read without a child, which takes a fifth of a second each.

    That a child reads them is tested with the readers, in `confinement`, and for each command in
    test_commands_as_typed.py.
    """
    monkeypatch.setattr(checkpoint_reader, "ask_child", _ask)
    monkeypatch.setattr(session_reader, "ask_child", _ask)


def _ask(
    path: FilePath,
    command: list[str],
    receive: Callable[[IO[bytes], int], Any],
    _timeout: float = 0.0,
    _cancelled: object = None,
    most: int = limits.FILE,
    name: str = "",
) -> Any:
    module, _seconds, *words = command[command.index("-m") + 1 :]
    name, pipe = name or path.name, io.BytesIO()
    file, size = checkpoint_reader._open_file(path, name, most)
    with file:
        if module == checkpoint_reader.READER:
            part, shard = (*words, "", "")[:2]
            reader_child.answer_tensors(content_of(file), pipe, part, bare=not shard)
        else:
            assert module == unpack_child.__name__
            unpack_child.answer_session(content_of(file), pipe)
    pipe.seek(0)
    try:
        return receive(pipe, size)
    except UnreadableFile as verdict:
        raise UserError(f"{name} {verdict}.", kind=verdict.kind) from None
