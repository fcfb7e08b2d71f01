"""Draws the panels in sight when their data changed, and asks the engine for their probes only."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from PySide6.QtCore import QObject, QTimer

from dgn_engine.config import OptionValue
from dgn_engine.protocol.commands import Command, ProbeRequest, Watch
from dgn_viewer.board.docks import PanelDocks
from dgn_viewer.history import TRAINING, History
from dgn_viewer.panel import PanelSpec

SHORTEST = 1 / 30  # seconds between two drawings of one panel
OVERDUE = 2.0  # seconds after which a panel is told the time again, to see that its data are late
REST = 2.0  # after a drawing the window rests this many times its cost, so that it stays usable


class Display(QObject):
    """One panel a turn, the one that waited longest: input is handled between two panels."""

    def __init__(
        self,
        history: History,
        docks: PanelDocks,
        specs: dict[str, PanelSpec],
        send: Callable[[Command], None],
    ) -> None:
        super().__init__(docks)
        self._history = history
        self._docks = docks
        self._specs = specs
        self._send = send
        self._drawn: dict[str, Hashable] = {}  # what each panel showed when it was last drawn
        self._when: dict[str, float] = {}
        self._steps: dict[str, int] = {}
        self._watched: tuple[ProbeRequest, ...] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._turn)
        docks.changed.connect(self.refresh)
        for host in docks.hosts.values():
            host.choices_changed.connect(self.refresh)

    def refresh(self) -> None:
        """Something may have changed: draw soon, and watch what is looked at."""
        self._watch()
        if not self._timer.isActive():
            self._timer.start(0)

    def stop(self) -> None:
        """Draw no more."""
        self._timer.stop()

    def stale(self) -> tuple[str, ...]:
        """Panels in sight that do not show the newest data, the longest undrawn first."""
        names = [name for name in self._docks.visible() if self._is_stale(name)]
        return tuple(sorted(names, key=lambda name: self._when.get(name, 0.0)))

    def draw_now(self) -> None:
        """Bring every panel in sight up to date at once."""
        for name in self.stale():
            self._draw(name)
        self._watch()

    def _turn(self) -> None:
        waiting = self.stale()
        if not waiting or self._docks.window.isMinimized():
            return
        now = time.monotonic()
        ready = now - self._when.get(waiting[0], 0.0) - SHORTEST
        if ready < 0:
            self._timer.start(max(1, round(-1000 * ready)))
            return
        self._draw(waiting[0])
        self._watch()
        cost = time.monotonic() - now
        self._timer.start(max(1, round(1000 * REST * cost)))

    def _draw(self, name: str) -> None:
        host = self._docks.hosts[name]
        self._drawn[name] = self._key(name)  # first: a panel that fails is not drawn in a circle
        self._when[name] = time.monotonic()
        self._steps[name] = self._history.step
        host.show_view(self._history.view(host.choices()))

    def _is_stale(self, name: str) -> bool:
        if self._drawn.get(name) != self._key(name):
            return True
        waited = time.monotonic() - self._when.get(name, 0.0)
        return waited > OVERDUE and self._steps.get(name) != self._history.step

    def _key(self, name: str) -> Hashable:
        sources = self._specs[name].probes or (TRAINING,)
        revisions = tuple(self._history.revision(source) for source in sources)
        return revisions, tuple(sorted(self._docks.hosts[name].choices().items()))

    def _watch(self) -> None:
        merged: dict[str, dict[str, OptionValue]] = {}
        for name in self._docks.visible():
            for request in self._docks.hosts[name].requests():
                merged.setdefault(request.probe, {}).update(request.options)
        requests = tuple(
            ProbeRequest(probe, tuple(sorted(options.items())))
            for probe, options in sorted(merged.items())
        )
        if requests != self._watched:
            self._watched = requests
            self._send(Watch(requests))
