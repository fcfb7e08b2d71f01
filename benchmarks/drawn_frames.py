"""How long drawings take in the window, and how old a reading is when it is on the screen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from benchmarks.watched_runs import InWindow
from dgn_engine.session.thread_session import ThreadSession


@dataclass
class DrawnFrames:
    """`drawing`: wall seconds from the call of a panel until it is painted, of one panel, in which
    the window answers nothing else. `age`: from the moment at which the engine has put up a
    reading until it is painted. Both while the run trains at full speed."""

    drawing: list[float] = field(default_factory=list)
    age: list[float] = field(default_factory=list)

    def quantiles(self) -> dict[str, float]:
        """In milliseconds."""
        found = {"drawings": float(len(self.drawing))}
        for name, seconds in (("time to draw", self.drawing), ("snapshot to pixels", self.age)):
            for percent in (50, 95, 99) if seconds else ():
                found[f"{name}, p{percent}"] = 1e3 * float(np.percentile(seconds, percent))
        return found


def drawn_frames(window: InWindow, seconds: float) -> DrawnFrames:
    """Watch the window draw for so long; its engine is a thread."""
    found, published = DrawnFrames(), dict[tuple[str, int], float]()
    engine, display = window.viewer.engine, window.viewer.window.display
    assert isinstance(engine, ThreadSession)
    mailbox, draw = engine._mailbox, display._draw
    arrived = mailbox._arrived
    shown = dict[str, int]()

    def arrives() -> None:
        """In the engine's thread, when a frame is put up."""
        readings = mailbox._frame.readings if mailbox._frame is not None else {}
        for probe, reading in readings.items():
            published.setdefault((probe, reading.step), time.perf_counter())
        arrived()

    def draws(name: str) -> None:
        began, host = time.perf_counter(), window.viewer.window.docks.hosts[name]
        draw(name)
        if host.charts.made is not None:
            host.scene_view().canvas().repaint()  # now, not with the next turn of the loop
        ended = time.perf_counter()
        found.drawing.append(ended - began)
        for probe in host.spec.probes:
            reading = host.view().readings.get(probe)
            if reading is None or shown.get(name + probe) == reading.step:
                continue
            shown[name + probe] = reading.step
            if (probe, reading.step) in published:
                found.age.append(ended - published[probe, reading.step])

    window.resume()
    mailbox._arrived, display._draw = arrives, draws  # type: ignore[method-assign]  # measured
    window.wait(seconds)
    mailbox._arrived, display._draw = arrived, draw  # type: ignore[method-assign]
    window.pause()
    return found
