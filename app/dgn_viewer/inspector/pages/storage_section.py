"""The settings of storage: what one recorded run may take on disk, and all of them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.runs.folder_layout import LIMITS
from dgn_engine.storage.runs.storage_limits import (
    SMALLEST_RUN,
    StorageLimits,
    limits_that_hold,
    read_limits,
    write_limits,
)
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import plain_label
from dgn_viewer.widgets.message_line import MessageLine
from dgn_viewer.widgets.number_field import NumberField

_MIB, _GIB = 1 << 20, 1 << 30
_MOST = 1 << 30  # MiB of one run: a PiB
_USUAL = StorageLimits()


class StorageSection(Section):
    """What is changed is written to `limits.toml` at once, for `dgn` and the window alike.

    `changed` is called after it was; what was refused is said below the fields, which then show
    what holds.
    """

    def __init__(self, root: Path, changed: Callable[[], None]) -> None:
        super().__init__("Recorded runs")
        self._root = root
        self._changed = changed
        self.run = IntegerField(SMALLEST_RUN // _MIB, _MOST, unit="MiB")
        self.run.setSingleStep(64)
        self.run.setKeyboardTracking(False)
        self.all = NumberField(SMALLEST_RUN / _GIB, _MOST, unit="GiB")
        self.message = MessageLine()
        self._lay_out()
        self._show()
        self.run.valueChanged.connect(lambda mebibytes: self._keep(run=round(mebibytes) * _MIB))
        self.all.chosen.connect(lambda gibibytes: self._keep(all=round(gibibytes * _GIB)))

    def _show(self) -> None:
        try:
            limits = read_limits(self._root)
        except UserError as refusal:
            limits = _USUAL
            self.message.say(str(refusal), "refused")
        self.run.blockSignals(True)
        self.run.setValue(round(limits.run / _MIB))
        self.run.blockSignals(False)
        self.all.show_value(limits.all / _GIB)

    def _keep(self, **chosen: int) -> None:
        try:
            write_limits(self._root, replace(limits_that_hold(self._root), **chosen))
        except UserError as refusal:
            self._show()
            self.message.refuse(f"Nothing was changed: {refusal}")
        else:
            self.message.say("")
            self._changed()

    def _lay_out(self) -> None:
        run, everything = binary_size_in_words(_USUAL.run), binary_size_in_words(_USUAL.all)
        self.add(
            "one run, at most",
            self.run,
            f"Of the folder of one run; usually {run}. Frames, and checkpoints before changes, "
            "then thin out by age: the log says what went, and a notice when it begins",
        )
        self.add(
            "all runs, at most",
            self.all,
            f"Of all runs together; usually {everything}. Above it a notice offers to thin out the "
            "oldest: nothing of them goes by itself",
        )
        about = (
            f"Usually {run} and {everything}. A run at its limit thins out by age and says so. All "
            "runs together are thinned out only when you say so. Logs, scores, newest checkpoints "
            f"and weights always stay. Kept in {LIMITS} in the folder of runs."
        )
        self._column.addWidget(plain_label(about, "muted"))
        self._column.addWidget(self.message)
