"""The line at the bottom: where the run is, how fast it goes, and what the viewer itself costs."""

from __future__ import annotations

import time

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLabel, QStatusBar, QWidget

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.widgets.layouts import row

_PHASES = {
    "starting": "loading torch",
    "idle": "ready",
    "running": "running",
    "paused": "paused",
    "finished": "finished",
    "stopped": "engine stopped",
}
_LEFT = ("device", "regime", "speed", "viewer", "eta")
_RIGHT = ("phase", "step", "epoch")
_EVERY_MS = 400  # numbers that change faster cannot be read


def duration(seconds: float) -> str:
    """'0:42', '1:07:30', '3 d 4 h'."""
    whole = round(seconds)
    if whole >= 86_400:
        return f"{whole // 86_400} d {whole % 86_400 // 3600} h"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def rate(steps_per_second: float) -> str:
    """'812 steps/s', '3.4 steps/s'; below 10 one decimal place."""
    return f"{steps_per_second:,.{1 if steps_per_second < 10 else 0}f} steps/s"


def _phase(now: RunState) -> str:
    if now.inspected:
        return "not training"
    if now.recorded is not None:
        return "session" if now.recorded.file_name else f"recorded, {now.recorded.status}"
    return "diverged" if now.diverged is not None else _PHASES[now.phase]


class CoreLoad:
    """The share of one core that the calling thread has used since the last reading."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._busy = time.thread_time()
        self._share: float | None = None

    def share(self) -> float | None:
        """Over the last full second or more; None until one has passed."""
        wall, busy = time.perf_counter(), time.thread_time()
        if wall - self._wall >= 1.0:
            self._share = (busy - self._busy) / (wall - self._wall)
            self._wall, self._busy = wall, busy
        return self._share


class StatusBar(QStatusBar):
    """Shows the state of the run and the newest frame, refreshed a few times a second."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeGripEnabled(False)
        self._state = RunState()
        self._frame: Frame | None = None
        self._load = CoreLoad()
        self._said: dict[str, str] = {}
        self._left, self._right = QLabel(self), QLabel(self)
        for label in (self._left, self._right):
            label.setContentsMargins(8, 0, 8, 0)
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._left.setToolTip(
            "viewer: processor time of the window's thread, drawing included, as a share of one "
            "core of this machine"
        )
        line = QWidget(self)
        row((self._left, 1), self._right, into=line)
        self.addWidget(line, 1)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_EVERY_MS)
        self._timer.timeout.connect(self._write)
        self._write()

    def text(self, name: str) -> str:
        """What a field says: 'device', 'regime', 'speed', 'viewer', 'eta', 'phase', 'step', …"""
        return self._said.get(name, "")

    def show_state(self, state: RunState) -> None:
        before, self._state = self._state, state
        if state.run is not before.run:
            self._frame = None
        if state.phase != before.phase:
            self.catch_up()
        else:
            self._later()

    def show_frame(self, frame: Frame) -> None:
        self._frame = frame
        self._later()

    def catch_up(self) -> None:
        """Say now what would be said in a moment."""
        self._timer.stop()
        self._write()

    def _later(self) -> None:
        if not self._timer.isActive():
            self._timer.start()

    def _write(self) -> None:
        self._said = self._texts()
        for label, names in ((self._left, _LEFT), (self._right, _RIGHT)):
            text = " · ".join(self._said[name] for name in names if self._said[name])
            if label.text() != text:
                label.setText(text)
        if self._state.running:
            self._later()

    def _texts(self) -> dict[str, str]:
        now, frame = self._state, self._frame
        share = self._load.share()
        going = now.running and frame is not None
        eta = frame.eta_seconds if going and frame else None
        step = max(now.step, frame.step if frame else 0)
        return {
            "device": now.run.device if now.run else "",
            "regime": now.regime,
            "speed": rate(frame.steps_per_second) if going and frame else "",
            "viewer": f"viewer {100 * share:.0f} % of a core" if share is not None else "",
            "eta": f"ETA {duration(eta)}" if eta is not None else "",
            "phase": now.working or _phase(now),
            "step": f"step {step:,}" if now.run else "",
            "epoch": f"epoch {frame.epoch:.1f}" if frame and not now.inspected else "",
        }
