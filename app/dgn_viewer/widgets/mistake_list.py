"""The probe examples that the network gets wrong, the most confident answer first."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon, QPixmap
from PySide6.QtWidgets import QAbstractItemView, QListWidget, QListWidgetItem, QSizePolicy

from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.scene.predictions import WRONG, Prediction
from dgn_viewer.plots.example_image import example_image
from dgn_viewer.style.chosen_numbers import with_chosen_numbers

MOST = 6  # mistakes listed
SIDE = 36  # pixels of an image


class MistakeList(QListWidget):
    """A list of wrong answers, each with its image. `pointed(place)`: one was selected."""

    pointed = Signal(int)  # index in the probe set

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Mistakes on the probe examples")
        self.setIconSize(QSize(SIDE, SIDE))
        self.setWordWrap(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._pictures: ProbeExamples | None = None
        self.currentItemChanged.connect(self._point_at_item)

    def show_mistakes(self, pictures: ProbeExamples, mistakes: Sequence[Prediction]) -> None:
        """Show the first of these answers; the selected example stays selected if it is one."""
        listed = mistakes[:MOST]
        current = self.currentItem()
        chosen = None if current is None else current.data(Qt.ItemDataRole.UserRole)
        self.blockSignals(True)
        while self.count() > len(listed):
            self.takeItem(self.count() - 1)
        while self.count() < len(listed):
            self.addItem(QListWidgetItem())
        for row, mistake in enumerate(listed):
            item = self.item(row)
            if self._pictures is not pictures or item.data(Qt.ItemDataRole.UserRole) != (
                mistake.place
            ):
                item.setData(Qt.ItemDataRole.UserRole, mistake.place)
                item.setIcon(_example_icon(pictures, mistake.place))
            item.setText(_unbroken(with_chosen_numbers(mistake.in_words)))
        places = [mistake.place for mistake in listed]
        self.setCurrentRow(places.index(chosen) if chosen in places else -1)
        self.blockSignals(False)
        self._pictures = pictures
        heights = (self.sizeHintForRow(row) for row in range(self.count()))
        self.setFixedHeight(sum(heights) + 2 * self.frameWidth())

    def _point_at_item(self, item: QListWidgetItem | None) -> None:
        if item is not None:
            self.pointed.emit(item.data(Qt.ItemDataRole.UserRole))


def _unbroken(words: str) -> str:
    """Return the words with line breaks only between classes, and without 'Wrong:'."""
    parts = words.removeprefix(f"{WRONG} ").split(" · ")
    return " · ".join(part.replace(" ", "\u00a0") for part in parts)


def _example_icon(pictures: ProbeExamples, place: int) -> QIcon:
    """Return the image of an example; an empty icon if it is not an image."""
    images = pictures.images
    if images is None:
        return QIcon()
    pixmap = QPixmap.fromImage(example_image(images[place]))
    return QIcon(pixmap.scaled(SIDE, SIDE, Qt.AspectRatioMode.KeepAspectRatio))
