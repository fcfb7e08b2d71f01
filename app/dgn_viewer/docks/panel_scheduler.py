"""Redraws visible panels when their data changes, and requests only their probes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from functools import partial

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Watching
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_spec import PREDICTIONS, PanelSpec
from dgn_engine.views.history import History
from dgn_engine.views.redraw_pace import SHORTEST, LookBackPace, RedrawPace
from dgn_viewer.docks.panel_docks import PanelDocks

LONGEST_WAIT = 60.0  # seconds; an upper bound of the time to the next check
Revision = tuple[int, int, int]  # counts of runs, of changes for all panels, of one source


class PanelScheduler(QObject):
    """A scheduler that draws one panel per turn and handles input between turns.

    Panels marked as prompt come first, then the one that has been due longest. `drawn(step)` is
    emitted after a panel has drawn this step of the run.
    """

    drawn = Signal(int)
    scores_wanted = Signal()  # a curve of scores shows a user's change only with the next ones

    def __init__(
        self,
        history: History,
        docks: PanelDocks,
        specs: dict[str, PanelSpec],
        send: Callable[[Command], None],
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
    ) -> None:
        """`busy()` returns the CPU time of this thread, in seconds."""
        super().__init__(docks)
        self._clock, self._busy = clock, busy
        self._history = history
        self._docks = docks
        self._specs = specs
        self._send = send
        self._pace = RedrawPace()
        self._back = LookBackPace()
        # Keys of the last drawings, see `_drawing_key`.
        self._drawn: dict[str, tuple[tuple[Revision, ...], Hashable]] = {}
        self._owed: set[str] = set()  # panels whose next data reflect a user's change
        self._when: dict[str, float] = {}  # time of the last drawing
        self._first: dict[str, tuple[int, float]] = {}  # run and time of the first picture
        self._painting: dict[str, float] = {}  # total painting time at the last drawing
        self._watched: tuple[ProbeRequest, ...] | None = None
        self._asked = False
        self._rearranged = False  # visibility changed since probes were last requested
        self._predicts = False  # predictions are shown outside the panels
        self._timer = QTimer(self, singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.take_turn)
        docks.changed.connect(self._on_panels_changed)
        for name, host in docks.hosts.items():
            host.choices_changed.connect(partial(self._on_panel_choice, name))

    def schedule_refresh(self) -> None:
        """Draw the panels that are due, and the others when their interval has elapsed."""
        if not self._asked:
            self._asked = True
            self._timer.start(0)

    @property
    def wait_ms(self) -> int | None:
        """Milliseconds between the last turn and the next; None if none is scheduled."""
        return self._timer.interval() if self._timer.isActive() else None

    def stop(self) -> None:
        self._timer.stop()

    def update_pace(self, watching: Watching | None) -> None:
        """Adapt to the engine's pace, and report the window's own cost to it."""
        self._pace.update_interval(watching)
        settings = self._history.state.settings
        self._back.update_share(watching, settings is not None and settings.pace > 0.0)
        if self._history.past is None:
            for name in self._docks.visible_panels():
                self._docks.hosts[name].update_staleness(self._history.step)
        if watching is not None:
            report = self._pace.report_costs(self._clock(), self._busy())
            if report is not None:
                self._send(report)

    def stale_panels(self) -> tuple[str, ...]:
        """Return the visible panels that do not show the newest data, in drawing order."""
        names = [name for name in self._docks.visible_panels() if self._is_stale(name)]
        specs = self._specs
        return tuple(
            sorted(names, key=lambda name: (not specs[name].prompt, self._when.get(name, 0.0)))
        )

    def charge_seconds(self, seconds: float) -> None:
        """Add CPU time that another thread spent on drawing, in seconds."""
        self._pace.record_other_thread(seconds)

    def seconds_until_look_back(self) -> float:
        """Return the seconds until another past step may be drawn; 0 for immediately."""
        return self._back.seconds_until_next(self._clock())

    def draw_now(self) -> None:
        for name in self.stale_panels():
            self._draw_panel(name)
        self._request_probes()

    def watch_predictions(self, wanted: bool) -> None:
        """Request what the network answers, whichever panels are visible."""
        self._predicts = wanted
        self._request_probes()

    def watch_again(self) -> None:
        self._watched = None
        self._request_probes()

    def _on_panels_changed(self) -> None:
        """Request probes on the next turn.

        Restoring a layout hides all panels for a moment, which must not interrupt their traces.
        """
        self._rearranged = True
        self.schedule_refresh()

    def _on_panel_choice(self, name: str) -> None:
        self._when.pop(name, None)  # draw a user's choice immediately
        self._request_probes()
        self.schedule_refresh()

    def _due_time(self, name: str) -> float:
        """Return the time at which a panel may be drawn again; 0 if it was never drawn."""
        if name not in self._when:
            return 0.0
        if self._is_urgent(name):
            return self._when[name] + SHORTEST
        first = self._first.get(name, (0, -math.inf))[1]
        interval = self._pace.interval_at(self._when[name] - first, bool(self._specs[name].probes))
        return self._when[name] + interval

    def _is_urgent(self, name: str) -> bool:
        """Return whether a drawing is due to a user's change or to a final reading.

        These do not wait for the regular interval: the engine has budgeted for them already.
        """
        before, after = self._drawn[name][0], self._drawing_key(name)[0]
        if [revision[:2] for revision in before] != [revision[:2] for revision in after]:
            return True
        if before == after:
            return False
        if not self._specs[name].probes:
            return name in self._owed
        readings = self._history.readings
        refining = any(
            readings[probe].progress < 1.0
            for probe in self._specs[name].probes
            if probe in readings
        )
        return name in self._owed or not refining

    def take_turn(self) -> None:
        """Draw the next panel that is due, if any, and schedule the next turn."""
        self._asked = False
        if self._rearranged:
            self._request_probes()
        waiting = self.stale_panels()
        if not waiting or self._docks.window.isMinimized():
            return
        now = self._clock()
        due = {name: self._due_time(name) for name in waiting}
        name = next((name for name in waiting if due[name] <= now), None)
        if name is not None:
            self._draw_panel(name)
            self._request_probes()
            # Let Qt paint and handle input before the next panel.
            self._timer.start(0)
        else:
            wait = min(min(due.values()) - now, LONGEST_WAIT)
            self._timer.start(max(1, math.ceil(1000 * wait)))

    def _draw_panel(self, name: str) -> None:
        host = self._docks.hosts[name]
        now, began = self._clock(), self._busy()
        painting = host.charts.painting_seconds()
        painted = painting - self._painting.get(name, painting)
        before = self._drawn.get(name)
        key = self._drawn[name] = self._drawing_key(
            name
        )  # before drawing, so that a failure does not loop
        self._flag_changed_panel(name, before[0] if before is not None else (), key[0])
        self._when[name] = now
        self._painting[name] = painting
        host.show_view(self._history.view(host.drawn.choices), self._pace.redraw_interval)
        if self._history.past is None and isinstance(content := host.shown_content(), Scene):
            run = key[0][0][0]
            if self._first.get(name, (-1, 0.0))[0] != run:
                self._first[name] = run, now
            self.drawn.emit(content.step)
        cost = self._busy() - began + painted
        if self._history.past is None:
            self._pace.record_drawing(cost)
        else:  # not caused by a reading
            self._back.record_drawing(cost, self._clock())

    def _flag_changed_panel(
        self, name: str, before: tuple[Revision, ...], now: tuple[Revision, ...]
    ) -> None:
        """After a change that affects all panels, mark the next reading or score as urgent."""
        if [revision[:2] for revision in before] != [revision[:2] for revision in now]:
            if self._specs[name].probes:
                self._owed.add(name)
            elif before:
                self._owed.add(name)
                self.scores_wanted.emit()
        else:
            self._owed.discard(name)

    def _is_stale(self, name: str) -> bool:
        return self._drawn.get(name) != self._drawing_key(name)

    def _drawing_key(self, name: str) -> tuple[tuple[Revision, ...], Hashable]:
        sources = self._specs[name].probes or (TRAINING,)
        revisions = tuple(self._history.revision(source) for source in sources)
        return revisions, tuple(sorted(self._docks.hosts[name].drawn.choices.items()))

    def _request_probes(self) -> None:
        self._rearranged = False
        merged: dict[str, dict[str, OptionValue]] = {PREDICTIONS: {}} if self._predicts else {}
        for name in self._docks.visible_panels():
            for request in self._docks.hosts[name].drawn.probe_requests():
                merged.setdefault(request.probe, {}).update(request.options)
        # Predictions first: they belong to the step of the readings that follow.
        names = sorted(merged, key=lambda name: (name != PREDICTIONS, name))
        requests = tuple(ProbeRequest(name, tuple(sorted(merged[name].items()))) for name in names)
        if requests != self._watched:
            self._watched = requests
            self._docks.ages.keep_probes(merged)
            self._send(Watch(requests))
