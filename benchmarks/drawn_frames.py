"""Measure how long drawing takes in the window, and how old a reading is once it is shown."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt

from benchmarks.watched_runs import InWindow
from dgn_engine.session.thread_session import ThreadSession


@dataclass
class DrawnFrames:
    """Wall-clock seconds while the run trains at full speed.

    `drawing`: from the call that draws a panel until its charts are painted. `age`: for each panel,
    from the engine publishing a reading until the panel shows it.
    """

    drawing: list[float] = field(default_factory=list)
    age: dict[str, list[float]] = field(default_factory=dict)

    def compute_quantiles(self) -> dict[str, float]:
        """Return percentiles in milliseconds, over all drawings and for each panel."""
        figures = {"drawings": float(len(self.drawing))}
        every = [seconds for ages in self.age.values() for seconds in ages]
        rows = {"time to draw": self.drawing, "snapshot to pixels, all panels": every}
        for panel, ages in self.age.items():
            rows[f"snapshot to pixels, {panel}"] = ages
        for name, seconds in rows.items():
            for percent in (50, 95, 99) if seconds else ():
                figures[f"{name}, p{percent}"] = 1e3 * float(np.percentile(seconds, percent))
        return figures


class _Painted(QObject):
    """Calls back once a canvas has been painted and its window is on the screen.

    Painting is not forced: a canvas that is repainted immediately is painted a second time when its
    scene processes the changes of its items. An event posted during a paint event is delivered
    after the whole window has been painted and shown.
    """

    _kind = QEvent.Type(QEvent.registerEventType())

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[QObject, list[partial[None]]] = {}
        self._over: list[partial[None]] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint and watched in self.waiting:
            self._over += self.waiting.pop(watched)
            over = QEvent(self._kind)
            QCoreApplication.postEvent(self, over, Qt.EventPriority.HighEventPriority.value)
        return False

    def event(self, event: QEvent) -> bool:
        if event.type() == self._kind:
            over, self._over = self._over, []
            for call in over:
                call()
            return True
        return super().event(event)


def watch_drawing(window: InWindow, seconds: float) -> DrawnFrames:
    """Measure the window's drawing for so many seconds; its engine runs in a thread."""
    result, published, painted = DrawnFrames(), dict[tuple[str, int], float](), _Painted()
    engine, display = window.viewer.engine, window.viewer.window.display
    assert isinstance(engine, ThreadSession)
    mailbox, draw = engine._mailbox, display._draw_panel
    arrived = mailbox._wake_viewer
    shown = dict[tuple[str, str], int]()

    def arrives() -> None:
        """Record a published frame; called in the engine's thread."""
        readings = mailbox._frame.readings if mailbox._frame is not None else {}
        for probe, reading in readings.items():
            published.setdefault((probe, reading.step), time.perf_counter())
        arrived()

    def is_painted(name: str, began: float, probes: dict[str, int]) -> None:
        ended = time.perf_counter()
        result.drawing.append(ended - began)
        for probe, step in probes.items():
            if shown.get((name, probe)) != step and (probe, step) in published:
                shown[name, probe] = step
                result.age.setdefault(name, []).append(ended - published[probe, step])

    def draws(name: str) -> None:
        began, host = time.perf_counter(), window.viewer.window.docks.hosts[name]
        draw(name)
        if host.charts.existing_view is None:
            return
        canvas, readings = host.charts.view.chart_viewport(), host.drawn.view.readings
        probes = {probe: readings[probe].step for probe in host.spec.probes if probe in readings}
        if canvas not in hooked:
            canvas.installEventFilter(painted)
            hooked.append(canvas)
        painted.waiting.setdefault(canvas, []).append(partial(is_painted, name, began, probes))

    hooked: list[QObject] = []
    window.resume()
    mailbox._wake_viewer, display._draw_panel = arrives, draws  # type: ignore[method-assign]  # measured
    window.wait(seconds)
    mailbox._wake_viewer, display._draw_panel = arrived, draw  # type: ignore[method-assign]
    for canvas in hooked:
        canvas.removeEventFilter(painted)
    window.pause()
    return result
