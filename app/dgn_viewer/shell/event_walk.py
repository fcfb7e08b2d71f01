"""Keyboard navigation of events: zooms the time axes to one event after the other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from dgn_engine.views.event_notices import Notice
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.shell.window_context import WindowContext


class EventWalk:
    """Position among the events of the current run. `draw` draws the visible panels now."""

    def __init__(self, context: WindowContext, docks: PanelDocks, draw: Callable[[], None]) -> None:
        self._context, self._docks, self._draw = context, docks, draw
        self._step: int | None = None  # step of the event on show

    def go_to_event(self, way: int) -> None:
        """Show the next (way 1) or previous (way -1) event; initially the first or last.

        Events at the same step count as one.
        """
        marks = sorted(self._context.view().marks, key=lambda mark: mark.x)
        steps = sorted({int(mark.x) for mark in marks})
        if not steps:
            self._notify_user(
                "No events yet. Swaps, permutations, dropped files and setting changes are events."
            )
            return
        if self._step not in steps:
            self._step = None
        current = self._step
        candidates = [other for other in steps if current is None or (other - current) * way > 0]
        at_end = not candidates
        step = steps[-1 if way > 0 else 0] if at_end else candidates[0 if way > 0 else -1]
        self._step = step
        self.show_step(step)
        at_step = next(list(same) for x, same in groupby(marks, lambda m: int(m.x)) if x == step)
        sentences = " ".join(mark.sentence or f"{mark.label}." for mark in at_step)
        text = f"Event {steps.index(step) + 1:,} of {len(steps):,}, step {step:,}: {sentences}"
        which_end = "last" if way > 0 else "first"
        self._notify_user(f"{text} This is the {which_end} one." if at_end else text)

    def show_step(self, step: int) -> None:
        """Zoom every visible time axis to a step; open Training if there is none."""
        if not self._docks.go_to_step(step) and "training" in self._docks.hosts:
            self._docks.show_panel("training")
            self._draw()
            self._docks.go_to_step(step)

    def show_all_steps(self) -> None:
        """Show all steps again, and follow the run."""
        self._step = None
        for name in self._docks.visible_panels():
            self._docks.hosts[name].charts.view.steps.show_all_steps()
        self._docks.steps.show_all_steps()
        self._notify_user("The step axes show all steps and follow the run.")

    def _notify_user(self, words: str) -> None:
        self._context.notify(Notice("info", words, listed=False))
