"""Which lines of a log count no more: those after the checkpoint from which the run went on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.regular_files import FILE, open_regular
from dgn_engine.storage.runs.log import CONTINUED, LogLine, LogScan
from dgn_engine.storage.runs.log_gaps import GapReading
from dgn_engine.storage.runs.log_summary import lines_before

_PIECE = 1 << 20  # bytes
_WORD = f'"{CONTINUED}"'.encode()


class SupersededLines:
    """Sequence numbers, as stretches that do not touch."""

    def __init__(self, lines: Iterable[LogLine]) -> None:
        """`lines`: of a log, in order; those where the run went on are enough."""
        self._first: list[int] = []
        self._end: list[int] = []
        for line in lines:
            if line.name != CONTINUED:
                continue
            first, end = lines_before(line), line.seq
            while self._end and self._end[-1] >= first:
                first = min(first, self._first.pop())
                self._end.pop()
            if first < end:
                self._first.append(first)
                self._end.append(end)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._first, number) - 1
        return place >= 0 and number < self._end[place]


def find_superseded(path: FilePath, gaps: GapReading) -> SupersededLines:
    """Of a log, which is read once more only where the run ever went on; raises `OSError`."""
    if not gaps.lines and not _mentions(path, _WORD):
        return SupersededLines(())
    return SupersededLines(gaps.fill(LogScan(path, {CONTINUED: None})))


def _mentions(path: FilePath, word: bytes) -> bool:
    """Whether it stands anywhere in a file."""
    before = b""
    with open_regular(path, FILE) as file:
        while piece := file.read(_PIECE):
            if word in before + piece:
                return True
            before = piece[1 - len(word) :]
    return False
