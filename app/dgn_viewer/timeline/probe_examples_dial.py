"""The number of probe examples, chosen once for all panels."""

from __future__ import annotations

import math

from PySide6.QtCore import Signal

from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.views.past_view import BACK_TO_LIVE
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.widgets.elided_box import ElidedBox

_FEWEST, _MOST = 8, 4096  # range of the offered numbers of probe examples
_ABOUT = "Probe examples, shared by all panels; fewer is faster"
_ROOM = 1 << 28  # maximum number of gates of all examples: 1 GiB at 4 bytes each


class ProbeExamplesDial(ElidedBox):
    """A combo box for the number of probe examples, shared by all panels of the run."""

    LEAST = 64  # pixels; enough for the number alone
    chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__(_ABOUT)
        self._past = False
        self.setObjectName("probe_examples")
        self.setAccessibleName("Number of probe examples")
        self.setMaxVisibleItems(16)
        self.setVisible(False)
        self.activated.connect(lambda _: self.chosen.emit(int(self.currentData())))

    def shown_text(self) -> str:
        """Return the text, or the number alone if that does not fit: a number is never cut."""
        full_text = self.currentText()
        fits = super().shown_text() == full_text
        return full_text if fits else full_text.partition(" ")[0]

    def on_event(self, _event: Event, state: RunState) -> None:
        self.show_state(state, self._past)

    def show_state(self, state: RunState, past: bool) -> None:
        """Offer the numbers that the run's data allow, except while the list is open.

        Hidden for a recorded run, whose examples cannot be chosen; disabled at a past step.
        """
        current = 0 if state.recorded is not None else state.probe_examples
        self._past = past
        self.setVisible(current > 0)
        self.setEnabled(not past)
        self.set_about(BACK_TO_LIVE if past else _ABOUT)
        if self.view().isVisible() or state.run is None or not current:
            return
        gates = sum(math.prod(layer.shape) for layer in state.run.layers)
        max_examples = _ROOM // max(gates, 1)
        offered = offered_examples(current, min(state.run.train_examples, max_examples))
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
