"""Draws visible panels when their data changed, and requests only their probes from the engine."""

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
from dgn_engine.scene.panel_spec import PanelSpec
from dgn_engine.views.history import History
from dgn_engine.views.redraw_pace import SHORTEST, LookBackPace, RedrawPace
from dgn_viewer.docks.panel_docks import PanelDocks

LONGEST_WAIT = 60.0  # seconds until it looks again at what is due
Revision = tuple[int, int, int]  # runs, what concerns all panels, one source


class PanelScheduler(QObject):
    """One panel a turn, a prompt one or else the one longest due; input is handled in between.

    `drawn(step)`: a panel shows this step of the run.
    """

    drawn = Signal(int)

    def __init__(
        self,
        history: History,
        docks: PanelDocks,
        specs: dict[str, PanelSpec],
        send: Callable[[Command], None],
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
    ) -> None:
        """`busy`: the processor time of this thread."""
        super().__init__(docks)
        self._clock, self._busy = clock, busy
        self._history = history
        self._docks = docks
        self._specs = specs
        self._send = send
        self._pace = RedrawPace()
        self._back = LookBackPace()
        self._drawn: dict[str, tuple[tuple[Revision, ...], Hashable]] = {}  # what each panel showed
        self._owed: set[str] = set()  # panels whose next new reading follows a user's change
        self._when: dict[str, float] = {}
        self._painting: dict[str, float] = {}  # what painting had taken when it was last drawn
        self._watched: tuple[ProbeRequest, ...] | None = None
        self._asked = False
        self._rearranged = False  # panels came or went since probes were asked for
        self._timer = QTimer(self, singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.take_turn)
        docks.changed.connect(self._look_elsewhere)
        for name, host in docks.hosts.items():
            host.choices_changed.connect(partial(self._chosen_in, name))

    def refresh(self) -> None:
        """Something may have changed: draw what is due, and the rest when its interval is over."""
        if not self._asked:
            self._asked = True
            self._timer.start(0)

    @property
    def waits(self) -> int | None:
        """Milliseconds from the last turn to the next; None where there is none."""
        return self._timer.interval() if self._timer.isActive() else None

    def stop(self) -> None:
        self._timer.stop()

    def follow(self, watching: Watching | None) -> None:
        """Draw at the engine's pace, and tell it what the window takes."""
        self._pace.follow(watching)
        settings = self._history.state.settings
        self._back.follow(watching, settings is not None and settings.pace > 0.0)
        if self._history.past is None:
            for name in self._docks.visible():
                self._docks.hosts[name].reach(self._history.step)
        if watching is not None:
            report = self._pace.report(self._clock(), self._busy())
            if report is not None:
                self._send(report)

    def stale(self) -> tuple[str, ...]:
        """Panels in sight that do not show the newest data, the one to be drawn first in front."""
        names = [name for name in self._docks.visible() if self._is_stale(name)]
        specs = self._specs
        return tuple(
            sorted(names, key=lambda name: (not specs[name].prompt, self._when.get(name, 0.0)))
        )

    def charge(self, seconds: float) -> None:
        """Another thread took so many processor seconds for what is drawn here."""
        self._pace.took_elsewhere(seconds)

    def look_back_in(self) -> float:
        """Seconds until another step may be drawn that somebody looks back at; 0: at once."""
        return self._back.wait(self._clock())

    def draw_now(self) -> None:
        for name in self.stale():
            self._draw(name)
        self._watch()

    def watch_again(self) -> None:
        self._watched = None
        self._watch()

    def _look_elsewhere(self) -> None:
        """Ask for other probes once the panels stand: a layout that is put back hides all of them
        for a moment, which is no gap in what is measured."""
        self._rearranged = True
        self.refresh()

    def _chosen_in(self, name: str) -> None:
        self._when.pop(name, None)  # a user's choice is drawn at once
        self._watch()
        self.refresh()

    def _due(self, name: str) -> float:
        """When a panel may be drawn again; one never drawn has been due for ever."""
        if name not in self._when:
            return 0.0
        if self._is_urgent(name):
            return self._when[name] + SHORTEST
        paced = self._specs[name].probes
        return self._when[name] + (self._pace.spacing if paced else self._pace.every)

    def _is_urgent(self, name: str) -> bool:
        """Whether it shows what a user has caused, or a reading that is as good as it gets: such
        come when the budget has room for them."""
        before, now = self._drawn[name][0], self._key(name)[0]
        if [one[:2] for one in before] != [one[:2] for one in now]:
            return True
        if not self._specs[name].probes or before == now:
            return False
        readings = self._history.readings
        refining = any(
            readings[probe].progress < 1.0
            for probe in self._specs[name].probes
            if probe in readings
        )
        return name in self._owed or not refining

    def take_turn(self) -> None:
        """Draw the panel whose turn it is, where one is due, and wait for the next turn."""
        self._asked = False
        if self._rearranged:
            self._watch()
        waiting = self.stale()
        if not waiting or self._docks.window.isMinimized():
            return
        now = self._clock()
        due = {name: self._due(name) for name in waiting}
        name = next((name for name in waiting if due[name] <= now), None)
        if name is not None:
            self._draw(name)
            self._watch()
            # What else is due comes after painting and the input that has arrived.
            self._timer.start(0)
        else:
            wait = min(min(due.values()) - now, LONGEST_WAIT)
            self._timer.start(max(1, math.ceil(1000 * wait)))

    def _draw(self, name: str) -> None:
        host = self._docks.hosts[name]
        now, began = self._clock(), self._busy()
        painting = host.charts.painting()
        painted = painting - self._painting.get(name, painting)
        before = self._drawn.get(name)
        key = self._drawn[name] = self._key(name)  # first: one that fails is not drawn in a circle
        self._owe(name, before[0] if before is not None else (), key[0])
        self._when[name] = now
        self._painting[name] = painting
        host.show_view(self._history.view(host.drawn.choices), self._pace.every)
        if self._history.past is None and isinstance(shown := host.shown(), Scene):
            self.drawn.emit(shown.step)
        cost = self._busy() - began + painted
        if self._history.past is None:
            self._pace.drawn(cost)
        else:  # no reading has caused it
            self._back.drew(cost, self._clock())

    def _owe(self, name: str, before: tuple[Revision, ...], now: tuple[Revision, ...]) -> None:
        """After a change that concerns all panels the reading that follows it is shown at once."""
        if [one[:2] for one in before] != [one[:2] for one in now]:
            self._owed.add(name)
        else:
            self._owed.discard(name)

    def _is_stale(self, name: str) -> bool:
        return self._drawn.get(name) != self._key(name)

    def _key(self, name: str) -> tuple[tuple[Revision, ...], Hashable]:
        sources = self._specs[name].probes or (TRAINING,)
        revisions = tuple(self._history.revision(source) for source in sources)
        return revisions, tuple(sorted(self._docks.hosts[name].drawn.choices.items()))

    def _watch(self) -> None:
        self._rearranged = False
        merged: dict[str, dict[str, OptionValue]] = {}
        for name in self._docks.visible():
            for request in self._docks.hosts[name].drawn.requests():
                merged.setdefault(request.probe, {}).update(request.options)
        requests = tuple(
            ProbeRequest(probe, tuple(sorted(options.items())))
            for probe, options in sorted(merged.items())
        )
        if requests != self._watched:
            self._watched = requests
            self._docks.ages.watch(merged)
            self._send(Watch(requests))
