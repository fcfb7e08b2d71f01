"""A panel's controls for its readings: progress, Cancel and Resume, number of probe examples."""

from __future__ import annotations

import math

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QProgressBar, QToolButton, QWidget

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.panel_readings import available_readings, compared_readings
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.scene.theme import Theme
from dgn_engine.text.written_numbers import format_percent, time_left
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import plain_tip, themed_icon
from dgn_viewer.widgets.elided_box import ElidedBox
from dgn_viewer.widgets.layouts import PlainLabel, make_row, push_button

_FEWEST, _MOST = 8, 4096  # range of the offered numbers of probe examples
_ROOM = 1 << 28  # maximum number of gates of all examples: 1 GiB at 4 bytes each
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
            self._left.setText(whose + time_text)
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


class ProbeExamplesDial(ElidedBox):
    """A combo box for the number of probe examples, shared by all kernel panels of the run."""

    LEAST = 64  # pixels; enough for the number alone
    chosen = Signal(int)

    def __init__(self, spec: PanelSpec) -> None:
        super().__init__("Probe examples, shared by all panels; fewer is faster")
        self.setObjectName("probe_examples")
        self.setAccessibleName(f"{spec.title}: number of probe examples")
        self.setMaxVisibleItems(16)
        self.setVisible(False)
        self._offered = bool(spec.probes)
        self.activated.connect(lambda _: self.chosen.emit(int(self.currentData())))

    def shown_text(self) -> str:
        """Return the text, or the number alone if that does not fit: a number is never cut."""
        full_text = self.currentText()
        fits = super().shown_text() == full_text
        return full_text if fits else full_text.partition(" ")[0]

    def show_view(self, view: View) -> None:
        """Update the offered numbers to the run's data, except while the list is open."""
        current = view.probe_examples
        self.setVisible(self._offered and current > 0)
        if self.view().isVisible() or view.run is None or not current:
            return
        gates = sum(math.prod(layer.shape) for layer in view.run.layers)
        max_examples = _ROOM // max(gates, 1)
        offered = offered_examples(current, min(view.run.train_examples, max_examples))
        if offered != tuple(self.itemData(index) for index in range(self.count())):
            self.clear()
            for count in offered:
                self.addItem(with_chosen_numbers(f"{count:,} examples"), count)
        self.setCurrentIndex(self.findData(current))


def offered_examples(now: int, there_are: int) -> tuple[int, ...]:
    """Return 8, 16, 32, … up to the available number of examples, and the current number."""
    maximum = min(_MOST, max(there_are, _FEWEST))
    doubled = {_FEWEST << power for power in range(20) if _FEWEST << power <= maximum}
    return tuple(sorted(doubled | {now}))
