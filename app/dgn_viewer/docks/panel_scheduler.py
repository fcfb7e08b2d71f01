"""Draws visible panels when their data changed, and requests only their probes from the engine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from functools import partial

from PySide6.QtCore import QObject, Qt, QTimer

from dgn_engine.protocol.commands import Command, ProbeRequest, Watch
from dgn_engine.setting import OptionValue
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.docks.redraw_budget import LONGEST, RedrawBudget
from dgn_viewer.scene.panel_spec import PanelSpec
from dgn_viewer.state.history import TRAINING, History

OVERDUE = 2.0  # seconds after which a panel is drawn without new data, to say that they are late


class PanelScheduler(QObject):
    """One panel a turn, a prompt one or else the one longest due; input is handled in between."""

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
        self._pace = RedrawBudget([name for name, spec in specs.items() if spec.prompt])
        self._drawn: dict[str, Hashable] = {}  # what each panel showed when it was last drawn
        self._when: dict[str, float] = {}
        self._steps: dict[str, int] = {}
        self._painting: dict[str, float] = {}  # what painting had taken when it was last drawn
        self._watched: tuple[ProbeRequest, ...] | None = None
        self._asked = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._turn)
        docks.changed.connect(self._look_elsewhere)
        for name, host in docks.hosts.items():
            host.choices_changed.connect(partial(self._chosen_in, name))

    def refresh(self) -> None:
        """Something may have changed: draw what is due, and the rest when its interval is over."""
        if not self._asked:
            self._asked = True
            self._timer.start(0)

    def stop(self) -> None:
        self._timer.stop()

    def stale(self) -> tuple[str, ...]:
        """Panels in sight that do not show the newest data, the one to be drawn first in front."""
        names = [name for name in self._docks.visible() if self._is_stale(name)]
        prompt = self._pace.is_prompt
        return tuple(sorted(names, key=lambda name: (not prompt(name), self._when.get(name, 0.0))))

    def draw_now(self) -> None:
        for name in self.stale():
            self._draw(name)
        self._watch()

    def watch_again(self) -> None:
        self._watched = None
        self._watch()

    def _look_elsewhere(self) -> None:
        self._watch()
        self.refresh()

    def _chosen_in(self, name: str) -> None:
        self._when.pop(name, None)  # a user's choice is drawn at once
        self._look_elsewhere()

    def _due(self, name: str) -> float:
        """When a panel may be drawn again; one never drawn has been due for ever."""
        if name not in self._when:
            return 0.0
        return self._when[name] + self._pace.interval(name, self._docks.visible())

    def _turn(self) -> None:
        self._asked = False
        waiting = self.stale()
        if not waiting or self._docks.window.isMinimized():
            return
        now = time.monotonic()
        due = {name: self._due(name) for name in waiting}
        name = next((name for name in waiting if due[name] <= now), None)
        if name is not None:
            self._draw(name)
            self._watch()
            self._timer.start(1)  # what else is due comes after the input that has arrived
        else:
            self._timer.start(max(1, math.ceil(1000 * (min(due.values()) - now))))

    def _draw(self, name: str) -> None:
        host = self._docks.hosts[name]
        now, began = time.monotonic(), time.thread_time()
        painting = host.scene_view().painting()
        painted = painting - self._painting.get(name, painting)
        self._drawn[name] = self._key(name)  # first: a panel that fails is not drawn in a circle
        since, self._when[name] = now - self._when.get(name, now - LONGEST), now
        self._steps[name] = self._history.step
        self._painting[name] = painting
        every = self._pace.interval(name, self._docks.visible())
        host.show_view(self._history.view(host.choices()), every)
        ended = time.thread_time()
        self._pace.drawn(name, ended - began + painted, since)
        self._pace.settle(now, ended)

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
