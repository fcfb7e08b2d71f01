"""Summarise the log of a run in one pass, without keeping its lines."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RecordThinned
from dgn_engine.protocol.training import Measured, RegimeSwapped
from dgn_engine.protocol.trend import encode_trend
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.runs.log import (
    CONTINUED,
    FINITE,
    LOST,
    NUMBER,
    SCORES,
    LogLine,
    LogScan,
    Wanted,
    event_of,
)
from dgn_engine.storage.runs.log_gaps import DOUBTFUL
from dgn_engine.storage.runs.run_ranges import LAST, STEPS, is_count

Outcome = Literal["finished", "stopped", "diverged", "failed", "interrupted"]
ENDS: Mapping[str, Outcome] = {
    "Finished": "finished",
    "Diverged": "diverged",
    "Failed": "failed",
    "Closed": "stopped",
}
THINNED = "Thinned"
GOES_ON = (SCORES, CONTINUED)
RECENT = 50  # lines that tell how far a run got
_CHANGES = (
    *("RegimeSwapped", "Rewired", CONTINUED, "Failed"),
    *("RecordingPaused", "RecordingMended", "RecordingResumed"),
)
# What follows the step in a line of scores, as `Measured` is written.
_SCORE = re.compile(
    rb',"epoch":%s,"train_loss":%s,"train_accuracy":%s,"test_loss":%s,"test_accuracy":'
    rb"(?:null|(?P<test_accuracy>%s))" % (*4 * (NUMBER,), FINITE)
)
_DECODED: Wanted = {**dict.fromkeys((*_CHANGES, *ENDS, THINNED)), SCORES: _SCORE}
_MOST = 100_000  # changes


class ScoreAt(NamedTuple):
    """A test accuracy, NaN if unknown, and the step that first had it."""

    step: int = 0
    accuracy: float = math.nan


class Thinned(NamedTuple):
    """How many frames and checkpoints were thinned out, and the folder's limit in bytes."""

    frames: int = 0
    checkpoints: int = 0
    limit: int = 0


@dataclass(frozen=True)
class LogSummary:
    """Summary of the lines that count; `seconds` covers all lines.

    Attributes:
        step: Of the last lines.
        regime: The last one that it was changed to; '' if never changed.
        best: In that regime; if lost lines may include a change of regime (not `regime_known`),
            only after them.
        best_of_all: In any regime.
        changes: Swaps, commands and problems of the recording, in order.
        thinned: Over all lines.
        lost: Number of lost lines about which nothing is known.
    """

    outcome: Outcome
    step: int
    regime: str
    best: ScoreAt
    best_of_all: ScoreAt
    last: ScoreAt
    seconds: float
    changes: tuple[Event, ...]
    thinned: Thinned
    lost: int = 0
    regime_known: bool = True
    trend: str = ""  # test accuracy in any regime, as `protocol.trend` encodes it


def summarise_log(lines: Iterable[LogLine]) -> LogSummary:
    """Summarise the lines of a log; raises `ValueError` if it has an absurd number of changes."""
    fold = LogFold()
    for line in lines:
        fold.fold_line(line)
    return fold.make_summary()


def summary_scan(
    path: FilePath, marked: Collection[int] = (), info: Mapping[str, Any] | None = None
) -> LogScan:
    """Return the lines of a log with the fields that a summary needs."""
    return LogScan(path, _DECODED, marked, info)


def lines_before(line: LogLine) -> int:
    """Return how many lines still count when a run continues; all, if not stated."""
    first = line.fields.get("lines", line.seq)
    return first if is_count(first) else line.seq


def _tested_in(line: LogLine) -> ScoreAt | None:
    """Return the test score of a line of scores, or None.

    Only unusual lines are decoded as events: most of a log are scores.
    """
    step, accuracy = line.fields.get("step"), line.fields.get("test_accuracy")
    if accuracy is None:
        return None
    if is_count(step) and isinstance(accuracy, float) and 0.0 <= accuracy <= 1.0:
        return ScoreAt(step, accuracy)
    event = event_of(line)
    if not isinstance(event, Measured) or event.test_accuracy is None:
        return None
    return ScoreAt(event.step, event.test_accuracy)


