"""Drives the real viewer for a picture: trains, gives commands, waits until all is drawn."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from PIL import Image
from PySide6.QtCore import QEventLoop
from PySide6.QtWidgets import QWidget

from dgn_engine.config import RunConfig
from dgn_engine.protocol.messages import Command, Event, Failed, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Advance, StartRun
from dgn_viewer.application import Viewer
from dgn_viewer.window import Window

PATIENCE = 600.0  # seconds for one fact, on a busy machine
SHARP = 60.0  # seconds after which an estimate is picture enough
E_ = TypeVar("E_", bound=Event)


class Photographer:
    """Everything that a user could do, and `save`. Trouble ends it with the engine's sentence."""

    def __init__(self, viewer: Viewer, folder: Path) -> None:
        self.viewer = viewer
        self.folder = folder
        self.of: QWidget = viewer.window  # what the picture shows
        self.live = True  # False: an earlier step is shown, and nothing of the newest is waited for
        self._trouble = ""
        viewer.window.event_taken.connect(self._on_event)

    @property
    def window(self) -> Window:
        return self.viewer.window

    def hear(self, kind: type[E_], do: Callable[[E_], None]) -> None:
        """Call `do` with each event of this kind from now on."""

        def on_event(event: Event, _state: RunState) -> None:
            if isinstance(event, kind):
                do(event)

        self.window.event_taken.connect(on_event)

    def send(self, command: Command) -> None:
        self.viewer.pump.send(command)

    def trigger(self, action: str) -> None:
        self.wait(
            lambda: action in self.window.registry and self.window.registry[action].isEnabled()
        )
        self.window.registry[action].trigger()

    def train(self, steps: int) -> None:
        """Train so many steps, as fast as it goes, and wait for them."""
        self.wait(lambda: self.window.run_state.has_run)
        end = self.window.history.step + steps
        self.send(Advance(steps))
        self.wait(lambda: self.window.history.step >= end and not self.window.run_state.is_running)

    def begin(self, config: RunConfig) -> None:
        """Begin another run, paused."""
        before = self.window.run_state.run
        self.send(StartRun(config, paused=True))
        self.wait(lambda: self.window.run_state.run is not before)

    def linger(self, seconds: float) -> None:
        """Let the window live so long: for what tells nobody that it is there."""
        end = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() > end)

    def wait(self, done: Callable[[], bool]) -> None:
        """Let the window live until this is so."""
        limit = time.monotonic() + PATIENCE
        while not done():
            self.viewer.application.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 20)
            if self._trouble:
                raise RuntimeError(self._trouble)
            if time.monotonic() > limit:
                raise RuntimeError(f"waited {PATIENCE:.0f} s in vain")
            time.sleep(0.002)

    def save(self, picture: Path) -> None:
        """Wait until each panel in sight shows all that there is to show, and take the picture."""
        limit = time.monotonic() + SHARP
        self.wait(lambda: not self.live or self._complete(sharp=time.monotonic() < limit))
        window = self.window
        window.display.draw_now()
        window.run_views.status.write_now()
        self.viewer.application.processEvents()
        if not self.of.grab().save(str(picture), "PNG"):
            raise RuntimeError(f"cannot write {picture}")
        _shrink(picture)

    def settle(self, seconds: float, sharp: bool = False) -> None:
        """Wait until each panel in sight shows the newest step, or until `seconds` have passed.

        Args:
            seconds: The longest wait.
            sharp: Whether an estimate that is still being improved counts as not there yet.
        """
        limit = time.monotonic() + seconds
        self.wait(lambda: self._complete(sharp) or time.monotonic() > limit)

    def _complete(self, sharp: bool) -> bool:
        window = self.window
        step, readings = window.history.step, window.history.readings
        hosts = [window.docks.hosts[name] for name in window.docks.visible_panels()]
        wanted = {request.probe for host in hosts for request in host.drawn.probe_requests()}
        found = [readings[probe] for probe in wanted if probe in readings]
        there = len(found) == len(wanted) and all(
            one.step == step and not one.pending and not (sharp and one.progress < 1.0)
            for one in found
        )
        return there and not window.display.stale_panels()

    def _on_event(self, event: Event, _state: RunState) -> None:
        match event:
            case Refused(what=what, reason=reason):
                self._trouble = f"Cannot {what}: {reason}"
            case Failed(what=what, traceback=traceback):
                self._trouble = f"{what}\n{traceback}"


def _shrink(picture: Path) -> None:
    """Rewrite a PNG with a palette of 256 colours, which halves it."""
    with Image.open(picture) as image:
        drawn = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    drawn.save(picture, "PNG", optimize=True)
