"""The status bar: position and speed of the run, and the overhead of the viewer."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QStatusBar, QWidget

from dgn_engine.protocol.frames import Frame, Watching
from dgn_engine.protocol.run_state import RunState
from dgn_engine.text.written_numbers import (
    format_decimals,
    format_duration,
    format_percent,
    format_rate,
    time_left,
)
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.widgets.layouts import PlainLabel, make_row, push_button

_GRID = 16  # pixels: the width is a multiple of this …
_SPARE = 48  # … and shrinks if this many are unused
_PHASES = {
    "starting": "loading torch",
    "idle": "ready",
    "running": "running",
    "paused": "paused",
    "finished": "finished",
    "stopped": "engine stopped",
}
_LEFT = ("device", "graphs", "regime", "speed", "overhead", "eta")
_RIGHT = ("phase", "step", "epoch")
_SHORT = ("regime", "speed")  # left fields, if a notice is shown in a narrow bar
_WIDE = 1400  # pixels
_EDGE = 8  # pixels between a button and the edge of the window
_EVERY_MS = 400  # numbers that change faster are unreadable
_LOOK_MS = 2500  # time after the last frame until progress is checked again
# Without a step for this many seconds, and for twice the time of a step, the rate is replaced by
# 'no steps for …'; the limit is higher if a busy engine sends frames less often.
_STANDS = 4.0


class ChangingLabel(QWidget):
    """Label for text that changes all the time.

    It requests a new layout only if it needs another width; a QLabel would make the window lay out
    its docks on every change.
    """

    def __init__(self, alignment: Qt.AlignmentFlag, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = PlainLabel("", self)
        self._label.setContentsMargins(8, 0, 8, 0)
        self._label.setAlignment(alignment | Qt.AlignmentFlag.AlignVCenter)
        self._room, self._given = 0, ""

    def text(self) -> str:
        return self._label.text()

    def setText(self, text: str) -> None:
        if text == self._given:
            return
        self._given = text
        self._label.setText(text)
        self._fit_room()

    def _fit_room(self) -> None:
        wanted = self._label.sizeHint().width()
        if not wanted <= self._room <= wanted + _SPARE:
            self._room = -(-wanted // _GRID) * _GRID
            self.updateGeometry()

    def sizeHint(self) -> QSize:
        return QSize(self._room, self._label.sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._label.setGeometry(self.rect())


def _phase_text(now: RunState) -> str:
    if now.inspected_file:
        return "not training"
    if now.recorded is not None and now.recorded.is_live:
        return "live, another process"
    if now.recorded is not None:
        return "session" if now.recorded.file_name else f"recorded, {now.recorded.status}"
    return "diverged" if now.diverged is not None else _PHASES[now.phase]


def _speed_text(frame: Frame, standing: float) -> str:
    """Return steps per second, what the engine is doing instead, or how long it has stalled."""
    if frame.doing:
        return frame.doing
    return (
        f"no steps for {format_duration(round(standing))}"
        if standing
        else format_rate(frame.steps_per_second)
    )


def _overhead_text(now: Watching | None) -> str:
    """Return a text such as 'viewer overhead 4.6 %'; '–' if it is not known."""
    if now is None:
        return ""
    if now.overhead is None or not now.is_measured:
        return "viewer overhead –"
    return f"viewer overhead {_rounded_percent(now.overhead, now.noise)}"


def _rounded_percent(share: float, noise: float) -> str:
    """Return the digits that are significant: a decimal if the noise is below half a per cent."""
    return format_percent(share, 1 if noise < 0.005 else 0)


def explain_overhead(now: Watching) -> str:
    """Explain the viewer overhead, its uncertainty and its sources, one per line."""
    lines = ["Viewer overhead: share of the step rate lost to the viewer"]
    if now.overhead is None:
        lines.append(f"Not measured: {now.unmeasured}")
    elif now.is_measured:
        error = _rounded_percent(now.noise, now.noise)
        lines.append(f"Measured {_rounded_percent(now.overhead, now.noise)} ± {error}")
    else:
        lines.append(
            f"Too small to measure: the step rate itself varies by ± {format_percent(now.noise)}"
        )
    lines.append(f"Limit: {format_percent(now.share, 0)} (Settings)")
    if now.parts:
        parts = ", ".join(f"{name} {format_percent(share)}" for name, share in now.parts.items())
        lines.append(f"By CPU time: {parts}")
    lines.append(f"Panels are updated about every {format_duration(now.every)}")
    return "\n".join(lines)


class StatusBar(QStatusBar):
    """Shows the state of the run and the newest frame, a few times a second.

    `cancel_wanted`: cancel loading. `was_written`: the texts were updated; other displays of the
    step follow, so that all show the same one.
    """

    cancel_wanted = Signal()
    was_written = Signal()

    def __init__(
        self,
        parent: QWidget | None = None,
        clock: Callable[[], float] = time.monotonic,
        last_step: Callable[[], int] = lambda: 0,
    ) -> None:
        """`last_step` returns the last known step of the run, including steps known from scores."""
        super().__init__(parent)
        self._last_step = last_step
        self._step = 0  # step shown last
        self.setSizeGripEnabled(False)
        self._clock = clock
        self._state = RunState()
        self._past: int | None = None  # past step that is shown
        self._frame: Frame | None = None
        self._stepped = clock()  # time of the last known step, or of the start of training
        self._step_time = 0.0  # seconds, from the last known rate
        self._notice: QWidget | None = None
        self._quiet = False  # show only the step
        self._busy: Callable[[], bool] = lambda: False
        self._said: dict[str, str] = {}
        self._written = 0.0  # time of the last update
        self._told = ""  # current tooltip
        left, right = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
        self._left, self._right = ChangingLabel(left, self), ChangingLabel(right, self)
        self._cancel = push_button("Cancel", self._ask_cancel, "small", "Cancel loading the data")
        self._cancel.setObjectName("cancel_loading")
        self._cancel.setAccessibleName("Cancel loading the data")
        self._cancel.hide()
        line = QWidget(self)
        self._row = make_row((self._left, 1), self._right, self._cancel, into=line)
        self.addWidget(line, 1)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._write_texts)
        self._write_texts()

    def field_text(self, name: str) -> str:
        """Return a field: 'device', 'regime', 'speed', 'overhead', 'eta', 'phase', 'step', …"""
        return self._said.get(name, "")

    def end_texts(self) -> tuple[str, str]:
        """Return the texts on the left and on the right."""
        return self._left.text(), self._right.text()

    def tip_text(self) -> str:
        """Return the tooltip."""
        return self._left.toolTip()

    def add_notice_widget(self, notice: QWidget, busy: Callable[[], bool]) -> None:
        """Add a widget between left and right; `busy` returns whether it shows something.

        If so, it gets all the space between them, and a narrow bar shows only the fields that
        change.
        """
        self._notice, self._busy = notice, busy
        self._row.insertWidget(1, notice)
        self.share_room()

    def share_room(self) -> None:
        """Redistribute the space after a notice or the width has changed."""
        busy = self._notice is not None and self._busy()
        self._row.setStretch(0, 0 if busy else 1)
        self._row.setStretch(1, 1 if busy else 0)
        self._write_texts()

    def set_quiet(self, quiet: bool) -> None:
        """Show only the step, besides notices."""
        self._quiet = quiet
        self._write_texts()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.share_room()

    def show_state(self, state: RunState, past: int | None = None) -> None:
        """Show this state; `past`: the past step that is shown (None: live)."""
        previous, self._state = self._state, state
        is_other = (past is None, state.regime) != (self._past is None, previous.regime)
        self._past = past
        self._offer_cancel(bool(state.working) and state.can_cancel)
        if state.run is not previous.run:
            self._frame, self._step_time = None, 0.0
        if state.is_running and not previous.is_running:
            self._stepped = self._clock()
        if state.phase != previous.phase or is_other:
            self.write_now()
        else:
            self._write_later()

    def show_frame(self, frame: Frame) -> None:
        if self._frame is None or frame.step != self._frame.step:
            self._stepped = self._clock()
        if frame.steps_per_second > 0.0:
            self._step_time = 1.0 / frame.steps_per_second
        self._frame = frame
        if self._clock() - self._written >= 0.9 * _EVERY_MS / 1000:
            self.write_now()  # without a timer, which would wake this thread again
        else:
            self._write_later()

    def ensure_step_shown(self, step: int) -> None:
        """Make sure the step shown is not behind a panel that has just been drawn."""
        if step > self._step:
            self.write_now()

    def write_now(self) -> None:
        """Update now instead of in a moment."""
        self._timer.stop()
        self._write_texts()

    def _ask_cancel(self) -> None:
        """Request to cancel, and show so at once: loading may take seconds to stop."""
        self._cancel.setText("Cancelling…")
        self._cancel.setEnabled(False)
        self.cancel_wanted.emit()

    def _offer_cancel(self, possible: bool) -> None:
        if possible == self._cancel.isVisibleTo(self):
            return
        self._cancel.setText("Cancel")
        self._cancel.setEnabled(True)
        self._cancel.setVisible(possible)
        self._row.setContentsMargins(0, 0, _EDGE if possible else 0, 0)

    def _make_tip(self) -> str:
        """Return the tooltip: why steps are not captured, and the viewer overhead."""
        dropped = self._state.not_captured
        parts = (dropped.sentence if dropped is not None else "", self._overhead_tip())
        return "\n".join(filter(None, parts))

    def _overhead_tip(self) -> str:
        is_training = self._state.is_running and self._frame is not None
        watching = self._frame.watching if is_training and self._frame else None
        return "" if watching is None else explain_overhead(watching)

    @property
    def _slowdown(self) -> float:
        """Factor by which the engine sends frames less often than usual."""
        watching = self._frame.watching if self._frame is not None else None
        return watching.slowed if watching is not None else 1.0

    def _write_later(self) -> None:
        if not self._timer.isActive() or self._timer.remainingTime() > _EVERY_MS:
            self._timer.start(_EVERY_MS)

    def _write_texts(self) -> None:
        self._said, self._written = self._field_texts(), self._clock()
        short = self._notice is not None and self._busy() and self.width() < _WIDE
        shown: tuple[tuple[str, ...], tuple[str, ...]] = (_SHORT if short else _LEFT, _RIGHT)
        if self._quiet:
            shown = (), ("step",)
        for label, names in zip((self._left, self._right), shown, strict=True):
            text = " · ".join(self._said[name] for name in names if self._said[name])
            label.setText(text)
        tip_text = self._make_tip()
        if self._told != tip_text:
            self._told = tip_text
            self._left.setToolTip(plain_tip(tip_text))
        if self._state.is_running:
            self._timer.start(_LOOK_MS)
        self.was_written.emit()

    def _field_texts(self) -> dict[str, str]:
        now, frame = self._state, self._frame
        is_training = now.is_running and frame is not None
        stall = self._clock() - self._stepped
        is_stalled = stall > max(_STANDS * self._slowdown, 2.0 * self._step_time)
        eta = frame.eta_seconds if is_training and frame and not is_stalled else None
        step = self._step = max(now.step, frame.step if frame else 0, self._last_step())
        step_text, epoch = f"step {step:,}", 0.0
        if frame is not None:  # the frame may be older than `step`
            steps_since = step - frame.step
            epoch = frame.epoch + (
                steps_since / max(now.run.steps_per_epoch, 1) if now.run else 0.0
            )
        if self._past is not None and now.run is not None:
            step_text = f"step {self._past:,} of {step:,}"
            epoch = self._past / max(now.run.steps_per_epoch, 1)
        return {
            "device": now.run.device if now.run else "",
            "graphs": "no CUDA graphs" if now.not_captured is not None else "",
            "regime": now.regime,
            "speed": _speed_text(frame, stall if is_stalled else 0.0)
            if is_training and frame
            else "",
            "overhead": _overhead_text(frame.watching) if is_training and frame else "",
            "eta": f"ETA {time_left(eta)}" if eta is not None else "",
            "phase": "not answering" if now.silent else now.working or _phase_text(now),
            "step": step_text if now.run else "",
            "epoch": f"epoch {format_decimals(epoch, 1)}" if frame and now.has_epochs else "",
        }
