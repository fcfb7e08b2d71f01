"""A panel's controls for its readings: progress, Cancel and Resume."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QProgressBar, QToolButton, QWidget

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.panel_readings import available_readings, compared_readings
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.scene.theme import Theme
from dgn_engine.text.written_numbers import format_percent, time_left
from dgn_viewer.style.stylesheet import plain_tip, themed_icon
from dgn_viewer.widgets.layouts import PlainLabel, make_row, push_button

_SIDE = 16  # pixels; size of the small button


class RefinementBar(QWidget):
    """A thin progress bar with the time left and ✕ while a reading is being refined.

    Hidden otherwise, except for the button 'Resume' after a cancellation.
    """

    cancelled = Signal()
    resumed = Signal()

    def __init__(self, spec: PanelSpec) -> None:
        super().__init__()
        self._spec = spec
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, 1000)
        self._bar.setFixedWidth(48)
        self._bar.setAccessibleName(f"Progress ({spec.title})")
        self._left = PlainLabel(role="small")
        self._cancel = QToolButton()
        self._cancel.setObjectName("cancel_reading")
        self._cancel.setToolTip("Cancel and keep this estimate")
        self._cancel.setAccessibleName(f"Cancel computation ({spec.title})")
        self._cancel.setAutoRaise(True)
        self._cancel.setFixedSize(_SIDE, _SIDE)
        self._cancel.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._cancel.clicked.connect(self.cancelled)
        self._resume = push_button("Resume", self.resumed, "small")
        self._resume.setObjectName("resume_reading")
        self._resume.setToolTip("Continue to the exact kernel of all probe examples")
        self._resume.setAccessibleName(f"Resume computation ({spec.title})")
        make_row(self._left, self._bar, self._cancel, self._resume, into=self, spacing=4)
        self._under_way = (self._left, self._bar, self._cancel)
        self.show_view(View(), False)

    def show_view(self, view: View, picture: bool) -> None:
        """Update the bar; `picture` is False if the panel's message offers to resume."""
        ours, theirs = available_readings(self._spec, view), compared_readings(self._spec, view)
        busy = _slowest_reading(ours) or _slowest_reading(theirs)
        cancelled = any(reading.cancelled for reading in (*ours, *theirs))
        button = self.focusWidget()
        focused = button is not None and button.hasFocus()
        for part in self._under_way:
            part.setVisible(busy is not None)
        self._resume.setVisible(busy is None and picture and cancelled)
        self.setVisible(busy is not None or not self._resume.isHidden())
        if focused and button is not None and not button.isVisible():
            # Qt would focus the next button, whichever that is.
            self.window().setFocus(Qt.FocusReason.OtherFocusReason)
        if busy is not None:
            whose = "" if _slowest_reading(ours) else "B: "
            time_text = f"{time_left(busy.left)} left" if busy.left > 0.0 else ""
            self._left.setText(whose + (busy.doing or time_text))
            self._bar.setValue(round(1000 * busy.progress))
            done = f"{format_percent(busy.progress, 0)} of the next estimate computed"
            self._bar.setToolTip(plain_tip(done))

    def time_left_text(self) -> str:
        """Return the displayed time left, or ''."""
        return "" if self._left.isHidden() else self._left.text()

    def set_theme(self, theme: Theme) -> None:
        self._cancel.setIcon(themed_icon("close", theme, colour=theme.muted))


def _slowest_reading(readings: tuple[Reading, ...]) -> Reading | None:
    """Return the reading in progress with the most time left; None if there is none."""
    under_way = [reading for reading in readings if reading.progress < 1.0]
    return max(under_way, key=lambda reading: (reading.left, -reading.progress), default=None)
