"""The bar of the playground: data, noise, layers and units, right below the drawn network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QButtonGroup, QSlider, QToolButton, QWidget

from dgn_engine.protocol.catalogue import Catalogue, DataEntry
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.text.written_numbers import format_decimals
from dgn_viewer.playground import DEPTHS, MOST_NOISE, WIDTHS
from dgn_viewer.shell.playground_control import PlaygroundControl
from dgn_viewer.style.stylesheet import plain_tip, tabular_font
from dgn_viewer.widgets.layouts import FixedBar, PlainLabel, make_row, push_button

_SIDE = 32  # pixels of a picture of a data set
_STEP = 0.02  # of the noise
_REACH = 1.25  # of the pictures: the points lie roughly within ±1


class DataPicture(QAbstractButton):
    """A button that shows the points of a data set in the colours of their classes."""

    def __init__(self, entry: DataEntry, theme: Theme) -> None:
        super().__init__()
        self.entry = entry
        self._theme = theme
        self.setCheckable(True)
        self.setFixedSize(QSize(_SIDE, _SIDE))
        self.setToolTip(plain_tip(f"{entry.title}: restart on these points"))
        self.setAccessibleName(entry.title)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, outline = self._theme, self._theme.line
        if self.isChecked() or self.hasFocus():
            outline = theme.accent
        elif self.underMouse():
            outline = theme.muted
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(outline), 2.0 if self.isChecked() else 1.0))
        painter.setBrush(QColor(theme.panel))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
        scale = (_SIDE / 2 - 3) / _REACH
        painter.setPen(Qt.PenStyle.NoPen)
        for x, y, label in self.entry.points:
            painter.setBrush(QColor(theme.feature if label else theme.value))
            centre = QPointF(_SIDE / 2 + scale * x, _SIDE / 2 - scale * y)
            painter.drawEllipse(centre, 1.1, 1.1)
        painter.end()


class Stepper(QWidget):
    """'− 3 gate layers +': a number that two buttons change by one."""

    def __init__(self, noun: str, about: str, change: Callable[[int], None]) -> None:
        super().__init__()
        self.noun = noun
        self.fewer = self._make_button("−", f"One {noun} fewer", partial(change, -1))
        self.more = self._make_button("+", f"One more {noun}", partial(change, 1))
        self.label = PlainLabel()
        self.label.setFont(tabular_font(self.label))
        self.label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setToolTip(plain_tip(about))
        make_row(self.fewer, self.label, self.more, into=self, spacing=4)

    def show_number(self, number: int, least: int, most: int) -> None:
        self.label.setText(f"{number} {self.noun}{'' if number == 1 else 's'}")
        self.label.setMinimumWidth(self.label.fontMetrics().horizontalAdvance(f"16 {self.noun}s"))
        self.fewer.setEnabled(number > least)
        self.more.setEnabled(number < most)

    def _make_button(self, sign: str, about: str, act: Callable[[], None]) -> QToolButton:
        button = QToolButton()
        button.setText(sign)
        button.setProperty("role", "stepper")
        button.setFixedSize(24, 24)
        button.setAutoRepeat(True)
        button.setToolTip(plain_tip(about))
        button.setAccessibleName(about)
        button.clicked.connect(act)
        return button


class PlaygroundBar(FixedBar):
    """Changes the small network; each edit restarts it at once."""

    def __init__(self, control: PlaygroundControl, window: QWidget | None = None) -> None:
        super().__init__("bar.playground", "Playground", window)
        self._control = control
        self._theme = LIGHT
        self.pictures: tuple[DataPicture, ...] = ()
        self._group = QButtonGroup(self)
        self._row = make_row(spacing=4)
        about = "Standard deviation of the points around their shape; the network restarts"
        self.noise = QSlider(Qt.Orientation.Horizontal)
        self.noise.setRange(0, round(MOST_NOISE / _STEP))
        self.noise.setFixedWidth(96)
        self.noise.setToolTip(plain_tip(about))
        self.noise.setAccessibleName("Noise")
        self.noise.valueChanged.connect(self._change_noise)
        self.noise_label = PlainLabel(role="small")
        self.noise_label.setFont(tabular_font(self.noise_label, 12))
        self.layers = Stepper("gate layer", "Layers with gates; the network restarts", self._deepen)
        self.units = Stepper("unit", "Units in each layer; the network restarts", self._widen)
        self.seed = push_button(
            "New seed", control.draw_seed, about="Restart from other initial weights"
        )
        self.link = push_button(
            "Copy link",
            control.copy_link,
            about="Copy a link that starts this network elsewhere; "
            "open it with Ctrl+V, or 'dgn-viewer LINK'",
        )
        self.keep = push_button(
            "Keep",
            control.keep,
            about="Record this run, with its scores from the first step on; "
            "playground runs are not recorded otherwise",
        )
        noise = make_row(PlainLabel("noise", role="small"), self.noise, self.noise_label, spacing=4)
        parts = (self._row, noise, self.layers, self.units, self.seed, 1, self.link, self.keep)
        self.add_line("playground_line", *parts, margins=(0, 0, 0, 0))
        control.changed.connect(self.refresh)
        self.hide()

    def on_event(self, _event: Event, state: RunState) -> None:
        if state.catalogue is not None and not self.pictures:
            self._offer_data(state.catalogue)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for picture in self.pictures:
            picture.set_theme(theme)

    def refresh(self) -> None:
        """Show the playground as edited; hide the bar if another kind of run is shown."""
        shown = self._control.shown if self._control.is_open else None
        self.setVisible(shown is not None)
        if shown is None:
            return
        for picture in self.pictures:
            picture.setChecked(picture.entry.id == shown.data)
        if not self.noise.isSliderDown():
            self.noise.blockSignals(True)
            self.noise.setValue(round(shown.noise / _STEP))
            self.noise.blockSignals(False)
        self.noise_label.setText(format_decimals(shown.noise, 2))
        self.layers.show_number(shown.depth - 1, DEPTHS[0] - 1, DEPTHS[1] - 1)
        self.units.show_number(shown.width, *WIDTHS)
        self.seed.setToolTip(plain_tip(f"Seed {shown.seed}. Restart from other initial weights"))
        self.keep.setVisible(self._control.is_unrecorded)

    def _change_noise(self, position: int) -> None:
        self._control.edit(noise=round(position * _STEP, 2))

    def _deepen(self, by: int) -> None:
        if (shown := self._control.shown) is not None:
            self._control.edit(depth=_within(shown.depth + by, DEPTHS, shown.depth))

    def _widen(self, by: int) -> None:
        if (shown := self._control.shown) is not None:
            self._control.edit(width=_within(shown.width + by, WIDTHS, shown.width))

    def _offer_data(self, catalogue: Catalogue) -> None:
        pictures = []
        for entry in catalogue.data:
            if entry.plane:
                picture = DataPicture(entry, self._theme)
                picture.clicked.connect(partial(self._choose_data, entry.id))
                self._group.addButton(picture)
                self._row.addWidget(picture)
                pictures.append(picture)
        self.pictures = tuple(pictures)

    def _choose_data(self, data: str, _checked: bool = False) -> None:
        self._control.edit(data=data)


def _within(value: int, bounds: Sequence[int], before: int) -> int:
    """Return the value within the bounds that the bar offers; `before` may be beyond them."""
    return min(max(value, min(bounds[0], before)), max(bounds[1], before))
