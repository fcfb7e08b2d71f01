"""Screenshots of the real program without a display: train to step N, draw all panels, save."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import QBuffer, QEventLoop, QIODevice

from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event, Failed, Refused, Stopped
from dgn_engine.protocol.training import Advance, Diverged, Finished, Paused
from dgn_engine.scene.elements import Array, Scene, finite_range
from dgn_engine.storage.atomic_write import require_replaceable, write_file
from dgn_engine.text.printable import print_error, print_line, print_lines
from dgn_engine.text.written_numbers import format_duration
from dgn_viewer.application import Options, Viewer, build_viewer, exit_now
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.interruption import call_on_interrupt
from dgn_viewer.window import DEFAULT_SIZE

SILENCE = 120.0  # seconds without a message from the engine until it is given up
INTERRUPTED = 130


@dataclass(frozen=True)
class ScreenshotOptions:
    """Number of steps, and the path of the picture; the facts are saved next to it as .json."""

    steps: int
    picture: Path

    @property
    def facts_path(self) -> Path:
        """Path of the facts: F.json next to F.png."""
        return self.picture.with_suffix(".json")


def take_screenshot(options: Options, shot: ScreenshotOptions) -> int:
    """Train, save the screenshot, and return the exit code.

    Raises:
        UserError: The engine refused, or a file cannot be written.
    """
    _check_writable(shot)
    training = dataclasses.replace(options.config.training, pace=0.0)
    config = dataclasses.replace(options.config, training=training)
    with tempfile.TemporaryDirectory() as folder:  # do not use the user's settings
        own = dataclasses.replace(
            options,
            config=config,
            paused=True,
            theme=options.theme or "light",
            size=options.size or (DEFAULT_SIZE.width(), DEFAULT_SIZE.height()),
            settings=Path(folder) / "settings.ini",
        )
        viewer = build_viewer(own)
        try:
            code = Screenshot(viewer, shot).run()
        finally:
            ended = viewer.close()
    if not ended:
        exit_now(code)
    return code


class Screenshot:
    """Waits for the step and for all visible panels, then saves."""

    def __init__(self, viewer: Viewer, shot: ScreenshotOptions) -> None:
        self._viewer = viewer
        self._shot = shot
        self._heard = time.monotonic()
        self._arrived = False
        self._trouble = ""
        self._interrupted = False
        viewer.window.event_taken.connect(self._on_event)
        viewer.pump.frame_arrived.connect(self._on_frame)

    def run(self) -> int:
        """Return 0, or 130 after Ctrl-C.

        Raises:
            UserError: Something went wrong.
        """
        with call_on_interrupt(self._on_interrupt):
            self._viewer.start()
            self._viewer.pump.send(Advance(self._shot.steps))
            self._wait_until(lambda: self._arrived and self._is_complete())
        if self._interrupted:
            print_error("dgn-viewer: interrupted; nothing was written.")
            return INTERRUPTED
        self._save_files()
        picture, facts = self._shot.picture, self._shot.facts_path
        print_line(f"{picture}: step {self._viewer.window.history.step:,}, facts in {facts.name}")
        return 0

    def _wait_until(self, done: Callable[[], bool]) -> None:
        flags = QEventLoop.ProcessEventsFlag.WaitForMoreEvents
        while not (self._interrupted or done()):
            self._viewer.application.processEvents(flags)
            if self._trouble:
                raise UserError(self._trouble)
            if time.monotonic() - self._heard > SILENCE:
                raise UserError(
                    f"The engine has not responded for {format_duration(SILENCE)}; giving up."
                )

    def _on_interrupt(self) -> None:
        self._interrupted = True

    def _on_frame(self, _frame: object) -> None:
        self._heard = time.monotonic()

    def _on_event(self, event: Event) -> None:
        self._heard = time.monotonic()
        match event:
            case Paused(step=step) | Finished(step=step) | Diverged(step=step):
                self._arrived = self._arrived or step > 0
            case Refused(what=what, reason=reason):
                self._trouble = f"Cannot {what}: {reason}"
            case Failed(what=what, traceback=traceback):
                print_lines(traceback, stream=sys.stderr)
                self._trouble = what
            case Stopped():
                self._trouble = "The engine stopped before the screenshot was taken."

    def _is_complete(self) -> bool:
        """Return whether all visible panels have drawn complete readings of the last step."""
        window = self._viewer.window
        step, readings = window.history.step, window.history.readings
        hosts = [window.docks.hosts[name] for name in window.docks.visible_panels()]
        wanted = {request.probe for host in hosts for request in host.drawn.probe_requests()}
        current = [readings[probe] for probe in wanted if probe in readings]
        complete = all(reading.step == step and not reading.pending for reading in current)
        complete = complete and len(current) == len(wanted)
        return complete and not window.display.stale_panels()

    def _save_files(self) -> None:
        window = self._viewer.window
        window.display.draw_now()
        window.run_views.status.write_now()
        self._viewer.application.processEvents()
        facts = {
            "step": window.history.step,
            "regime": window.run_state.regime,
            "panels": {
                n: describe_panel(window.docks.hosts[n]) for n in window.docks.visible_panels()
            },
        }
        try:
            picture = QBuffer()
            picture.open(QIODevice.OpenModeFlag.WriteOnly)
            if not window.grab().save(picture, "PNG"):
                raise OSError("the screenshot could not be encoded")
            write_file(self._shot.picture, bytes(picture.data().data()))
            write_file(self._shot.facts_path, (json.dumps(facts, indent=2) + "\n").encode())
        except OSError as error:
            raise _not_writable(self._shot.picture, error) from None


def describe_panel(host: PanelDock) -> dict[str, Any]:
    """Return the state of a panel, its step, and shape and range of all it draws."""
    shown = host.shown_content()
    description: dict[str, Any] = {"title": host.spec.title, "state": host.panel_state()}
    if isinstance(shown, Scene):
        drawn: dict[str, Any] = {}
        for chart in shown.charts:
            for curve in chart.curves:
                drawn[f"{chart.key}/{curve.name}"] = describe_array(curve.y)
            if chart.matrix is not None:
                drawn[f"{chart.key}/{chart.matrix.name}"] = describe_array(chart.matrix.values)
        description |= {"step": shown.step, "drawn": drawn}
    elif shown is not None:
        description["reason"] = shown.reason
    return description


def describe_array(values: Array) -> dict[str, Any]:
    """Return shape and range, and whether all values are finite, or all equal."""
    array = np.asarray(values, dtype=np.float64)
    low, high = finite_range(array)
    return {
        "shape": list(array.shape),
        "min": low,
        "max": high,
        "finite": bool(array.size > 0 and np.isfinite(array).all()),
        "constant": bool(array.size == 0 or low == high),
    }


def _check_writable(shot: ScreenshotOptions) -> None:
    """Check before minutes of training that both files can be written."""
    if shot.picture.suffix.lower() != ".png":
        raise UserError(f"{shot.picture} is not a .png file; screenshots are saved as PNG.")
    for path in (shot.picture, shot.facts_path):
        try:
            require_replaceable(path)
            existed = path.exists()
            with path.open("ab"):
                pass
            if not existed:
                path.unlink()
        except OSError as error:
            raise _not_writable(path, error) from None


def _not_writable(path: Path, error: OSError) -> UserError:
    return UserError(f"Cannot write {path}: {error.strerror or error}. Choose another folder.")
