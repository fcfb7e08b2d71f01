"""The data on which a file is opened as a network: any set of the catalogue, its path and size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from dgn_engine.config import SETTINGS, DataConfig
from dgn_engine.config.setting import Conditions, meets
from dgn_engine.protocol.catalogue import DataEntry
from dgn_engine.scene.theme import Theme
from dgn_viewer.inspector.run_form import DataSection
from dgn_viewer.widgets.form_fields import PathField, PickBox, changes_of
from dgn_viewer.widgets.layouts import column

TYPING = 250  # milliseconds without a change after which what was typed is taken
_NORMALISED = [("none", "as they are, in [0, 1]")] + [
    (name, f"normalised as {name}") for name in ("imagenet", "cifar10", "cifar100", "mnist")
]
_ROWS = ("name", "download", "root", "image_size")


class NetworkData(QWidget):
    """Fields of a `DataConfig`. `changed`: other data are filled in, and nothing was for a moment.

    `now`: the data of the current run. While its data set is chosen the rest of it counts too
    (a pair of classes, a limit); of another one all examples do.
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
        self.section.add("pixels", self.normalise, "As those that the network was trained on")
        self.section.show_values(vars(now))
        self.normalise.pick(now.normalise)
        self._pause = QTimer(self, singleShot=True, interval=TYPING)
        self._pause.timeout.connect(self.changed)
        column(self.section, into=self)
        self.setAutoFillBackground(False)
        self.section.name.currentIndexChanged.connect(self._on_data_set)
        fields = (*self.section.fields.values(), self.section.folder, self.normalise)
        for field in fields:
            changes_of(field).connect(self._pause.start)
        self._on_data_set()
        self._pause.stop()
        self.set_theme(theme)

    def config(self) -> DataConfig:
        """What is filled in; raises `UserError` where no folder is named."""
        values = self.section.values(self._holds)
        values["normalise"] = self.normalise.value()
        now = replace(self._now, image_channels=0)  # the engine says which the network takes
        if (values["name"], values["options"]) == (now.name, now.options):
            return replace(now, **values)
        return DataConfig(**values)

    def set_theme(self, theme: Theme) -> None:
        for field in (*self.section.fields.values(), self.section.folder):
            if isinstance(field, PathField):
                field.set_theme(theme)

    def _on_data_set(self) -> None:
        """Another data set has other rows and options."""
        self.section.show_rows(self._holds)
        for field in self.section.options.fields.values():
            changes_of(field).connect(self._pause.start)
        self._pause.start()

    def _holds(self, conditions: Conditions) -> bool:
        entry = self.section.entry
        return all(
            meets(getattr(entry, place.removeprefix("dataset."), False), wanted)
            for place, wanted in conditions.items()
        )
