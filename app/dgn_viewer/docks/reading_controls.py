"""What a panel offers for its readings: how far a better one is, Cancel, and the probe examples."""

from __future__ import annotations

import math

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QProgressBar, QToolButton, QWidget

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.panel_readings import compared_readings, readings_of
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.scene.theme import Theme
from dgn_engine.text.written_numbers import percent, time_left
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import icon, plain_tip
from dgn_viewer.widgets.elided_box import ElidedBox
from dgn_viewer.widgets.layouts import PlainLabel, push_button, row

_FEWEST, _MOST = 8, 4096  # probe examples that are offered
_ROOM = 1 << 28  # … as long as they have fewer gates, of four bytes each, than this
_SIDE = 16  # pixels of the small button


class RefinementBar(QWidget):
    """A thin bar with the time left and ✕, while a better reading is being made; then nothing, or
    'Go on' where that was cancelled.
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
        self._bar.setAccessibleName(f"Progress of the reading ({spec.title})")
        self._left = PlainLabel(role="small")
        self._cancel = QToolButton()
        self._cancel.setObjectName("cancel_reading")
        self._cancel.setToolTip("Cancel: the picture stays as it is")
        self._cancel.setAccessibleName(f"Cancel the reading ({spec.title})")
        self._cancel.setAutoRaise(True)
        self._cancel.setFixedSize(_SIDE, _SIDE)
        self._cancel.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._cancel.clicked.connect(self.cancelled)
        self._resume = push_button("Go on", self.resumed, "small")
        self._resume.setObjectName("resume_reading")
        self._resume.setToolTip("Read on, up to the exact kernel of all probe examples")
        self._resume.setAccessibleName(f"Go on with the reading ({spec.title})")
        row(self._left, self._bar, self._cancel, self._resume, into=self, spacing=4)
        self._under_way = (self._left, self._bar, self._cancel)
        self.show_view(View(), False)

    def show_view(self, view: View, picture: bool) -> None:
        """`picture`: else the panel's message has the button to go on."""
        ours, theirs = readings_of(self._spec, view), compared_readings(self._spec, view)
        busy = _slowest(ours) or _slowest(theirs)
        cancelled = any(reading.cancelled for reading in (*ours, *theirs))
        button = self.focusWidget()
        focused = button is not None and button.hasFocus()
        for part in self._under_way:
            part.setVisible(busy is not None)
        self._resume.setVisible(busy is None and picture and cancelled)
        self.setVisible(busy is not None or not self._resume.isHidden())
        if focused and button is not None and not button.isVisible():
            self.window().setFocus(Qt.FocusReason.OtherFocusReason)  # not whatever button is next
        if busy is not None:
            whose = "" if _slowest(ours) else "B: "
            left = f"{time_left(busy.left)} left" if busy.left > 0.0 else ""
            self._left.setText(whose + left)
            self._bar.setValue(round(1000 * busy.progress))
            done = f"{percent(busy.progress, 0)} of a better reading is done"
            self._bar.setToolTip(plain_tip(done))

    def words(self) -> str:
        """What it says of the time that is left."""
        return "" if self._left.isHidden() else self._left.text()

    def set_theme(self, theme: Theme) -> None:
        self._cancel.setIcon(icon("close", theme, colour=theme.muted))


def _slowest(readings: tuple[Reading, ...]) -> Reading | None:
    """Of those that are under way the one that takes longest; None where none is."""
    under_way = [reading for reading in readings if reading.progress < 1.0]
    return max(under_way, key=lambda reading: (reading.left, -reading.progress), default=None)


class ProbeExamplesDial(ElidedBox):
    """'64 examples': how many probe examples the kernel panels of this run share."""

    LEAST = 64  # its number alone
    chosen = Signal(int)

    def __init__(self, spec: PanelSpec) -> None:
        super().__init__("Probe examples, shared by all panels; fewer are quicker")
        self.setObjectName("probe_examples")
        self.setAccessibleName(f"{spec.title}: number of probe examples")
        self.setMaxVisibleItems(16)
        self.setVisible(False)
        self._offered = bool(spec.probes)
        self.activated.connect(lambda _: self.chosen.emit(int(self.currentData())))

    def shown_text(self) -> str:
        """The number alone where there is no room for more: no part of it is cut."""
        whole = self.currentText()
        room = super().shown_text() == whole
        return whole if room else whole.partition(" ")[0]

    def show_view(self, view: View) -> None:
        """Offer what the data has; an open list is left in peace."""
        now = view.probe_examples
        self.setVisible(self._offered and now > 0)
        if self.view().isVisible() or view.run is None or not now:
            return
        gates = sum(math.prod(layer.shape) for layer in view.run.layers)
        room = _ROOM // max(gates, 1)
        wanted = offered_examples(now, min(view.run.train_examples, room))
        if wanted != tuple(self.itemData(place) for place in range(self.count())):
            self.clear()
            for count in wanted:
                self.addItem(with_chosen_numbers(f"{count:,} examples"), count)
        self.setCurrentIndex(self.findData(now))


def offered_examples(now: int, there_are: int) -> tuple[int, ...]:
    """8, 16, 32, … up to as many as there are, and the number that is in force."""
    most = min(_MOST, max(there_are, _FEWEST))
    doubled = {_FEWEST << place for place in range(20) if _FEWEST << place <= most}
    return tuple(sorted(doubled | {now}))
