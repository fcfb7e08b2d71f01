"""Reads a run folder: configuration, series, events, frames and checkpoints.

Reading takes no lock and changes nothing; a run that is being written can be read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Diverged, Measured, RegimeSwapped, RunStarted
from dgn_engine.storage import lock
from dgn_engine.storage.inner_path import Anchor, FilePath, InnerPath, inside
from dgn_engine.storage.regular_files import FILE, open_regular
from dgn_engine.storage.runs import folder_layout, frame_files, run_checkpoints, run_info
from dgn_engine.storage.runs.log import (
    CONTINUED,
    LOST,
    LogContents,
    LogLine,
    LogScan,
    Marks,
    event_of,
    is_whole,
    log_trouble,
    read_log,
)
from dgn_engine.storage.runs.log_gaps import NEEDED, GapReading, LogFact, facts_in, read_gaps
from dgn_engine.storage.runs.log_summary import (
    LogFold,
    LogSummary,
    Outcome,
    lines_before,
    summarise,
    summary_scan,
)
from dgn_engine.storage.runs.manifest import Manifest, read_manifest

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Frame

_PIECE = 1 << 20  # bytes
_WORD = f'"{CONTINUED}"'.encode()
Status = Outcome | Literal["running"]


# Which lines of a log count no more: those after the checkpoint from which the run went on.
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


class RunReader:
    """Raises `UserError` where there is no run, or its `run.json` is damaged.

    Each part is read when it is asked for, once; make another reader to see what came since.
    `shown`: what sentences call the run, where that is not its folder: the session that it is of.
    """

    def __init__(self, path: Path, shown: str = "") -> None:
        self.path = path
        self.name = shown or path.name  # in sentences
        self.root = InnerPath(Anchor(path, shown))  # of all that is read here
        folder_layout.refuse_links(path)
        self.info: dict[str, Any] = run_info.read(self.root)
        self.lines_read = 0  # of the log, by the last `each_event` that came to its end

    @cached_property
    def config(self) -> RunConfig:
        return run_info.config_of(self.info)

    @cached_property
    def started(self) -> RunStarted | None:
        """The event that opened it; None where it was never built."""
        return run_info.started_of(self.info, self.config)

    @cached_property
    def log(self) -> LogContents:
        """Every sound line, those that were superseded too."""
        try:
            log = read_log(self.root / folder_layout.LOG, self._marks)
        except OSError as error:
            raise self._unreadable(error) from None
        self._refuse(log)
        return log

    @cached_property
    def summary(self) -> LogSummary:
        """What the log says as a whole; none of its lines is held."""
        path = self.root / folder_layout.LOG
        try:
            if "log" in self.__dict__:  # what was read already is not read again
                return summarise(self._gaps.fill(self.log.lines))
            written = self._written  # first: a writer may go on
            scan = summary_scan(path, self._marks)
            summary = summarise(scan)
            if scan.missing or scan.has_lost or scan.end < written:
                summary = summarise(self._gaps.fill(summary_scan(path)))
        except OSError as error:
            raise self._unreadable(error) from None
        except ValueError as error:
            raise self._senseless(error) from None
        self._refuse(scan)
        return summary

    @cached_property
    def _written(self) -> int:
        """How many lines its log had at least, by the inventory or, without one, the newest
        checkpoint; `OSError` where these cannot be read."""
        if self._manifest is not None:
            return self._manifest.lines
        return max((one.lines for one in self._facts), default=0)

    @cached_property
    def _facts(self) -> list[LogFact]:
        """What is known of its log from elsewhere; raises `OSError`."""
        stated = None if self._manifest is None else self._manifest.fact
        return [*facts_in(self.root), *([stated] if stated is not None else [])]

    @cached_property
    def _gaps(self) -> GapReading:
        """What lost lines of the log said, as far as is known; raises `OSError`."""
        path = self.root / folder_layout.LOG
        written = self._written  # first: a writer may go on
        read = "log" in self.__dict__
        lost = read and (self.log.missing or any(one.name == LOST for one in self.log.lines))
        whole = not lost and self.log.end >= written if read else is_whole(path, written)
        if whole:
            return GapReading()
        lines = self.log.lines if read else LogScan(path, NEEDED)
        return read_gaps(lines, written, run_info.first_regime(self.info), self._facts)

    @property
    def lost_in_words(self) -> str:
        """What is lost of the log and what that means for its numbers, as a sentence without a
        full stop; '' where nothing is."""
        lost, known = self.summary.lost, self.summary.regime_known
        if not lost:
            return ""
        words = f"{lost:,} lines of its log are" if lost > 1 else "1 line of its log is"
        doubt = "" if known else "; a change of the regime may have stood there"
        return f"{words} lost or damaged{doubt}"

    @cached_property
    def _manifest(self) -> Manifest | None:
        try:
            return read_manifest(self.info)
        except ValueError:
            return None

    @property
    def _marks(self) -> Marks:
        """Checksums that lines of the log have, where the run's writer let its folder go."""
        return self._manifest.marks if self._manifest is not None else {}

    def _refuse(self, log: LogContents | LogScan) -> None:
        """Raise `UserError` for a log that this run's writer did not leave."""
        if trouble := log_trouble(log, self._marks):
            raise UserError(
                f"{self.root / folder_layout.LOG} {trouble}; 'dgn runs repair {self.path}' puts "
                "it aside."
            )

    @cached_property
    def lines(self) -> tuple[LogLine, ...]:
        """The lines that count: where the run went on from a checkpoint, what came after it then
        does not.
        """
        kept: list[LogLine] = []
        log = self.log
        try:
            gaps = self._gaps
        except OSError as error:
            raise self._unreadable(error) from None
        for line in gaps.fill(log.lines):
            if line.name == CONTINUED:
                first = lines_before(line)
                while kept and kept[-1].seq >= first:
                    kept.pop()
            kept.append(line)
        return tuple(kept)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """All of them at once; `each_event` holds none."""
        return tuple(self.each_event())

    def each_event(self) -> Iterator[Event]:
        """One after the other, as the log is read; what lines say that do not count is left out.

        The log as a whole is then known, too. Raises `UserError`.
        """
        path, fold = self.root / folder_layout.LOG, LogFold()
        read = "log" in self.__dict__  # what was read already is not read again
        try:
            gaps = self._gaps
            if read:
                superseded = SupersededLines(gaps.fill(self.log.lines))
            else:
                superseded = find_superseded(path, gaps)
            number = -1
            scan = LogScan(path, marked=self._marks)
            for line in gaps.fill(self.log.lines if read else scan):
                number = line.seq
                fold.take(line)
                if line.seq not in superseded and (event := event_of(line)) is not None:
                    yield event
        except OSError as error:
            raise self._unreadable(error) from None
        except ValueError as error:
            raise self._senseless(error) from None
        if not read:
            self._refuse(scan)
        self.lines_read = number + 1
        self.__dict__.setdefault("summary", fold.summary())

    def _unreadable(self, error: OSError) -> UserError:
        return UserError(f"{self.root / folder_layout.LOG} cannot be read: {error.strerror}.")

    def _senseless(self, error: ValueError) -> UserError:
        return UserError(f"{self.root / folder_layout.LOG} makes no sense: {error}.")

    @property
    def measured(self) -> tuple[Measured, ...]:
        return tuple(event for event in self.events if isinstance(event, Measured))

    @cached_property
    def frames(self) -> tuple[frame_files.StoredFrame, ...]:
        """The frames that count, in the order of their steps; open one with `frame`."""
        return tuple(frame_files.scan(self.root / folder_layout.FRAMES))

    def frame(self, step: int) -> Frame:
        """The frame of just this step, the last where it has several, with what was read at it
        and nothing that was read before; raises `UserError` naming the nearest where there is none.
        """
        found = [one for one in self.frames if one.step == step]
        if found:
            frame = frame_files.read(found[-1])
            of_step = {n: one for n, one in frame.readings.items() if one.step == step}
            return replace(frame, readings=of_step)
        if not self.frames:
            raise UserError(
                f"{self.name} holds no frames: what probes see is recorded in the window, and "
                "by `dgn train --record npk`."
            )
        near = _nearest(step, [one.step for one in self.frames])
        raise UserError(f"{self.name} has no frame of step {step:,}; {near}.")

    def scores(self, step: int) -> Measured:
        """The scores of just this step; raises `UserError` naming the nearest where it has none."""
        measured = self.measured
        found = [one for one in measured if one.step == step]
        if found:
            return found[-1]
        if not measured:
            raise UserError(f"{self.name} holds no scores.")
        near = _nearest(step, [one.step for one in measured])
        raise UserError(f"{self.name} has no scores of step {step:,}; {near}.")

    def latest_frame(self, step: int) -> Frame | None:
        """The last frame at or before a step; None where there is none. Each reading in it says
        its own step, which may be an earlier one."""
        place = bisect_right([frame.step for frame in self.frames], step)
        return frame_files.read(self.frames[place - 1]) if place else None

    @property
    def checkpoints(self) -> tuple[run_checkpoints.StoredCheckpoint, ...]:
        """The sound ones, oldest first (large files are not hashed here)."""
        return tuple(one for one in self._all_checkpoints if one.sound)

    @cached_property
    def _all_checkpoints(self) -> tuple[run_checkpoints.StoredCheckpoint, ...]:
        folder = self.root / folder_layout.CHECKPOINTS
        try:
            return tuple(run_checkpoints.scan(folder, thorough=False))
        except OSError as error:
            raise UserError(f"{folder} cannot be read: {error.strerror}.") from None

    def checkpoint(self, step: int | None = None) -> run_checkpoints.StoredCheckpoint:
        """The newest, or the newest of just this step; raises `UserError` where there is none, or
        a newer one is damaged."""
        found = [one for one in self.checkpoints if step is None or one.step == step]
        if found:
            self._check_newest(found[-1], step)
            return found[-1]
        if step is None or not self.checkpoints:
            raise UserError(f"{self.name} holds no checkpoint.")
        near = _nearest(step, [one.step for one in self.checkpoints])
        raise UserError(f"{self.name} has no checkpoint of step {step:,}; {near}.")

    def _check_newest(self, found: run_checkpoints.StoredCheckpoint, step: int | None) -> None:
        """An older state is not taken for the newest, nor for the last one of its step."""
        for one in (one for one in self._all_checkpoints if not one.sound):
            newer = _place(one) > _place(found) and (step is None or one.step == step)
            if newer and step is None:
                raise UserError(
                    f"{one.place} {one.trouble}; the newest sound checkpoint of "
                    f"{self.name} is of step {found.step:,}: {self.name}@{found.step}."
                )
            if newer:
                raise UserError(f"{one.place} {one.trouble}.")

    @property
    def step(self) -> int:
        """The last step that something is known of."""
        logged = self.summary.step
        if all(step <= logged for step in self._checkpoint_steps):
            return logged
        return max(logged, *(one.step for one in self.checkpoints[-1:]), 0)

    @property
    def _checkpoint_steps(self) -> list[int]:
        """By their names alone; raises `UserError`."""
        folder = self.root / folder_layout.CHECKPOINTS
        try:
            names = folder.listing()
        except OSError as error:
            raise UserError(f"{folder} cannot be read: {error.strerror}.") from None
        return [key[0] for name in names if (key := folder_layout.checkpoint_key(name))]

    @property
    def diverged_at(self) -> int | None:
        """The step at which it diverged; None where it did not, or was put back since."""
        step = None
        for event in self.each_event():
            if isinstance(event, Diverged):
                step = event.step
            elif isinstance(event, RegimeSwapped) and event.undone:
                step = None
        return step

    @property
    def outcome(self) -> Outcome:
        """How the run ended, by what it wrote; 'stopped' before its end by somebody's will,
        'interrupted' where it says nothing of an end.
        """
        return self.summary.outcome

    @property
    def status(self) -> Status:
        """'running' where a process writes it now, else its `outcome`."""
        running = lock.holder(self.root / folder_layout.LOCK) is not None
        return "running" if running else self.outcome


