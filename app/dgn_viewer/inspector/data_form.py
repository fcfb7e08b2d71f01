"""The rows of a run's form that say which examples."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QLabel

from dgn_engine.config import DataConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.catalogue import DataEntry
from dgn_viewer.style.theme import Theme
from dgn_viewer.widgets.form_fields import PairField, PathField, PickBox
from dgn_viewer.widgets.form_section import OptionsForm, Section
from dgn_viewer.widgets.integer_field import IntegerField

_MANY = 10**9
_FOLDER = "folder"


class DataForm(Section):
    """A `DataConfig` in fields; what spoils the data on purpose is asked elsewhere."""

    def __init__(self) -> None:
        super().__init__("Data")
        self._entries: tuple[DataEntry, ...] = ()
        self.name = PickBox()
        self.hint = QLabel()
        self.hint.setProperty("role", "small")
        self.hint.setWordWrap(True)
        self.hint.setTextFormat(Qt.TextFormat.PlainText)
        self.download = QCheckBox("download it")
        self.folder = PathField("Folder or archive of images", "class-named folders", folder=True)
        self.root = PathField("Folder of data sets", "DGN_DATA_ROOT, then the cache", folder=True)
        self.pair = PairField()
        self.train_limit = IntegerField(0, _MANY, zero="all")
        self.options = OptionsForm()
        self.add("data set", self.name)
        self.add("", self.hint)
        self.add("", self.download)
        self.add("folder", self.folder)
        self.add("kept in", self.root, "Where data sets lie on this machine")
        self.add("two classes ±1", self.pair, "The first becomes -1, the second +1")
        self.add("training examples", self.train_limit, "The first so many, balanced over classes")
        self.append(self.options)
        self.name.currentIndexChanged.connect(self._show)
        self._show()

    def offer(self, entries: Sequence[DataEntry]) -> None:
        """The data sets that can be chosen."""
        self._entries = tuple(entries)
        self.name.offer([(entry.id, entry.title) for entry in entries])
        self._show()

    def set_theme(self, theme: Theme) -> None:
        """Colour the icons."""
        for field in (self.folder, self.root):
            field.set_theme(theme)

    def fill(self, data: DataConfig) -> None:
        """Show this configuration."""
        name, _, path = data.name.partition(":")
        self.name.pick(name)
        self.folder.show_path(path)
        self.root.show_path(data.root)
        self.download.setChecked(data.download)
        self.pair.show_pair(data.binary)
        self.train_limit.setValue(data.train_limit)
        self._show()
        self.options.show_values(dict(data.options))

    def config(self) -> DataConfig:
        """What is filled in; raises `UserError` with what is wrong."""
        name, folder = self.name.value(), self.folder.path()
        if name == _FOLDER and not folder:
            raise UserError("No folder is named: choose a folder, or an archive, of images.")
        entry = self._entry()
        unavailable = entry is not None and not entry.available
        return DataConfig(
            name=f"{_FOLDER}:{folder}" if name == _FOLDER else name,
            root="" if name == _FOLDER else self.root.path(),
            download=unavailable and self.download.isChecked(),
            binary=self.pair.pair(),
            train_limit=self.train_limit.value(),
            options=self.options.values(),
        )

    def _show(self) -> None:
        """Only rows that matter for this data set, and the questions that it asks itself."""
        entry = self._entry()
        unavailable = entry is not None and not entry.available
        folder = self.name.value() == _FOLDER
        drawn = entry is not None and bool(entry.options)
        self.hint.setText(entry.hint if entry is not None and unavailable else "")
        self.show_row(self.hint, unavailable)
        self.show_row(self.download, unavailable and not folder)
        self.show_row(self.folder, folder)
        self.show_row(self.root, not (folder or drawn))
        self.options.offer(entry.options if entry else ())

    def _entry(self) -> DataEntry | None:
        return next((e for e in self._entries if e.id == self.name.value()), None)
