"""Computing time of runs, some of which were trained together as a stack in one process.

Every run of a stack lasts as long as the stack, whose time must be counted only once: at each
moment it is divided evenly among the runs that were training, so that the sum is the time of the
process. Newer runs record their stack; for older ones it is inferred from their logs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.log import event_of
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.unit import UNITS

Span = tuple[float, float]  # seconds since 1970
# A single run logs train scores about 20 times per epoch, at least every 5 steps, a stack only at
# the end of each epoch. With fewer steps per epoch the log cannot distinguish them.
_TELLING = 10
_TOGETHER, _WRITING = 0.2, 0.05  # maximum gap in a stack: share of an epoch, and seconds


@dataclass(frozen=True)
class RunTrace:
    """When a run was training, according to its log.

    Attributes:
        stack: the name of its stack, '' if it has none.
        spans: its periods of training.
        ends: end time of each epoch by step, only if the run may be part of an unnamed stack.
    """

    stack: str
    spans: tuple[Span, ...]
    ends: Mapping[int, float]

    @property
    def seconds(self) -> float:
        return sum(end - begin for begin, end in self.spans)


def trace_of(reader: RunReader) -> RunTrace:
    """Read the trace of a run; raises `UserError` if its folder is damaged."""
    stack = run_info.stack_of(reader.info)
    return RunTrace(stack, tuple(_training_spans(reader)), {} if stack else _epoch_ends(reader))


class StackTimes:
    """The computing times of the runs in a folder; stacks are searched only once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seconds: dict[Path, float] | None = None

    def run_seconds(self, reader: RunReader) -> float:
        """Return the training time of a run in seconds, or its share of the time of its stack."""
        trace = trace_of(reader)
        if not (trace.stack or trace.ends):
            return trace.seconds
        if self._seconds is None:
            self._seconds = shared_seconds(self._read_traces())
        return self._seconds.get(reader.path, trace.seconds)

    def _read_traces(self) -> dict[Path, RunTrace]:
        traces = {}
        for path in sorted((self._root / UNITS).iterdir()):
            try:
                traces[path] = trace_of(RunReader(path))
            except (UserError, OSError):
                continue  # a calculation, or unreadable: not part of a stack
        return traces


def shared_seconds(traces: Mapping[Path, RunTrace]) -> dict[Path, float]:
    """Return the time in seconds of each run that is part of a stack."""
    named: dict[str, list[Path]] = {}
    older: list[Path] = []
    for path, trace in traces.items():
        if trace.stack:
            named.setdefault(trace.stack, []).append(path)
        elif trace.ends:
            older.append(path)
    shares: dict[Path, float] = {}
    for stack in (*named.values(), *_stacks_from_logs({path: traces[path] for path in older})):
        shares.update(zip(stack, _share_spans([traces[path].spans for path in stack]), strict=True))
    return shares


def _share_spans(members: Sequence[Sequence[Span]]) -> list[float]:
    """Return the time of each member, dividing each moment by the number of active members."""
    moments = sorted({moment for spans in members for span in spans for moment in span})
    shares = [0.0] * len(members)
    for begin, end in pairwise(moments):
        active = [
            index
            for index, spans in enumerate(members)
            if any(start <= begin and end <= stop for start, stop in spans)
        ]
        for index in active:
            shares[index] += (end - begin) / len(active)
    return shares


def _stacks_from_logs(traces: Mapping[Path, RunTrace]) -> Iterable[list[Path]]:
    """Group runs whose epochs all ended together, as a stack logs all its runs at once."""
    stacks: list[list[Path]] = []
    for path in sorted(traces, key=lambda run: min(traces[run].ends.values())):
        mates = (stack for stack in stacks if _ended_together(traces[stack[-1]], traces[path]))
        stack = next(mates, None)
        if stack is None:
            stacks.append([path])
        else:
            stack.append(path)
    return stacks


def _ended_together(one: RunTrace, other: RunTrace) -> bool:
    common = sorted(one.ends.keys() & other.ends.keys())
    if not common:
        return False
    shortest = min(
        (abs(run.ends[b] - run.ends[a]) for run in (one, other) for a, b in pairwise(common)),
        default=min(one.seconds, other.seconds),
    )
    apart = max(abs(one.ends[step] - other.ends[step]) for step in common)
    return apart <= max(_TOGETHER * shortest, _WRITING)


def _epoch_ends(reader: RunReader) -> dict[int, float]:
    """Return the end time of each epoch by step; empty if scores were also logged in between."""
    started = reader.start_event
    steps = started.steps_per_epoch if started is not None else 0
    if steps < _TELLING:
        return {}
    ends = {
        event.step: line.at
        for line in reader.log.lines
        if isinstance(event := event_of(line), Measured)
    }
    return ends if all(step % steps == 0 for step in ends) else {}


def _training_spans(reader: RunReader) -> list[Span]:
    """Return the periods of training, from the start (to a whole second) to the last log line.

    Pauses before a run was resumed are left out.
    """
    lines = reader.log.lines
    if not lines:
        return []
    begun = run_info.created_at(reader.info)
    marks = [(lines[0].at if begun is None else begun, lines[0].at)]
    marks += [
        (before.at, after.at)
        for before, after in pairwise(lines)
        if after.name != RunContinued.__name__
    ]
    spans: list[Span] = []
    for begin, end in marks:
        if not (math.isfinite(begin) and begin < end):
            continue
        if spans and spans[-1][1] == begin:
            begin = spans.pop()[0]
        spans.append((begin, end))
    return spans
