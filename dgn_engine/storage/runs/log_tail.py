"""Follows a log that another process writes: each sound line once, as it is appended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from dgn_engine.protocol.messages import Event
from dgn_engine.storage.inner_path import FilePath, inner
from dgn_engine.storage.runs import run_identity
from dgn_engine.storage.runs.log import LogLine, decode_line, event_of, is_of_another

PIECE = 4 << 20  # bytes that are read at a time


class LogTail:
    """The lines of a log from number `after` on.

    A last line without its end is left for the next time; lines of another run are left out. Where
    the file was cut or replaced it is read from its beginning, and lines that were told are not
    told again.
    """

    def __init__(self, path: FilePath, after: int = 0) -> None:
        self._path = inner(path)
        self._next = after
        self._offset = 0
        self._inode = -1
        self._tags: Mapping[str, float] = {}

    def take(self) -> list[Event]:
        """The events that came since the last time; none while there is no log."""
        lines: list[LogLine] = []
        with suppress(OSError):
            while piece := self.take_lines():
                lines += piece
        events = (event_of(line) for line in lines)
        return [event for event in events if event is not None]

    def take_lines(self) -> list[LogLine]:
        """What came since the last time, at most one piece of the file. Raises `OSError`."""
        handle = self._path.open(os.O_RDONLY)
        try:
            status = os.fstat(handle)
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset = status.st_ino, 0
                self._tags = run_identity.tags_of(run_identity.info_beside(self._path))
            content = os.pread(handle, PIECE, self._offset)
        finally:
            os.close(handle)
        whole = content[: content.rfind(b"\n") + 1]
        if not whole and len(content) == PIECE:  # longer than any line that is written
            whole = content
        self._offset += len(whole)
        found = []
        for raw in whole.splitlines():
            line = decode_line(raw)
            if line is None or is_of_another(line, self._tags):
                continue
            if line.seq >= self._next:
                self._next = line.seq + 1
                found.append(line)
        return found
