"""The fields for the data on which a network from a file is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from dgn_engine.config import SETTINGS, DataConfig
from dgn_engine.config.setting import Conditions, meets_condition
from dgn_engine.protocol.catalogue import DataEntry
from dgn_engine.scene.theme import Theme
from dgn_viewer.inspector.run_form import DataSection
from dgn_viewer.widgets.form_fields import PathField, PickBox, change_signal
from dgn_viewer.widgets.layouts import make_column

TYPING = 250  # milliseconds without a change before an edit takes effect
_NORMALISED = [("none", "unchanged, in [0, 1]")] + [
    (name, f"normalised as {name}") for name in ("imagenet", "cifar10", "cifar100", "mnist")
]
_ROWS = ("name", "download", "root", "image_size")


class NetworkData(QWidget):
    """The fields of a `DataConfig`; `changed` is emitted shortly after the last edit.

    Args:
        entries: The available data sets.
        now: The data of the current run. For the same data set its other settings (a pair of
            classes, a limit) are kept; of another data set all examples are used.
        theme: The colours.
    """

    changed = Signal()

    def __init__(self, entries: Sequence[DataEntry], now: DataConfig, theme: Theme) -> None:
        super().__init__()
        self._now = now
        self.section = DataSection("", [SETTINGS["data"][name] for name in _ROWS])
        self.section.offer_entries(entries)
        known = dict(_NORMALISED)
        own = [] if now.normalise in known else [(now.normalise, f"normalised by {now.normalise}")]
        self.normalise = PickBox([*_NORMALISED, *own])
        self.section.add_field("pixels", self.normalise, "As used to train the network")
        self.section.show_values(vars(now))
        self.normalise.pick_value(now.normalise)
        self._pause = QTimer(self, singleShot=True, interval=TYPING)
        self._pause.timeout.connect(self.changed)
        make_column(self.section, into=self)
        self.setAutoFillBackground(False)
        self.section.name.currentIndexChanged.connect(self._on_data_set)
        fields = (*self.section.fields.values(), self.section.folder, self.normalise)
        for field in fields:
            change_signal(field).connect(self._pause.start)
        self._on_data_set()
        self._pause.stop()
        self.set_theme(theme)

    def read_data_config(self) -> DataConfig:
        """Return the data in the fields; raise `UserError` if a folder is missing."""
        values = self.section.values(self._meets_conditions)
        values["normalise"] = self.normalise.value()
        run_data = replace(self._now, image_channels=0)  # the engine determines the channels
        if (values["name"], values["options"]) == (run_data.name, run_data.options):
            return replace(run_data, **values)
        return DataConfig(**values)

    def set_theme(self, theme: Theme) -> None:
        for field in (*self.section.fields.values(), self.section.folder):
            if isinstance(field, PathField):
                field.set_theme(theme)

    def _on_data_set(self) -> None:
        """Update rows and options for another data set."""
        self.section.show_rows(self._meets_conditions)
        for field in self.section.options.fields.values():
            change_signal(field).connect(self._pause.start)
        self._pause.start()

    def _meets_conditions(self, conditions: Conditions) -> bool:
        entry = self.section.entry
        return all(
            meets_condition(getattr(entry, key.removeprefix("dataset."), False), expected)
            for key, expected in conditions.items()
        )
