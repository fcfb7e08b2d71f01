"""The storage settings: the disk space of one recorded run, and of all runs together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.runs.folder_layout import LIMITS
from dgn_engine.storage.runs.storage_limits import (
    SMALLEST_RUN,
    StorageLimits,
    effective_limits,
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
_MOST = 1 << 30  # MiB, that is 1 PiB
_USUAL = StorageLimits()


class StorageSection(Section):
    """The storage limits, written to `limits.toml` immediately, for `dgn` and the window.

    `changed` is called after each change. If a value is refused, the reason is shown and the fields
    return to the limits in force.
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
        self._show_limits()
        self.run.valueChanged.connect(
            lambda mebibytes: self._save_limits(run=round(mebibytes) * _MIB)
        )
        self.all.chosen.connect(lambda gibibytes: self._save_limits(all=round(gibibytes * _GIB)))

    def _show_limits(self) -> None:
        try:
            limits = read_limits(self._root)
        except UserError as refusal:
            limits = _USUAL
            self.message.show_message(str(refusal), "refused")
        self.run.blockSignals(True)
        self.run.setValue(round(limits.run / _MIB))
        self.run.blockSignals(False)
        self.all.show_value(limits.all / _GIB)

    def _save_limits(self, **chosen: int) -> None:
        try:
            write_limits(self._root, replace(effective_limits(self._root), **chosen))
        except UserError as refusal:
            self._show_limits()
            self.message.show_refusal(f"Nothing was changed: {refusal}")
        else:
            self.message.show_message("")
            self._changed()

    def _lay_out(self) -> None:
        run, everything = binary_size_in_words(_USUAL.run), binary_size_in_words(_USUAL.all)
        self.add_field(
            "one run, at most",
            self.run,
            f"Maximum size of a run's folder, by default {run}. Beyond it, old frames and "
            "checkpoints saved before changes are thinned out: a notice tells you, the log has "
            "details",
        )
        self.add_field(
            "all runs, at most",
            self.all,
            f"Maximum size of all runs, by default {everything}. Beyond it, a notice offers to "
            "thin out the oldest: nothing is removed without asking",
        )
        about = (
            f"Defaults: {run} and {everything}. A run at its limit is thinned out by age, with a "
            "notice. All runs together are thinned out only if you agree. Logs, scores, newest "
            f"checkpoints and weights always stay. Saved in {LIMITS} in the runs folder."
        )
        self._column.addWidget(plain_label(about, "muted"))
        self._column.addWidget(self.message)
