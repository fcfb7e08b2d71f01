"""What tests of commands share."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints import checkpoint_reader, limits, reader_child
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.file_content import content_of
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.session_file import session_reader, unpack_child
from tests.engine.cli.user_code import NETS, N


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read by what the confined child runs, in this process: a child takes a fifth of a
    second. That a child reads them is tested with the readers, and test_commands_as_typed.py has
    it in each command."""

    def ask(
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
        file, size = checkpoint_reader._opened(path, name, most)
        with file:
            if module == checkpoint_reader.READER:
                part, shard = (*words, "", "")[:2]
                reader_child.answer(content_of(file), pipe, part, bare=not shard)
            else:
                assert module == unpack_child.__name__
                unpack_child.answer(content_of(file), pipe)
        pipe.seek(0)
        try:
            return receive(pipe, size)
        except UnreadableFile as verdict:
            raise UserError(f"{name} {verdict}.", kind=verdict.kind) from None

    monkeypatch.setattr(checkpoint_reader, "ask_child", ask)
    monkeypatch.setattr(session_reader, "ask_child", ask)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with inputs, labels and code; what it imports is forgotten after."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.normal(size=(N, 5)))
    np.save("y.npy", np.array([0, 1, 2, 0, 1, 2]))
    (tmp_path / "user_nets.py").write_text(NETS)
    places, finders = list(sys.path), list(sys.meta_path)
    yield tmp_path
    assert (sys.path, sys.meta_path) == (places, finders)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