class LogFold:
    """Summarises a log line by line.

    Test scores are kept in arrays: a run of a million epochs has a million of them.
    """

    def __init__(self) -> None:
        self._outcome: Outcome = "interrupted"
        self._seconds = 0.0
        self._at: float | None = None
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT)  # number, step
        self._changes: list[tuple[int, Event]] = []
        self._tested, self._steps, self._scores = array("q"), array("q"), array("d")
        self._thinned = Thinned()
        self._lost, self._doubtful = 0, -1  # number of lines, and the last that may be a change

    def fold_line(self, line: LogLine) -> None:
        number, at, name, fields, _ = line
        if self._at is not None and at > self._at and name not in (CONTINUED, THINNED):
            self._seconds = min(LAST, self._seconds + at - self._at)
        self._at = at
        if name == CONTINUED:
            self._forget_lines(lines_before(line))
        elif name == LOST:
            self._add_lost(line)
        if name in ENDS:
            self._outcome = ENDS[name]
        elif name in GOES_ON or fields.get("undone"):  # a diverged run may also continue
            self._outcome = "interrupted"
        step = fields.get("step", 0)
        self._recent.append((number, step if is_count(step) else 0))
        if name == SCORES:
            self._note_score(line)
        elif name in _DECODED:
            self._add_event(line)

    def _note_score(self, line: LogLine) -> None:
        score = _tested_in(line)
        if score is not None:
            self._tested.append(line.seq)
            self._steps.append(score.step)
            self._scores.append(score.accuracy)

    def _add_event(self, line: LogLine) -> None:
        event = event_of(line)
        if isinstance(event, RecordThinned):
            self._add_thinned(event)
        elif event is not None and line.name in _CHANGES:
            if len(self._changes) >= _MOST:
                raise ValueError(f"more than {_MOST:,} changes")
            self._changes.append((line.seq, event))

    def _add_thinned(self, event: RecordThinned) -> None:
        """Count thinned items even if the run continues from before: they do not come back."""
        before, frames = self._thinned, sum(last + 1 - first for first, last in event.frames)
        self._thinned = Thinned(
            min(before.frames + frames, STEPS),
            before.checkpoints + len(event.checkpoints),
            event.limit,
        )

    def _add_lost(self, line: LogLine) -> None:
        upto = line.fields.get("upto", line.seq)
        last = upto if is_count(upto) and upto >= line.seq else line.seq
        self._lost += last + 1 - line.seq
        if line.fields.get(DOUBTFUL) is True:
            self._doubtful = last

    def _forget_lines(self, first: int) -> None:
        """Drop lines from this number on, which no longer count."""
        index = bisect_left(self._tested, first)
        for column in (self._tested, self._steps, self._scores):
            del column[index:]
        while self._changes and self._changes[-1][0] >= first:
            self._changes.pop()
        while self._recent and self._recent[-1][0] >= first:
            self._recent.pop()

    def make_summary(self) -> LogSummary:
        regime, since = "", -1
        for number, event in self._changes:
            if isinstance(event, RegimeSwapped):
                regime, since = event.after, number
        return LogSummary(
            outcome=self._outcome,
            step=max((step for _, step in self._recent), default=0),
            regime=regime,
            best=self._best_score(bisect_left(self._tested, max(since, self._doubtful))),
            best_of_all=self._best_score(0),
            last=self._score_at(len(self._scores) - 1) if self._scores else ScoreAt(),
            seconds=self._seconds,
            changes=tuple(event for _, event in self._changes),
            thinned=self._thinned,
            lost=self._lost,
            regime_known=self._doubtful < 0,
            trend=encode_trend(self._steps, self._scores),
        )

    def _best_score(self, first: int) -> ScoreAt:
        """Return the first of the highest scores from this index on."""
        best, highest = -1, -1.0
        for index in range(first, len(self._scores)):
            if highest < self._scores[index] <= 1.0:
                best, highest = index, self._scores[index]
        return ScoreAt() if best < 0 else self._score_at(best)

    def _score_at(self, place: int) -> ScoreAt:
        return ScoreAt(self._steps[place], self._scores[place])