def _place(checkpoint: run_checkpoints.StoredCheckpoint) -> tuple[int, int]:
    """Its step, and the how many-th at that step it is, by the name."""
    return folder_layout.checkpoint_key(checkpoint.path.name) or (checkpoint.step, 0)


def frames_in_words(frames: Sequence[frame_files.StoredFrame]) -> str:
    """'3 steps, 0 to 135'; empty where there are none."""
    steps = sorted({frame.step for frame in frames})
    if not steps:
        return ""
    if not steps[1:]:
        return f"step {steps[0]:,} alone"
    return f"{len(steps):,} steps, {steps[0]:,} to {steps[-1]:,}"


def _nearest(step: int, steps: Sequence[int]) -> str:
    """'the nearest are of steps 0 and 200', of steps that are not this one."""
    around = (
        max((one for one in steps if one < step), default=None),
        min((one for one in steps if one > step), default=None),
    )
    near = [f"{one:,}" for one in around if one is not None]
    return (
        f"the nearest are of steps {' and '.join(near)}"
        if near[1:]
        else f"the nearest is of step {near[0]}"
    )


def words_of_losses(folder: Path) -> str:
    """What the log of a run has lost, as part of a sentence; '' where nothing."""
    with suppress(UserError, OSError):
        if is_whole(inside(folder) / folder_layout.LOG, 0):
            return ""
        return RunReader(folder).lost_in_words
    return ""
