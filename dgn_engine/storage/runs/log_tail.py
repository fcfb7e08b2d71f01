"""Reads what comes to the log of a run that somebody else writes."""

from __future__ import annotations

import io
import os
from contextlib import suppress

from dgn_engine.protocol.events import Event
from dgn_engine.storage.inner_path import FilePath, inner
from dgn_engine.storage.runs.log import decode_line, event_of

AT_ONCE = 4 << 20  # bytes that are read in one go


class LogTail:
    """The events of a log, each once, in order; lines that are no events are passed over."""

    def __init__(self, path: FilePath) -> None:
        self._path = inner(path)
        self._place = 0
        self._begun = b""  # of a line that is not whole yet

    def take(self) -> list[Event]:
        """Those that have come since the last time; none while there is no log."""
        found: list[Event] = []
        with suppress(OSError):
            while piece := self._piece():
                *lines, self._begun = (self._begun + piece).split(b"\n")
                decoded = (decode_line(raw) for raw in lines)
                events = (event_of(line) for line in decoded if line is not None)
                found += [event for event in events if event is not None]
        return found

    def _piece(self) -> bytes:
        with io.FileIO(self._path.open(os.O_RDONLY)) as file:
            file.seek(self._place)
            piece = file.read(AT_ONCE)
        self._place += len(piece)
        return piece
