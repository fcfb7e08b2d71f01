"""The state of the current run in the window: recorded scalars, marks, newest readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from dgn_engine.protocol.branches import ComparedMoved, ComparisonClosed, ComparisonOpened
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunChanges, RunState
from dgn_engine.protocol.runs import (
    TRAINING,
    CurvesRead,
    FramesRecorded,
    HistoryReplayed,
    RunContinued,
    scores_of,
)
from dgn_engine.protocol.thinned_curve import MOST_POINTS, ThinnedCurve
from dgn_engine.protocol.training import (
    Change,
    Finished,
    Measured,
    Paused,
    Running,
    RunStarted,
    probe_digest_at,
)
from dgn_engine.protocol.watching import (
    ProbeExamples,
    ProbeScalars,
    ProbeSetChanged,
    ProbesLeft,
    ReadOn,
)
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.gate_agreement import OF_BOTH
from dgn_engine.scene.overlaid import overlaid_runs
from dgn_engine.scene.panel_spec import (
    PREDICTIONS,
    ComparedRun,
    OverlaidRun,
    Series,
    View,
    run_key,
)
from dgn_engine.storage.runs.folder_layout import is_same_folder
from dgn_engine.views.compared_step import ComparedStep, Pairing
from dgn_engine.views.event_marks import changes_network, make_marks
from dgn_engine.views.past_view import Past, PastViews

MOST_MARKS = 2000
ALL: ReadOn = (0, 0, "")  # all probe examples that the run began with
MOST_GAPS = 100  # per probe


class RecordedSeries(ThinnedCurve):
    """A curve as given to views: the same object until there are more points."""

    def __init__(self, run: str) -> None:
        """`run`: which run measures it, for `Series.run`."""
        super().__init__(MOST_POINTS)
        self._run = run
        self._series: Series | None = None

    def as_series(self) -> Series:
        """Return all points as a read-only series."""
        steps, values = self.points()
        if self._series is None or self._series.steps is not steps:
            self._series = Series(steps, values, self._run)
        return self._series


class History:
    """Folds events and frames into what a `View` needs; a new run starts from scratch.

    `state`: the state of engine and run after all events so far; the window has no other.
    `revision(source)` counts changes: a panel is redrawn when the revision of a source changes.
    """

    def __init__(self, clock: Callable[[], str] = lambda: "") -> None:
        """`clock`: the time of the day in words, for the events that are seen happening."""
        self._clock = clock
        self.state = RunState()
        self._runs = 0
        self._overlaid: tuple[OverlaidRun, ...] = ()  # kept when the run ends
        self._pictures: ProbeExamples | None = None  # perhaps of an earlier probe set
        self._reset_run()

    def _reset_run(self) -> None:
        self.step = 0
        self.readings: dict[str, Reading] = {}
        self._recorded: dict[tuple[str, str, ReadOn], RecordedSeries] = {}
        self._left: set[str] = set()  # probes not watched since their last value
        self._gaps: dict[str, tuple[tuple[int, int], ...]] = {}
        self._examples: dict[str, ReadOn] = {}  # probe examples of its newest scalars
        self.marks: tuple[Mark, ...] = ()  # the same object until a mark is added
        self._marked = 0  # number of all marks so far
        self._replayed: dict[str, tuple[int, int]] = {}  # points left out of a recorded run
        self._changes = 0  # number of changes of the network
        self._change: Mark | None = None  # the newest change
        self._measured: dict[str, int] = {}  # probe or score → number of changes before it
        self._last: Measured | None = None
        self._read_on = ""  # digest of the probe set of the newest frame; '' if unknown
        self._compared: ComparedRun | None = None
        self._folder = ""  # of the run on show, if it is recorded
        self._opened: ComparisonOpened | None = None  # the event that opened `_compared`
        self.past: Past | None = None  # the step that all views show; None: live
        self._step_of_b: ComparedStep | None = None  # the step shown as B; None: its network
        self._pairing = Pairing()
        self._chosen: list[ProbeSetChanged] = []
        self._began: RunStarted | None = None  # its first event, before all changes
        self._made: list[Change] = []
        self._shown: tuple[tuple[RunState, int, Past | None], RunState] = (
            (self.state, 0, None),
            self.state,
        )  # inputs of the shown state, and the state
        self._curves_of_b: dict[tuple[str, str], RecordedSeries] = {}
        self._revisions: dict[str, int] = {}
        self._revisions_of_b: dict[str, int] = {}
        self._common = 0

    @property
    def shown_state(self) -> RunState:
        """The state at the step looked back at; live: `state`."""
        if self.past is None:
            return self.state
        state, count, past = self._shown[0]
        if state is not self.state or past is not self.past or count != len(self._made):
            shown = self.state.with_past_settings(self.past.state_in(self._run_changes()))
            self._shown = (self.state, len(self._made), self.past), shown
        return self._shown[1]

    def _run_changes(self) -> RunChanges | None:
        if self._began is None:
            return None
        return RunChanges(self._began, tuple(self._made), self.state.catalogue)

    def look_back(self, past: Past | None) -> None:
        """Make all views show a recorded step; None: live. Events are taken in as before."""
        if past is not self.past:
            self.past = past
            self._common += 1

    def show_as_b(self, step: ComparedStep | None) -> None:
        """Make all views show this recorded step as B; None: the network that is read."""
        if step is not self._step_of_b:
            self._step_of_b = step
            self._common += 1

    def revision(self, source: str) -> tuple[int, int, int]:
        """Return a value that changes with the source ('training' or a probe) or with all panels.

        While looking back, new readings of A change nothing.
        """
        stands = self.past is not None and source != TRAINING
        revisions = self._revisions_of_b if stands else self._revisions
        return self._runs, self._common, revisions.get(source, 0)

    def on_event(self, event: Event, replayed: bool = False) -> None:
        """Take in an event; `replayed`: it is from the record, so its time of day is unknown."""
        before, self.state = self.state, self.state.after(event)
        if isinstance(event, Change):
            self._made.append(event)
        match event:
            case RunStarted():
                self._reset_run()
                self._began = event
                self._runs += 1
            case Measured() | ProbeScalars():
                self.on_samples((event,))
            case ProbesLeft(probes=probes):
                self._left.update(probes)
            case RunContinued():  # which probes were watched before is unknown
                self._left.update({probe for probe, _, _ in self._recorded})
            case ComparisonOpened():
                self._step_of_b = None
                self._drop_agreement()
                self._opened = event
                self._begin_compared()
            case FramesRecorded(folder=folder):
                self._folder = folder
                if self._opened is not None and is_same_folder(self._opened.folder, folder):
                    readings = {} if self._compared is None else self._compared.readings
                    self._begin_compared(readings)  # B is the run on show itself
            case ComparedMoved():
                self._move_compared(event)
            case ComparisonClosed():
                self._compared = self._step_of_b = self._opened = None
                self._drop_agreement()
                self._common += 1
            case CurvesRead(runs=runs):
                self._overlaid = overlaid_runs(runs)
                self._common += 1
            case ProbeSetChanged():
                self._chosen.append(event)
                self._common += 1
            case ProbeExamples():
                self._pictures = event
                self._common += 1
            case Running() | Paused() | Finished():
                self._common += 1
        for mark in make_marks(event, before):
            self._add_mark(mark if replayed else replace(mark, time=self._clock()))

    def on_samples(self, samples: Iterable[Event]) -> None:
        """Take in scores and probe scalars, which are many and change no state."""
        for sample in samples:
            if isinstance(sample, Measured):
                self._record_scores(sample)
            elif isinstance(sample, ProbeScalars):
                self._record_scalars(sample)

    def record_left_out(self, history: HistoryReplayed) -> None:
        """Store the run's first event, and how much was left out of the events taken in."""
        self._replayed = dict(history.left_out)
        if history.began is not None:
            self._began = history.began
        self._common += 1

    def on_frame(self, frame: Frame) -> bool:
        """Take in the newest frame; return False for one of an earlier run, which is ignored."""
        if self.state.run is None or frame.run != self.state.run.run:
            return False
        self.state = self.state.moved_to_step(frame.step)
        self.step = max(self.step, frame.step)
        self._read_on = frame.probe_digest
        for probe, reading in frame.readings.items():
            if reading is not self.readings.get(probe):
                if not _is_same(reading, self.readings.get(probe)):
                    self._measured[probe] = self._changes
                self.readings[probe] = reading
                self._bump_revision(probe, frame.step)
        for probe in [name for name in self.readings if name not in frame.readings]:
            del self.readings[probe]
            self._measured.pop(probe, None)  # of a network or of examples that are gone
            self._bump_revision(probe, frame.step)
        # A late frame may be from before B changed.
        opened = self._opened
        if self._compared is not None and opened is not None and opened.number == frame.comparison:
            self._read_compared(self._compared, frame)
        return True

    def view(self, choices: Mapping[str, str]) -> View:
        """Return the view of a panel with these choices; nothing in it changes afterwards."""
        if self.past is None:
            shown = self._live_view(choices)
        else:
            shown = self._past_views(self._live_view({})).view_at(self.past, choices)
        examples = self._probe_digest(), self.state.probe_digest
        return self._pairing.add_comparison(shown, self._step_of_b, examples)

    def past_views(self) -> PastViews:
        """Return the source of views of any step of A alone, as known now."""
        return self._past_views(replace(self._live_view({}), compared=None))

    def _past_views(self, live: View) -> PastViews:
        chose = self._chosen[-1].step if self._chosen else -1
        return PastViews(live, self._run_changes(), chose)

    def _probe_digest(self) -> str:
        """Return the digest of the probe set that A was read on; '' if unknown."""
        run, past = self.state.run, self.past
        if past is None or run is None:
            return self.state.probe_digest
        if past.frame is not None and past.frame.probe_digest:
            return past.frame.probe_digest
        return probe_digest_at(run, tuple(self._chosen), past.step)

    def _drop_agreement(self) -> None:
        """Drop what compares A and B over steps, which was with another B."""
        self._recorded = {
            key: curve for key, curve in self._recorded.items() if key[0] not in OF_BOTH
        }

    def _live_view(self, choices: Mapping[str, str]) -> View:
        entry = self.state.regime_entry
        return View(
            run=self.state.run,
            regime=self.state.regime,
            wiring=self.state.wiring,
            step=self.step,
            readings=self._readings_of_examples(self.readings),
            series=self._current_series(),
            marks=self.marks,
            last=self._last,
            choices=dict(choices),
            paused=self.state.is_paused,
            trains=self.state.is_running and not self.state.silent,
            diverged=self.state.diverged,
            compared=self._comparison_of_examples(),
            overlaid=self._overlaid,
            outdated=self._find_outdated(),
            gaps=dict(self._gaps),
            left_out=self._left_out(),
            traced=self._traced_examples(),
            pictures=self._current_pictures(),
            regimes=self.state.catalogue.regimes if self.state.catalogue is not None else (),
            tested=entry is None or not entry.drawn_gates,
            probe_examples=0 if self.state.recorded is not None else self.state.probe_examples,
        )

    def _readings_of_examples(self, readings: Mapping[str, Reading]) -> dict[str, Reading]:
        """Return the readings without the predictions for examples that are no longer chosen.

        Until the next frame panels keep their picture; a drawn digit must not get another's answer.
        """
        is_current = self._read_on in ("", self.state.probe_digest)
        return {
            name: reading for name, reading in readings.items() if is_current or name != PREDICTIONS
        }

    def _comparison_of_examples(self) -> ComparedRun | None:
        compared = self._compared
        if compared is None or self._read_on in ("", self.state.probe_digest):
            return compared
        return replace(compared, readings=self._readings_of_examples(compared.readings))

    def _current_pictures(self) -> ProbeExamples | None:
        """Return the pictures of the probe set that is read now.

        In a recorded run they may arrive before the set does.
        """
        pictures = self._pictures
        is_current = pictures is not None and pictures.probe_set.digest == self.state.probe_digest
        return pictures if is_current else None

    def _find_outdated(self) -> dict[str, Mark]:
        """Return the probes and scores measured on an earlier network, with its last change."""
        newest = self._change
        if newest is None:
            return {}
        older = {name for name, reading in self.readings.items() if reading.step < newest.x}
        return {
            name: newest
            for name, before in self._measured.items()
            if before < self._changes or name in older
        }

    def _left_out(self) -> dict[str, tuple[int, int]]:
        """Return points drawn and points recorded of thinned sources, and of marks ('')."""
        left_out: dict[str, tuple[int, int]] = {}
        for (source, _, examples), curve in self._recorded.items():
            if examples == self._examples.get(source, ALL):
                replayed = self._replayed.get(source, (0, 0))
                drawn, all_of_them = curve.point_count, curve.count + replayed[1] - replayed[0]
                if drawn < all_of_them > left_out.get(source, (0, 0))[1]:
                    left_out[source] = drawn, all_of_them
        replayed = self._replayed.get("", (0, 0))
        marked = self._marked + replayed[1] - replayed[0]
        if len(self.marks) < marked:
            left_out[""] = len(self.marks), marked
        return left_out

    def _traced_examples(self) -> dict[str, int]:
        run = self.state.run
        at_first = 0 if run is None else run.began_with or len(run.probe_set.indices)
        return {probe: examples or at_first for probe, (examples, _, _) in self._examples.items()}

    def _current_series(self) -> dict[tuple[str, str], Series]:
        """Return curves on the current number of probe examples: other traces differ."""
        return {
            (source, name): recorded.as_series()
            for (source, name, examples), recorded in self._recorded.items()
            if examples == self._examples.get(source, ALL)
        }

    def _begin_compared(self, readings: Mapping[str, Reading] = MappingProxyType({})) -> None:
        """Begin B from what opened it: as another run, or as a step of the run on show."""
        assert self._opened is not None
        opened = self._opened
        # Only a run's own steps can be B if it is not recorded: they are held in memory.
        named = bool(opened.folder) or opened.at_step is not None
        is_own = named and is_same_folder(opened.folder, self._folder)
        self._curves_of_b = {} if is_own else compared_curves(opened)
        compared = replace(compared_run(opened, self._curves_of_b), readings=readings)
        if is_own:
            compared = replace(
                compared,
                own=True,
                run=run_key(self.state.run),
                at=opened.step if opened.at_step is None else opened.at_step,
                config_at=bool(opened.folder) and opened.at_step is not None,
            )
        self._compared = compared
        self._common += 1

    def _read_compared(self, compared: ComparedRun, frame: Frame) -> None:
        """Take B's readings from a frame, which has all of them: B does not train."""
        previous, current = compared.readings, frame.compared
        changed = [
            name for name in {*previous, *current} if previous.get(name) is not current.get(name)
        ]
        if changed:
            self._compared = replace(compared, readings=dict(current))
        for probe in changed:
            self._revisions_of_b[probe] = self._revisions_of_b.get(probe, 0) + 1
            self._bump_revision(probe, frame.step)

    def _move_compared(self, event: ComparedMoved) -> None:
        """Extend the curves of B, which trains elsewhere, and note its newer network."""
        if self._compared is None:
            return
        for sample in event.samples:
            values: Mapping[str, float]
            if isinstance(sample, Measured):
                source, values = TRAINING, scores_of(sample)
            else:
                source, values = sample.probe, sample.values
            for name, value in values.items():
                new = RecordedSeries(self._compared.run)
                curve = self._curves_of_b.setdefault((source, name), new)
                steps = curve.points()[0]
                if not steps.size or sample.step > steps[-1]:
                    curve.append(sample.step, value)
            self._bump_revision(source, self.step)
        if event.regime:
            self._common += 1
        self._compared = replace(
            self._compared,
            step=event.step,
            regime=event.regime or self._compared.regime,
            wiring=event.wiring or self._compared.wiring,
            series={key: curve.as_series() for key, curve in self._curves_of_b.items()},
            config=event.config or self._compared.config,
        )

    def _record_scores(self, event: Measured) -> None:
        self._last = event
        for name, value in scores_of(event).items():
            self._append_value((TRAINING, name, ALL), event.step, value)
            self._measured[name] = self._changes
        self._bump_revision(TRAINING, event.step)

    def _record_scalars(self, event: ProbeScalars) -> None:
        self._break_traces(event)
        self._examples[event.probe] = event.read_on
        for name, value in event.values.items():
            self._append_value((event.probe, name, event.read_on), event.step, value)
        self._bump_revision(event.probe, event.step)

    def _break_traces(self, event: ProbeScalars) -> None:
        """Break the traces of a probe that went unwatched for longer than one reading takes."""
        if event.probe not in self._left:
            return
        self._left.discard(event.probe)
        for (probe, name, examples), recorded in self._recorded.items():
            if probe != event.probe or examples != event.read_on or name not in event.values:
                continue
            steps = recorded.points()[0]
            last = int(steps[-1])
            usual = last - int(steps[-2]) if len(steps) > 1 else 0
            if event.step - last > max(2 * usual, 1):
                recorded.append((last + event.step) // 2, math.nan)
                gap = (last, event.step)
                gaps = self._gaps.get(probe, ())
                if gaps[-1:] != (gap,):
                    self._gaps[probe] = (*gaps, gap)[-MOST_GAPS:]

    def _append_value(self, key: tuple[str, str, ReadOn], step: int, value: float) -> None:
        curve = self._recorded.get(key)
        if curve is None:
            curve = self._recorded[key] = RecordedSeries(run_key(self.state.run))
        curve.append(step, value)

    def _bump_revision(self, source: str, step: int) -> None:
        self._revisions[source] = self._revisions.get(source, 0) + 1
        self.step = max(self.step, step)

    def _add_mark(self, mark: Mark) -> None:
        marks = [*self.marks, mark]
        if len(marks) > MOST_MARKS:
            del marks[1 : MOST_MARKS // 2 : 2]
        self.marks = tuple(marks)
        self._marked += 1
        if changes_network(mark):
            self._changes += 1
            self._change = mark
        self._common += 1
        self.step = max(self.step, int(mark.x))


def _is_same(reading: Reading, known: Reading | None) -> bool:
    """Return whether it was made at once: a refined reading is a new object each time."""
    return known is not None and (reading.step, reading.seconds) == (known.step, known.seconds)


def compared_curves(event: ComparisonOpened) -> dict[tuple[str, str], RecordedSeries]:
    """Return the scores that the compared run recorded itself."""
    run = event.folder or event.name
    recorded: dict[tuple[str, str], RecordedSeries] = {}
    for score in event.scores:
        for name, value in scores_of(score).items():
            recorded.setdefault((TRAINING, name), RecordedSeries(run)).append(score.step, value)
    return recorded


def compared_run(
    event: ComparisonOpened,
    curves: Mapping[tuple[str, str], RecordedSeries] | None = None,
) -> ComparedRun:
    """Return the compared network with these curves; None: the scores it recorded itself."""
    curves = compared_curves(event) if curves is None else curves
    return ComparedRun(
        name=event.name,
        regime=event.regime,
        layers=event.layers,
        wiring=event.wiring,
        step=event.step,
        series={key: curve.as_series() for key, curve in curves.items()},
        run=event.folder or event.name,
        at=event.at_step,
        config=event.config,
    )
