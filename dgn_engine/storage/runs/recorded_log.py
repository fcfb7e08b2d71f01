"""The log of a recorded run: the lines that count, lost ones, and those appended meanwhile."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event
from dgn_engine.storage.inner_path import FilePath, InnerPath, as_inner_path
from dgn_engine.storage.regular_files import FILE, open_regular
from dgn_engine.storage.runs import folder_layout, run_identity, run_info
from dgn_engine.storage.runs.log import (
    CONTINUED,
    LOST,
    LogContents,
    LogLine,
    LogScan,
    Marks,
    decode_line,
    event_of,
    is_of_another,
    is_whole,
    log_trouble,
)
from dgn_engine.storage.runs.log_gaps import NEEDED, GapReading, LogFact, read_gaps
from dgn_engine.storage.runs.log_summary import (
    LogFold,
    LogSummary,
    lines_before,
    summarise_log,
    summary_scan,
)
from dgn_engine.storage.runs.manifest import known_facts, known_manifest

PIECE = 4 << 20  # bytes read at a time
_MENTION = f'"{CONTINUED}"'.encode()


class RecordedLog:
    """The log beside a `run.json`; everything raises `UserError` if it cannot be read.

    Each part is read once, on demand. `lines_read`: lines of the last complete `each_event`.
    """

    def __init__(self, root: InnerPath, info: Mapping[str, Any]) -> None:
        self._root, self._info = root, info
        self._manifest = known_manifest(info)
        self._path = root / folder_layout.LOG
        self._contents: LogContents | None = None  # not read twice
        self.lines_read = 0

    @property
    def all_contents(self) -> LogContents:
        """All intact lines, including superseded ones."""
        if self._contents is None:
            try:
                log = LogContents(self._path, self._known_marks)
            except OSError as error:
                raise self._unreadable_error(error) from None
            self._check_writer(log)
            self._contents = log
        return self._contents

    @cached_property
    def summary(self) -> LogSummary:
        """Summary of the whole log; none of its lines is kept."""
        try:
            if self._contents is not None:
                return summarise_log(self._gap_reading.fill_gaps(self._contents.lines))
            written = self._written_lines  # first: a writer may continue
            scan = summary_scan(self._path, self._known_marks, self._info)
            summary = summarise_log(scan)
            if scan.missing or scan.has_lost or scan.end < written:
                summary = summarise_log(self._gap_reading.fill_gaps(summary_scan(self._path)))
        except OSError as error:
            raise self._unreadable_error(error) from None
        except ValueError as error:
            raise self._invalid_error(error) from None
        self._check_writer(scan)
        return summary

    @cached_property
    def lines(self) -> tuple[LogLine, ...]:
        """The lines that count: not those after a checkpoint from which the run continued."""
        log = self.all_contents
        try:
            filled = tuple(self._gap_reading.fill_gaps(log.lines))
        except OSError as error:
            raise self._unreadable_error(error) from None
        superseded = _SupersededLines(filled)
        return tuple(line for line in filled if line.seq not in superseded)

    def each_event(self) -> Iterator[Event]:
        """Yield the events of the lines that count, as the log is read.

        Afterwards the summary of the log is known, too.
        """
        return (event for _, event in self.each_timed_event())

    def each_timed_event(self) -> Iterator[tuple[float, Event]]:
        """Yield what `each_event` does, with the clock of each line in seconds since 1970."""
        fold, number, read = LogFold(), -1, self._contents
        scan = LogScan(self._path, None, self._known_marks, self._info)
        try:
            gaps = self._gap_reading
            superseded = self._superseded_lines(gaps)
            for line in gaps.fill_gaps(scan if read is None else read.lines):
                number = line.seq
                fold.fold_line(line)
                if line.seq not in superseded and (event := event_of(line)) is not None:
                    yield line.at, event
        except OSError as error:
            raise self._unreadable_error(error) from None
        except ValueError as error:
            raise self._invalid_error(error) from None
        if read is None:
            self._check_writer(scan)
        self.lines_read = number + 1
        self.__dict__.setdefault("summary", fold.make_summary())

    @property
    def lost_in_words(self) -> str:
        """Describe what is lost and its effect on the numbers; '' if nothing; no full stop."""
        lost, known = self.summary.lost, self.summary.regime_known
        if not lost:
            return ""
        words = f"{lost:,} lines of its log are" if lost > 1 else "1 line of its log is"
        them = "they may include" if lost > 1 else "it may be"
        doubt = "" if known else f"; {them} a change of regime"
        return f"{words} lost or damaged{doubt}"

    @property
    def _known_marks(self) -> Marks:
        """Checksums of log lines, if the run's writer closed its folder."""
        return self._manifest.marks if self._manifest is not None else {}

    @cached_property
    def _written_lines(self) -> int:
        """Minimum number of log lines, by the inventory or else the newest checkpoint.

        Raises `OSError` if these cannot be read.
        """
        if self._manifest is not None:
            return self._manifest.lines
        return max((fact.lines for fact in self._log_facts), default=0)

    @cached_property
    def _log_facts(self) -> list[LogFact]:
        """Return what is known about the log from elsewhere; raises `OSError`."""
        return known_facts(self._root, self._manifest)

    @cached_property
    def _gap_reading(self) -> GapReading:
        """Return what lost lines said, as far as is known; raises `OSError`."""
        written, read = self._written_lines, self._contents  # first: a writer may continue
        if read is None:
            whole = is_whole(self._path, written)
        else:
            lost = bool(read.missing) or any(line.name == LOST for line in read.lines)
            whole = not lost and read.end >= written
        if whole:
            return GapReading()
        lines = LogScan(self._path, NEEDED) if read is None else read.lines
        return read_gaps(lines, written, run_info.first_regime(self._info), self._log_facts)

    def _superseded_lines(self, gaps: GapReading) -> _SupersededLines:
        """Return superseded lines; read the log again only if the run ever continued."""
        if self._contents is not None:
            return _SupersededLines(gaps.fill_gaps(self._contents.lines))
        if not gaps.lines and not _contains_word(self._path, _MENTION):
            return _SupersededLines(())
        return _SupersededLines(gaps.fill_gaps(LogScan(self._path, {CONTINUED: None})))

    def _check_writer(self, log: LogScan) -> None:
        """Raise `UserError` for a log that this run's writer did not leave."""
        if trouble := log_trouble(log, self._known_marks):
            folder = self._root.anchor.path
            raise UserError(
                f"{self._path} {trouble}; 'dgn runs repair {folder}' moves it to damaged/.",
                kind="other-run" if log.is_foreign else "damaged",
            )

    def _unreadable_error(self, error: OSError) -> UserError:
        return UserError(f"{self._path} cannot be read: {error.strerror}.", kind="unreadable")

    def _invalid_error(self, error: ValueError) -> UserError:
        return UserError(f"{self._path} is invalid: {error}.")


