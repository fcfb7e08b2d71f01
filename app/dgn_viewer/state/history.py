"""What the viewer remembers of the current run: recorded scalars, marks, newest readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dgn_engine.protocol import events
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.scene.elements import Array, Mark
from dgn_viewer.scene.panel_spec import ComparedRun, Series, View

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

    def __init__(self) -> None:
        self.state = RunState()
        self._runs = 0
        self._forget()

    def _forget(self) -> None:
        self._step = 0
        self._readings: dict[str, Reading] = {}
        self._recorded: dict[tuple[str, str, int], RecordedSeries] = {}
        self._examples: dict[str, int] = {}  # of the newest scalars of a probe; 0: all
        self._marks: list[Mark] = []
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

    def on_event(self, event: events.Event) -> None:
        before, self.state = self.state, self.state.after(event)
        match event:
            case events.RunStarted():
                self._forget()
                self._runs += 1
            case events.Measured():
                self._measure(event)
            case events.ProbeScalars():
                self._examples[event.probe] = event.examples
                for name, value in event.values.items():
                    self._append((event.probe, name, event.examples), event.step, value)
                self._touch(event.probe, event.step)
            case events.RegimeSwapped():
                self._mark(event.step, event.undone.partition(" ")[0].lower() or event.after)
            case events.Rewired():
                self._mark(event.step, "π" if event.order != before.wiring else "↻")
            case events.WeightsTaken():
                self._mark(event.step, "weights")
            case events.ComparisonOpened():
                self._compared = compared_run(event)
                self._common += 1
            case events.ComparisonClosed():
                self._compared = None
                self._common += 1
            case events.SettingChanged():
                for label in _labels(before.settings, event):
                    self._mark(event.step, label)
            case events.Diverged():
                self._mark(event.step, "diverged")
            case events.Running() | events.Paused() | events.Finished():
                self._common += 1

    def on_frame(self, frame: Frame) -> bool:
        """Take in the newest frame; False where it is of an earlier run, and is ignored."""
        if self.state.run is None or frame.run != self.state.run.run:
            return False
        self.state = self.state.at(frame.step)
        self._step = max(self._step, frame.step)
        for probe, reading in frame.readings.items():
            if reading is not self._readings.get(probe):
                self._readings[probe] = reading
                self._touch(probe, frame.step)

        if self._compared is not None:
            self._read_compared(self._compared, frame)
        return True

    def view(self, choices: Mapping[str, str]) -> View:
        """What a panel is given, with these choices; nothing in it changes afterwards."""
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
        )

    def _series(self) -> dict[tuple[str, str], Series]:
        """Of a probe those of as many examples as it reads now: a trace of others is another."""
        return {
            (source, name): recorded.series()
            for (source, name, examples), recorded in self._recorded.items()
            if examples == self._examples.get(source, 0)
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
            self._append((TRAINING, name, 0), event.step, value)
        self._touch(TRAINING, event.step)

    def _append(self, key: tuple[str, str, int], step: int, value: float) -> None:
        self._recorded.setdefault(key, RecordedSeries()).append(step, value)

    def _touch(self, source: str, step: int) -> None:
        self._revisions[source] = self._revisions.get(source, 0) + 1
        self._step = max(self._step, step)

    def _mark(self, step: int, label: str) -> None:
        self._marks.append(Mark(float(step), label))
        self._common += 1
        self._step = max(self._step, step)


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


def _labels(before: events.SettingChanged | None, now: events.SettingChanged) -> list[str]:
    """What a change of the dials is called on a time axis; the pace changes no curve."""
    labels: list[str] = []
    if before is None or now.beta != before.beta:
        labels.append(f"β {now.beta:g}")
    if before is None or now.learning_rate != before.learning_rate:
        labels.append(f"lr {now.learning_rate:g}")
    if before is None or now.value_input != before.value_input:
        labels.append(f"input {now.value_input}")
    return labels


def _doubled(array: Array) -> Array:
    larger = np.empty(2 * len(array), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def _read_only(array: Array, length: int) -> Array:
    view = array[:length]
    view.flags.writeable = False
    return view
