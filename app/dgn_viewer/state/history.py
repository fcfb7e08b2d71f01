"""What the viewer remembers of the current run: recorded scalars, marks, newest readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from dgn_engine.protocol import events
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.run_list import CurvesRead
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.scene.elements import Array, Mark
from dgn_viewer.scene.overlaid import overlaid_runs
from dgn_viewer.scene.panel_spec import ComparedRun, OverlaidRun, Series, View
from dgn_viewer.state.event_marks import changes_network, marks_of

TRAINING = "training"  # source of loss and accuracy; every other source is a probe's id
_FIRST_CAPACITY = 256


class RecordedSeries:
    """One append-only series. Views that were handed out keep their content: nothing is moved."""

    def __init__(self) -> None:
        self._steps = np.empty(_FIRST_CAPACITY, dtype=np.int64)
        self._values = np.empty(_FIRST_CAPACITY, dtype=np.float64)
        self._length = 0
        self._series: Series | None = None

    def append(self, step: int, value: float) -> None:
        if self._length == len(self._steps):
            self._steps = _doubled(self._steps)
            self._values = _doubled(self._values)
        self._steps[self._length] = step
        self._values[self._length] = value
        self._length += 1
        self._series = None

    def series(self) -> Series:
        """All points so far, read-only, without a copy."""
        if self._series is None:
            steps = _read_only(self._steps, self._length)
            self._series = Series(steps, _read_only(self._values, self._length))
        return self._series


class History:
    """Folds events and frames into what a `View` needs; a new run starts from nothing.

    `state`: the state of engine and run after the events so far; the window has no other.
    `revision(source)` counts what has changed: a panel is drawn again when a revision of one of
    its sources moved.
    """

    def __init__(self, clock: Callable[[], str] = lambda: "") -> None:
        """`clock`: the time of the day in words, for the events that are seen happening."""
        self._clock = clock
        self.state = RunState()
        self._runs = 0
        self._overlaid: tuple[OverlaidRun, ...] = ()  # they outlive the run
        self._forget()

    def _forget(self) -> None:
        self._step = 0
        self._readings: dict[str, Reading] = {}
        self._recorded: dict[tuple[str, str, tuple[int, int]], RecordedSeries] = {}
        self._left: set[str] = set()  # probes that nobody has watched since their last value
        self._gaps: dict[str, tuple[tuple[int, int], ...]] = {}
        self._examples: dict[str, tuple[int, int]] = {}  # that its newest scalars were read on
        self._marks: list[Mark] = []
        self._changes: list[Mark] = []  # the marks of what changed the network
        self._measured: dict[str, int] = {}  # probe or score → how many of these came before it
        self._last: events.Measured | None = None
        self._compared: ComparedRun | None = None
        self._revisions: dict[str, int] = {}
        self._common = 0

    @property
    def step(self) -> int:
        return self._step

    @property
    def readings(self) -> Mapping[str, Reading]:
        return self._readings

    def revision(self, source: str) -> tuple[int, int, int]:
        """Changes when the source ('training' or a probe) or what concerns all panels changes."""
        return self._runs, self._common, self._revisions.get(source, 0)

    def on_event(self, event: events.Event, replayed: bool = False) -> None:
        """`replayed`: it happened when the run was recorded; when that was is not known."""
        before, self.state = self.state, self.state.after(event)
        match event:
            case events.RunStarted():
                self._forget()
                self._runs += 1
            case events.Measured():
                self._measure(event)
            case events.ProbeScalars():
                self._break(event)
                self._examples[event.probe] = event.read_on
                for name, value in event.values.items():
                    self._append((event.probe, name, event.read_on), event.step, value)
                self._touch(event.probe, event.step)
            case events.ProbesLeft(probes=probes):
                self._left.update(probes)
            case events.RunContinued():  # who watches what is not known from before
                self._left.update({probe for probe, _, _ in self._recorded})
            case events.ComparisonOpened():
                self._compared = compared_run(event)
                self._common += 1
            case events.ComparisonClosed():
                self._compared = None
                self._common += 1
            case CurvesRead(runs=runs):
                self._overlaid = overlaid_runs(runs)
                self._common += 1
            case events.ProbeSetChanged():
                self._common += 1
            case events.Running() | events.Paused() | events.Finished():
                self._common += 1
        for mark in marks_of(event, before):
            self._mark(mark if replayed else replace(mark, time=self._clock()))

    def on_frame(self, frame: Frame) -> bool:
        """Take in the newest frame; False where it is of an earlier run, and is ignored."""
        if self.state.run is None or frame.run != self.state.run.run:
            return False
        self.state = self.state.at(frame.step)
        self._step = max(self._step, frame.step)
        for probe, reading in frame.readings.items():
            if reading is not self._readings.get(probe):
                if not _is_same(reading, self._readings.get(probe)):
                    self._measured[probe] = len(self._changes)
                self._readings[probe] = reading
                self._touch(probe, frame.step)
        for probe in [name for name in self._readings if name not in frame.readings]:
            del self._readings[probe]
            self._measured.pop(probe, None)  # of a network, or of examples, that are no more
            self._touch(probe, frame.step)
        if self._compared is not None:
            self._read_compared(self._compared, frame)
        return True

    def view(self, choices: Mapping[str, str]) -> View:
        """What a panel is given, with these choices; nothing in it changes afterwards."""
        entry = self.state.regime_entry
        return View(
            run=self.state.run,
            regime=self.state.regime,
            wiring=self.state.wiring,
            step=self._step,
            readings=dict(self._readings),
            series=self._series(),
            marks=tuple(self._marks),
            last=self._last,
            choices=dict(choices),
            paused=self.state.paused,
            diverged=self.state.diverged,
            compared=self._compared,
            overlaid=self._overlaid,
            outdated=self._outdated(),
            gaps=dict(self._gaps),
            traced=self._traced(),
            tested=entry is None or not entry.drawn_gates,
            probe_examples=0 if self.state.recorded is not None else self.state.probe_examples,
        )

    def _outdated(self) -> dict[str, Mark]:
        """What was measured of another network than the one that is there now."""
        count, found = len(self._changes), dict[str, Mark]()
        for name, before in self._measured.items():
            reading = self._readings.get(name)
            older = reading is not None and bool(count) and reading.step < self._changes[-1].x
            if before < count or older:
                found[name] = self._changes[-1]
        return found

    def _traced(self) -> dict[str, int]:
        run = self.state.run
        at_first = 0 if run is None else run.began_with or len(run.probe_set.indices)
        return {probe: examples or at_first for probe, (examples, _) in self._examples.items()}

    def _series(self) -> dict[tuple[str, str], Series]:
        """Of a probe those of as many examples as it reads now: a trace of others is another."""
        return {
            (source, name): recorded.series()
            for (source, name, examples), recorded in self._recorded.items()
            if examples == self._examples.get(source, (0, 0))
        }

    def _read_compared(self, compared: ComparedRun, frame: Frame) -> None:
        """The compared network does not train: all of its readings are those of the frame."""
        known = compared.readings
        changed = [
            p for p in {*known, *frame.compared} if known.get(p) is not frame.compared.get(p)
        ]
        if changed:
            self._compared = replace(compared, readings=dict(frame.compared))
        for probe in changed:
            self._touch(probe, frame.step)

    def _measure(self, event: events.Measured) -> None:
        self._last = event
        for name, value in _scores(event).items():
            self._append((TRAINING, name, (0, 0)), event.step, value)
            self._measured[name] = len(self._changes)
        self._touch(TRAINING, event.step)

    def _break(self, event: events.ProbeScalars) -> None:
        """Break the traces of a probe that was not watched for longer than it takes to be read."""
        if event.probe not in self._left:
            return
        self._left.discard(event.probe)
        for (probe, name, examples), recorded in self._recorded.items():
            if probe != event.probe or examples != event.read_on or name not in event.values:
                continue
            steps = recorded.series().steps
            last = int(steps[-1])
            usual = last - int(steps[-2]) if len(steps) > 1 else 0
            if event.step - last > max(2 * usual, 1):
                recorded.append((last + event.step) // 2, math.nan)
                gap = (last, event.step)
                known = self._gaps.get(probe, ())
                self._gaps[probe] = known if known[-1:] == (gap,) else (*known, gap)

    def _append(self, key: tuple[str, str, tuple[int, int]], step: int, value: float) -> None:
        self._recorded.setdefault(key, RecordedSeries()).append(step, value)

    def _touch(self, source: str, step: int) -> None:
        self._revisions[source] = self._revisions.get(source, 0) + 1
        self._step = max(self._step, step)

    def _mark(self, mark: Mark) -> None:
        self._marks.append(mark)
        if changes_network(mark):
            self._changes.append(mark)
        self._common += 1
        self._step = max(self._step, int(mark.x))


def _is_same(reading: Reading, known: Reading | None) -> bool:
    """Whether it was made once; from another process each frame brings copies."""
    if known is None:
        return False
    return (reading.step, reading.seconds) == (known.step, known.seconds)


def _scores(event: events.Measured) -> dict[str, float]:
    """What was measured, by the name of its series."""
    measured = {
        "train_loss": event.train_loss,
        "train_accuracy": event.train_accuracy,
        "test_loss": event.test_loss,
        "test_accuracy": event.test_accuracy,
    }
    return {name: value for name, value in measured.items() if value is not None}


def compared_run(event: events.ComparisonOpened) -> ComparedRun:
    """The compared network, with the scores that its own run recorded."""
    recorded: dict[tuple[str, str], RecordedSeries] = {}
    for score in event.scores:
        for name, value in _scores(score).items():
            recorded.setdefault((TRAINING, name), RecordedSeries()).append(score.step, value)
    return ComparedRun(
        name=event.name,
        regime=event.regime,
        layers=event.layers,
        wiring=event.wiring,
        step=event.step,
        series={key: one.series() for key, one in recorded.items()},
    )


def _doubled(array: Array) -> Array:
    larger = np.empty(2 * len(array), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def _read_only(array: Array, length: int) -> Array:
    view = array[:length]
    view.flags.writeable = False
    return view