class _SupersededLines:
    """The lines that no longer count: those after a checkpoint from which the run continued.

    Stored as stretches of sequence numbers that do not touch.
    """

    def __init__(self, lines: Iterable[LogLine]) -> None:
        """`lines`: of a log, in order; those where the run continued are enough."""
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
        index = bisect_right(self._first, number) - 1
        return index >= 0 and number < self._end[index]


def _contains_word(path: FilePath, word: bytes) -> bool:
    """Return whether a word occurs anywhere in a file."""
    before = b""
    with open_regular(path, FILE) as file:
        while piece := file.read(PIECE):
            if word in before + piece:
                return True
            before = piece[1 - len(word) :]
    return False


class LogTail:
    """The lines of a log from number `after` on.

    A last line without its end is left for the next time; lines of another run are skipped. If the
    file was cut or replaced it is read from the start, but no line is returned twice.
    """

    def __init__(self, path: FilePath, after: int = 0) -> None:
        self._path = as_inner_path(path)
        self._next = after
        self._offset = 0
        self._inode = -1
        self._tags: Mapping[str, float] = {}

    def read_new_events(self) -> list[Event]:
        """Return the events since the last call; none while there is no log."""
        lines: list[LogLine] = []
        with suppress(OSError):
            while piece := self.take_lines():
                lines += piece
        events = (event_of(line) for line in lines)
        return [event for event in events if event is not None]

    def take_lines(self) -> list[LogLine]:
        """Return the lines since the last call, at most one piece of the file; raises `OSError`."""
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
        if not whole and len(content) == PIECE:  # longer than any written line
            whole = content
        self._offset += len(whole)
        new_lines = []
        for raw in whole.splitlines():
            line = decode_line(raw)
            if line is None or is_of_another(line, self._tags):
                continue
            if line.seq >= self._next:
                self._next = line.seq + 1
                new_lines.append(line)
        return new_lines
