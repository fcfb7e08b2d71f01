"""The log of a run: one JSON object per line, appended and flushed, read up to the last whole line.

Each line states its run (`run_identity.tag_of`), so that a line of another run is never taken for
its own. Lines of earlier versions state none.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import io
import json
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from dgn_engine.protocol.branches import BranchBegan
from dgn_engine.protocol.files import TrainedOn, WeightsSaved, WeightsTaken
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.runs import (
    RecordingMended,
    RecordingPaused,
    RecordingResumed,
    RecordThinned,
    RunContinued,
)
from dgn_engine.protocol.training import (
    Diverged,
    Finished,
    Measured,
    RegimeSwapped,
    Rewired,
    SettingChanged,
    StepsNotCaptured,
)
from dgn_engine.protocol.watching import ProbeScalars, ProbeSetChanged, ProbesLeft
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.inner_path import FilePath, InnerPath, as_inner_path
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.regular_files import FILE, NotRegular, open_regular
from dgn_engine.storage.runs import run_identity
from dgn_engine.storage.runs.run_ranges import check_event, is_count, is_time
from dgn_engine.text.byte_counts import bytes_in_words

if TYPE_CHECKING:
    from hashlib import _Hash

SYNC_EVERY = 1.0  # seconds
LINE = 1 << 20  # largest line, in bytes
Ranges = tuple[tuple[int, int], ...]
Marks = Mapping[int, str]  # checksums of lines, by sequence number
Wanted = Mapping[str, re.Pattern[bytes] | None]  # fields of lines, by name
LOST = "Lost"  # a line that stands for others
CONTINUED = "RunContinued"
SWAPPED = "RegimeSwapped"
SCORES = "Measured"
DIGEST = 16  # digits of a digest, as in the names of frames
NO_DIGEST = "0" * DIGEST  # of a stretch without lines
STRETCH = 64  # lines per digest
MOST_DIGESTS = 4096  # stored digests; in a longer log each covers two stretches, four, …
_TAIL = 4 << 20
_NAME = 100  # characters of a line's name
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CHECKSUM = b',"crc":"%08x"}'
_CHECKED = len(_CHECKSUM % 0)  # bytes
_TAG = b',"run":"%s"'  # before the checksum, which covers it, too
_TAGGED = re.compile(rb',"run":"([0-9a-f]{8})"')
_TAG_BYTES = len(_TAG) - 2 + run_identity.TAG
_BEGINS = b'{"seq":'  # every line
_BEGINNING = re.compile(rb'\{"seq":([0-9]{1,15}),')
_HEAD_BYTES = 80  # within which the name of an event ends
_IS_LOST = b',"event":"%s"' % LOST.encode()
MADE_ANEW = "made_anew"  # field of a line that `repair` wrote to replace a lost one
_IS_MADE = b',"%s":true' % MADE_ANEW.encode()
# The beginning of every line written here: it identifies the line without its fields.
_HEAD = re.compile(
    rb'\{"seq":([0-9]{1,15}),"at":([0-9]{1,11}\.[0-9]{1,9}),"event":"([A-Za-z]{1,40})"'
    rb'(?:,"step":([0-9]{1,15}))?(?=,|$)'
)
FINITE = rb"-?[0-9]{1,16}(?:\.[0-9]{1,17})?(?:e[-+][0-9]{1,3})?"  # a number as written here
NUMBER = rb'[-+.0-9e"nulaif]{1,30}'  # one that may be infinite or unknown

# What is logged, by the word in the file: these words outlive the names of classes.
LOGGED: Mapping[str, type[Any]] = {
    "Measured": Measured,
    "Traced": ProbeScalars,
    "RegimeSwapped": RegimeSwapped,
    "WeightsTaken": WeightsTaken,
    "TrainedOn": TrainedOn,
    "BranchBegan": BranchBegan,
    "Rewired": Rewired,
    "SettingChanged": SettingChanged,
    "ProbeSetChanged": ProbeSetChanged,
    "ProbesLeft": ProbesLeft,
    "Saved": WeightsSaved,
    "Diverged": Diverged,
    "Failed": Failed,
    "Finished": Finished,
    "RecordingPaused": RecordingPaused,
    "RecordingResumed": RecordingResumed,
    "RecordingMended": RecordingMended,
    "RunContinued": RunContinued,
    "Thinned": RecordThinned,
    "StepsNotCaptured": StepsNotCaptured,
}
_SCORED = frozenset(item.name for item in dataclasses.fields(Measured))
_WORD_OF = {kind: word for word, kind in LOGGED.items()}


class LogLine(NamedTuple):
    """One line of a log.

    `at`: seconds since 1970, by a clock that may have been set back; `run`: tag of the run that
    wrote it, '' if it states none.
    """

    seq: int
    at: float
    name: str
    fields: Mapping[str, Any]
    run: str = ""


class LogWriter:
    """Appends to a log, after cutting off a torn last line. Raises `OSError`.

    Lines stay in memory until they are synced: after a failed sync the system may have dropped
    them, and reports success the next time.
    """

    def __init__(
        self,
        path: FilePath,
        written: int = 0,
        run: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open a log.

        Args:
            written: Minimum number of lines ever written; numbers of lost lines are not reused.
            run: The run's tag, which each line states.
        """
        self._path, self._clock = as_inner_path(path), clock
        self._run = run
        self._file: io.FileIO | None = None
        self._synced = 0.0
        seq, self._end, mark = _find_last_line(self._path)
        self._seq = max(seq, written)
        self._first = _first_mark(self._path) if self._end else ""
        self._newest = (seq - 1, mark)
        self._dirty = True
        # None: computed from the file on demand.
        self._digests = None if self._end else LogDigests()
        self._unsynced = bytearray()
        self._doubtful = False  # a sync failed
        try:
            self.reopen_file()
            # A killed writer may have left lines unsynced; a new file has no name yet.
            self.sync()
            self._path.parent.sync()
            self._synced = 0.0
        except BaseException:
            self.close()
            raise

    @property
    def next_seq(self) -> int:
        return self._seq

    @property
    def line_marks(self) -> dict[int, str]:
        """Checksums of the first and last line, which identify this log; none if they are lost."""
        number, mark = self._newest
        marks_ = {0: self._first, number: mark}
        return {seq: crc for seq, crc in marks_.items() if crc and 0 <= seq < self._seq}

    def read_digests(self) -> tuple[int, tuple[str, ...]]:
        """Return the digests of the whole log, as `LogDigests`; raises `OSError`."""
        if self._digests is None:
            return digest_log(self._path).all_digests()
        return self._digests.all_digests()

    def append_line(self, name: str, fields: Mapping[str, Any]) -> None:
        """Append one line, as `append_all`."""
        self.append_all([(name, fields)])

    def append_all(self, lines: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Append lines, flushed together, and synced at most once a second.

        If that fails, none of them is written.
        """
        if self._file is None:
            raise OSError(None, "the log is closed")
        at = round(self._clock(), 3)
        encoded = [
            encode_line(LogLine(self._seq + offset, at, name, fields, self._run))
            for offset, (name, fields) in enumerate(lines)
        ]
        raw = b"".join(encoded)
        if self._file.write(raw) != len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._unsynced += raw
        self._dirty = True
        if time.monotonic() - self._synced >= SYNC_EVERY:
            try:
                self.sync()
            except OSError:
                del self._unsynced[-len(raw) :]
                raise
        if self._digests is not None:
            for offset, line in enumerate(encoded):
                self._digests.digest_line(self._seq + offset, line)
        self._seq += len(lines)
        self._end += len(raw)
        if lines:
            self._newest = (self._seq - 1, _line_checksum(raw))
        if lines and self._seq == len(lines):
            self._first = _line_checksum(raw[: raw.index(b"\n") + 1])

    def sync(self) -> None:
        file = self._file
        if self._dirty and file is not None:
            if self._doubtful:
                file.seek(self._end - len(self._unsynced))
                if file.write(self._unsynced) != len(self._unsynced):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            try:
                os.fsync(file.fileno())
            except OSError:
                self._doubtful = True
                raise
            self._dirty = self._doubtful = False
            self._unsynced.clear()
        self._synced = time.monotonic()

    def reopen_file(self) -> bool:
        """Reopen at the end of the last whole line: after an error, half a line may be there.

        Returns:
            Whether synced lines are gone.
        """
        unsynced = bytes(self._unsynced)
        self.close()
        file = io.FileIO(self._path.open(os.O_RDWR | os.O_CREAT), "r+b")
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotRegular(errno.EINVAL, "is not a regular file")
            if whole := file.seek(0, os.SEEK_END) >= self._end:
                file.truncate(self._end)
                file.seek(self._end)
        except BaseException:
            file.close()
            raise
        self._file = file
        if not whole:
            self._unsynced = bytearray(unsynced)
        return not whole and self.accept_cut()

    @property
    def is_named(self) -> bool:
        """Return True if the open file is still the file of this name."""
        if self._file is None:
            return True
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.status())
        except OSError:
            return False

    def read_back(self) -> bytes:
        """Return everything that was written, even if the file's name is gone."""
        file = self._file
        if file is None:
            raise OSError(None, "the log is closed")
        synced = self._end - len(self._unsynced)
        file.seek(0)
        content = bytearray()
        while len(content) < synced and (piece := file.read(synced - len(content))):
            content += piece
        return bytes(content[: content.rfind(b"\n") + 1] + self._unsynced)

    def rewrite_file(self, content: bytes) -> None:
        """Restore the file with what `read_back` returned, after its name was removed."""
        write_file(self._path, content)
        if self._file is not None:
            self._file.close()
        self._file, self._end = None, len(content)
        self._unsynced.clear()
        self._dirty = self._doubtful = False
        self.reopen_file()

    def accept_cut(self) -> bool:
        """Return whether someone cut off synced lines, and continue after the remaining ones.

        Missing lines keep their numbers.
        """
        file = self._file
        if file is None or os.fstat(file.fileno()).st_size >= self._end:
            return False
        seq, left, mark = _find_last_line(self._path)
        synced = self._end - len(self._unsynced)
        again = self._unsynced[max(0, left - synced) :]
        if not again:
            self._newest = (seq - 1, mark)
        file.truncate(left)
        file.seek(left)
        self._end, self._unsynced, self._dirty = left + len(again), again, True
        self._digests = None
        if file.write(again) != len(again):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return left < synced

    def close(self) -> None:
        """Sync and close; what can no longer be synced is left to the system."""
        if self._file is None:
            return
        try:
            self.sync()
        except OSError:
            pass
        finally:
            with suppress(OSError):  # of a disk that is gone; it is closed anyway
                self._file.close()
            self._file = None


class LogDigests:
    """Digests of stretches of a log, updated while it is appended to, one intact line at a time.

    A line of another copy of the same run is intact by itself, but its stretch then has another
    digest than was written.
    """

    def __init__(self) -> None:
        self._done: list[str] = []
        self._open: _Hash | None = None

    def digest_line(self, seq: int, raw: bytes) -> None:
        """Add a line, including its end."""
        index = seq // STRETCH
        if index > len(self._done):
            self._finish_stretch(index)
        if self._open is None:
            self._open = hashlib.sha256()
        self._open.update(raw)

    def _finish_stretch(self, index: int) -> None:
        self._done.append(NO_DIGEST if self._open is None else self._open.hexdigest()[:DIGEST])
        self._done += [NO_DIGEST] * (index - len(self._done))
        self._open = None

    def all_digests(self) -> tuple[int, tuple[str, ...]]:
        """Return how many lines each digest covers, and the digests in order."""
        last = [] if self._open is None else [self._open.hexdigest()[:DIGEST]]
        digests_, lines = [*self._done, *last], STRETCH
        while len(digests_) > MOST_DIGESTS:
            digests_, lines = (
                [_combine_digests(digests_[n : n + 2]) for n in range(0, len(digests_), 2)],
                2 * lines,
            )
        return lines, tuple(digests_)


def _combine_digests(digests: list[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:DIGEST]


class LogScan:
    """Iterates over the intact lines of a log, in order, without keeping them.

    Iterating raises `OSError`. The other attributes are known once all lines were read.

    Args:
        decoded: Names of the lines to decode; others have only their step. If a name has a
            pattern that matches what follows the step, its groups are the fields, all numbers.
            None: decode all lines.
        marked: Numbers of the lines whose checksums are wanted, as `marks`.
        info: The `run.json` beside the log, if it was read already. Lines of another run are not
            intact.

    Attributes:
        damaged: First and last number (from 1) of each stretch of damaged lines, including those
            of another run.
        foreign: The same for lines of another run.
        is_foreign: No line is the run's own.
        missing: First and last of the sequence numbers that no line has.
        torn: Bytes of an unfinished last line, including zeros after it; harmless unless `stray`
            says that it cannot be the beginning of a line.
        has_lost: A line stands for others.
        end: Number of lines when the last intact one was written.
    """

    def __init__(
        self,
        path: FilePath,
        decoded: Wanted | None = None,
        marked: Collection[int] = (),
        info: Mapping[str, Any] | None = None,
    ) -> None:
        self._path = path
        self._info = info
        self._decoded = decoded
        self._marked = frozenset(marked)
        self.marks: dict[int, str] = {}
        self.damaged: Ranges = ()
        self.foreign: Ranges = ()
        self.missing: Ranges = ()
        self.torn = self.end = 0
        self.is_foreign = self.stray = self.has_lost = False

    def __iter__(self) -> Iterator[LogLine]:
        number = unfinished = 0
        stray = zeros = has_own = False
        info = self._info
        if info is None:
            info = run_identity.info_beside(as_inner_path(self._path))
        tags = run_identity.tags_of(info)
        foreign_marks: dict[int, str] = {}
        damaged: list[tuple[int, int]] = []
        foreign: list[tuple[int, int]] = []
        missing: list[tuple[int, int]] = []
        with open_regular(self._path, FILE) as file, closing(_raw_lines(file)) as lines:
            for raw in lines:
                if not raw.endswith(b"\n"):  # end of the file, or the line is too long
                    # File systems leave zeros for blocks lost by power failure or disk.
                    text = raw.rstrip(b"\0")
                    begins = unfinished > 0 or text[: len(_BEGINS)] == _BEGINS[: len(text)]
                    stray = stray or not begins or b"\0" in text or (zeros and bool(text))
                    zeros = zeros or len(text) < len(raw)
                    unfinished += len(raw)
                    continue
                number += 1
                stray = zeros = False
                line = None if unfinished else self._decode_needed(raw[:-1])
                unfinished = 0
                if line is not None and is_of_another(line, tags):
                    extend_ranges(foreign, number)
                    if line.seq in self._marked:
                        foreign_marks[line.seq] = _line_checksum(raw)
                    line = None
                if line is None or line.seq < self.end:
                    extend_ranges(damaged, number)
                    continue
                has_own = True
                if line.seq > self.end:
                    missing.append((self.end, line.seq - 1))
                self.end = _last_covered_seq(line) + 1
                self.has_lost = self.has_lost or line.name == LOST
                if line.seq in self._marked and not _is_from_repair(raw):
                    self.marks[line.seq] = _line_checksum(raw)
                yield line
        self.damaged, self.foreign, self.missing = tuple(damaged), tuple(foreign), tuple(missing)
        self.torn, self.stray = unfinished, stray or unfinished > LINE
        self.is_foreign = bool(self.foreign) and not has_own
        if self.is_foreign:  # lines of another run refute the whole log
            self.marks = foreign_marks

    def _decode_needed(self, raw: bytes) -> LogLine | None:
        if self._decoded is None or (match := _HEAD.match(raw)) is None:
            return decode_line(raw)
        split = _split_line(raw)
        if split is None:
            return None
        head, run = split
        number, at, word, step = match.groups()
        name = word.decode()
        fields: dict[str, Any] = {} if step is None else {"step": int(step)}
        if name == LOST:
            return decode_line(raw)
        if name in self._decoded:
            pattern = self._decoded[name]
            known = pattern and pattern.fullmatch(head, match.end())
            if not known:
                return decode_line(raw)
            for key, text in known.groupdict().items():
                if text is not None:
                    fields[key] = float(text)
        return LogLine(int(number), float(at), name, fields, run)


class LogContents(LogScan):
    """A log with all intact lines in memory; a last line without its end is dropped.

    `written`: minimum number of lines written; what is missing at the end is then `missing`.
    Raises `OSError`.
    """

    def __init__(self, path: FilePath, marked: Collection[int] = (), written: int = 0) -> None:
        super().__init__(path, marked=marked)
        self.lines = tuple(self)
        if self.end < written:
            self.missing = (*self.missing, (self.end, written - 1))


def is_whole(path: FilePath, written: int) -> bool:
    """Return whether a log has all its lines, at least `written`, without decoding their fields.

    Raises `OSError`.
    """
    end = 0
    with closing(_sound_raw(path)) as lines:
        for seq, raw in lines:
            if seq != end or _IS_LOST in raw[:_HEAD_BYTES]:
                return False
            end += 1
    return end >= written


def digest_log(path: FilePath) -> LogDigests:
    """Digest the intact lines without decoding their fields; raises `OSError`."""
    digests = LogDigests()
    with closing(_sound_raw(path)) as lines:
        for seq, raw in lines:
            digests.digest_line(seq, raw)
    return digests


def _sound_raw(path: FilePath) -> Generator[tuple[int, bytes]]:
    """Yield the intact lines, as `LogScan` does, with their numbers and ends."""
    tags = run_identity.tags_of(run_identity.info_beside(as_inner_path(path)))
    end, torn = 0, False
    with open_regular(path, FILE) as file, closing(_raw_lines(file)) as lines:
        for raw in lines:
            before, torn = torn, not raw.endswith(b"\n")
            split = None if before or torn else _split_line(raw[:-1])
            begins = _BEGINNING.match(split[0]) if split is not None else None
            if split is None or begins is None:
                continue
            seq = int(begins[1])
            if seq < end or is_of_another(LogLine(seq, 0.0, "", {}, split[1]), tags):
                continue
            end = seq + 1
            if _IS_LOST in raw[:_HEAD_BYTES] and (line := decode_line(raw[:-1])) is not None:
                end = _last_covered_seq(line) + 1
            yield seq, raw


def log_trouble(log: LogScan, expected: Marks) -> str:
    """Return why a log is not the one the run's writer left, to end a sentence; '' if it is.

    Single damaged or missing lines do not count.

    Args:
        log: Read with these lines marked.
        expected: Checksums of lines in the inventory.
    """
    if log.is_foreign or is_refuted(log.marks, expected):
        return "is the log of another run"
    if log.stray:
        return f"ends in {bytes_in_words(log.torn)} that are not part of a log"
    return ""


def is_refuted(found: Marks, expected: Marks) -> bool:
    """Return whether a line has the wrong checksum; a missing line has none."""
    return any(found.get(seq, crc) != crc for seq, crc in expected.items())


def is_of_another(line: LogLine, tags: Mapping[str, float]) -> bool:
    """Return whether a line states another run than those that may have a line of its number.

    False if nothing is stated.
    """
    return bool(line.run and tags) and not line.seq < tags.get(line.run, 0)


def encode_line(line: LogLine) -> bytes:
    """Encode a line with its end; the checksum is the CRC-32 of all bytes before ',\"crc\"'."""
    head = _encode_numbers(line)
    if head is None:
        tree = {"seq": line.seq, "at": line.at, "event": line.name}
        head = _JSON.encode({**tree, **to_plain(line.fields, "word")}).encode()[:-1]
    if line.run:
        head += _TAG % line.run.encode()
    return head + _CHECKSUM % zlib.crc32(head) + b"\n"


def _encode_numbers(line: LogLine) -> bytes | None:
    """Encode a line of finite numbers or None, such as scores; None for others.

    Hundreds of these are written per second; this takes a quarter of the time.
    """
    text = f'{{"seq":{line.seq},"at":{line.at!r},"event":"{line.name}"'
    plain = line.name in LOGGED
    for name, value in line.fields.items():
        number = value is None or type(value) is int or (type(value) is float and isfinite(value))
        if not (plain and number and name in _SCORED):
            return None
        text += f',"{name}":{"null" if value is None else repr(value)}'
    return text.encode()


def decode_line(raw: bytes) -> LogLine | None:
    """Decode a line without its end; None if it is torn or damaged."""
    split = _split_line(raw)
    if split is None:
        return None
    head, run = split
    try:
        tree = json.loads((head + b"}").decode())
        seq, at, name = tree.pop("seq"), tree.pop("at"), tree.pop("event")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not (is_count(seq) and is_time(at)) or not isinstance(name, str) or len(name) > _NAME:
        return None
    return LogLine(seq, float(at), name, tree, run)


def is_logged(event: Event) -> bool:
    return type(event) in _WORD_OF


def log_word(event: Event) -> str:
    return _WORD_OF[type(event)]


def event_of(line: LogLine) -> Event | None:
    """Return the event of a line; None if it has none, or a field is wrong or out of range."""
    kind = LOGGED.get(line.name)
    if kind is None:
        return None
    try:
        event = _plain_score(line.name, line.fields)
        if event is None:
            known = _fields_of(line.name)
            values = {name: value for name, value in line.fields.items() if name in known}
            event = from_plain(kind, values)
        check_event(event)
    except (TypeError, ValueError):
        return None
    return event


def _plain_score(word: str, fields: Mapping[str, Any]) -> Event | None:
    """Decode the most frequent lines, four times as fast; None if a field is unusual."""
    step: Any = fields.get("step")  # it is checked with the others
    if word == "Measured":
        epoch, loss, accuracy = map(fields.get, ("epoch", "train_loss", "train_accuracy"))
        tested = fields.get("test_loss"), fields.get("test_accuracy")
        if type(epoch) is type(loss) is type(accuracy) is float and _are_floats(tested):
            return Measured(step, epoch, loss, accuracy, *tested)
    elif word == "Traced":
        probe, values = fields.get("probe"), fields.get("values")
        counts = fields.get("examples", 0), fields.get("of", 0)
        if not (isinstance(probe, str) and isinstance(values, dict) and all(map(is_count, counts))):
            return None
        chosen = fields.get("chosen", "")
        if None not in values.values() and _are_floats(values.values()) and chosen == str(chosen):
            return ProbeScalars(step, probe, values, *counts, chosen)
    return None


def _are_floats(values: Iterable[Any]) -> bool:
    """Return whether each is a float or None."""
    return all(value is None or type(value) is float for value in values)


@cache  # a log has a hundred thousand lines
def _fields_of(word: str) -> frozenset[str]:
    return frozenset(item.name for item in dataclasses.fields(LOGGED[word]))


def _last_covered_seq(line: LogLine) -> int:
    upto = line.fields.get("upto", line.seq) if line.name == LOST else line.seq
    return upto if is_count(upto) and upto >= line.seq else line.seq


def _split_line(raw: bytes) -> tuple[bytes, str] | None:
    """Return a line without tag and checksum, and the tag ('': none); None if damaged."""
    head = raw[:-_CHECKED]
    if not raw.endswith(_CHECKSUM % zlib.crc32(head)):
        return None
    match = _TAGGED.fullmatch(head, max(0, len(head) - _TAG_BYTES))
    return (head, "") if match is None else (head[: match.start()], match[1].decode())


def extend_ranges(ranges: list[tuple[int, int]], number: int) -> None:
    """Add a number that is larger than all others."""
    if ranges and ranges[-1][1] == number - 1:
        ranges[-1] = (ranges[-1][0], number)
    else:
        ranges.append((number, number))


def _line_checksum(raw: bytes) -> str:
    """Return the checksum at the end of an intact line, whose newline may be missing."""
    return raw.rstrip(b"\n")[-_CHECKED:].decode("ascii", "replace")[8:-2]


def _is_from_repair(raw: bytes) -> bool:
    """Return whether `repair` wrote a line: nothing knows its checksum."""
    return _IS_LOST in raw[:_HEAD_BYTES] or _IS_MADE in raw


def _first_mark(path: InnerPath) -> str:
    """Return the checksum of line 0; '' if the log does not begin with it."""
    with open_regular(path, FILE) as file, closing(_raw_lines(file)) as lines:
        raw = next(lines, b"")
    line = decode_line(raw.removesuffix(b"\n"))
    return (
        _line_checksum(raw)
        if line is not None and line.seq == 0 and not _is_from_repair(raw)
        else ""
    )


def _find_last_line(path: InnerPath) -> tuple[int, int, str]:
    """Return the next sequence number, and the end and checksum of the last intact line.

    The checksum is '' for a line that stands for others.
    """
    mark = ""
    if not path.exists():
        return 0, 0, mark
    seq = end = 0
    with open_regular(path, FILE) as file:
        tail = max(0, os.fstat(file.fileno()).st_size - _TAIL)
        for start in (tail, 0):  # a line cut at the start of the tail is not intact
            position = file.seek(start)
            for raw in _raw_lines(file):
                position += len(raw)
                line = decode_line(raw[:-1]) if raw.endswith(b"\n") else None
                if line is not None:
                    seq, end = _last_covered_seq(line) + 1, position
                    mark = "" if _is_from_repair(raw) else _line_checksum(raw)
            if end:
                break
    return seq, end, mark


def _raw_lines(file: io.FileIO) -> Generator[bytes]:
    """Yield lines with their ends; a line over the limit comes in pieces."""
    buffered = io.BufferedReader(file)
    try:
        while raw := buffered.readline(LINE):
            yield raw
    finally:
        if not file.closed:
            buffered.detach()
