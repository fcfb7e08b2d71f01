"""What a listed file does not say of its network: a field for each, and readings that fit."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QListWidget, QListWidgetItem, QSizePolicy, QWidget

from dgn_engine.errors import UserError
from dgn_engine.importing.reading_text import (
    GEOMETRY_ABOUT,
    about_readings,
    activation_title,
    epsilon_text,
    fitting_in_words,
    reading_in_words,
)
from dgn_engine.protocol.file_reading import (
    ACTIVATIONS,
    BatchNormPlace,
    FileReading,
    FittingReading,
    Unsaid,
)
from dgn_engine.protocol.files import FileListed
from dgn_engine.text.printable import printable
from dgn_viewer.style.stylesheet import tip
from dgn_viewer.widgets.form_fields import PickBox, WordField
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.layouts import column, plain_label, push_button, row
from dgn_viewer.widgets.number_field import NumberField

_OPEN = "Nothing is guessed: say what you know, or take a reading that fits."
_SAID = "As you said. If its accuracy is not the one you know, the reading is wrong."
_CHOOSE = ("", "choose …")
_OF_WEIGHTS: tuple[Unsaid, ...] = ("batchnorm", "norm_eps")  # what copied weights depend on
_LEAST_HEIGHT, _LIST_HEIGHT = 32, 156  # pixels


class ReadingSection(QWidget):
    """Fields of a `FileReading`, as they stand in the engine. `said`: another one was filled in.

    No field has a value that nobody has said.
    """

    said = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._listed: FileListed | None = None
        self._copies = False
        self._readings: tuple[FittingReading, ...] | None = None  # None: they are being tried
        self.section = Section("What the file does not say")
        self.activation = PickBox([_CHOOSE, *((n, activation_title(n)) for n in ACTIVATIONS)])
        self.number = NumberField(0.0, 1000.0)
        self.convolutions = WordField("s2p1,max2,…")
        self.batchnorm = PickBox(
            [_CHOOSE, ("before", "before the activation"), ("after", "after the activation")]
        )
        self.norm_eps = WordField("1e-5 in torch")
        self.order = WordField("names of weights, in their order")
        self.ignored = WordField("names of tensors that do nothing")
        self.fields: Mapping[Unsaid, PickBox | WordField] = {
            "activation": self.activation,
            "geometry": self.convolutions,
            "batchnorm": self.batchnorm,
            "norm_eps": self.norm_eps,
            "order": self.order,
            "ignored": self.ignored,
        }
        self.about = plain_label(role="small")
        self.readings = QListWidget()
        self.readings_about = plain_label(role="small")
        self.take = push_button("Take this reading", self._take_current)
        self.clear = push_button(
            "Clear", lambda: self.said.emit(FileReading()), about="Forget what was said"
        )
        self._lay_out()
        self._connect()

    def show_listing(self, listed: FileListed, copies: bool) -> None:
        """Show what is open and what was said; `copies`: weights are to be copied, for which only
        a part of it counts."""
        before = self._listed
        if before is None or (before.reading, before.ticket) != (listed.reading, listed.ticket):
            self._fill(listed.reading)
        self._listed, self._copies = listed, copies
        self._show()

    def show_readings(self, readings: tuple[FittingReading, ...] | None) -> None:
        """Offer these; None: they are being tried."""
        if readings == self._readings:
            return
        self._readings = readings
        self.readings.clear()
        for fitting in readings or ():
            item = QListWidgetItem(printable(fitting_in_words(fitting)))
            item.setToolTip(tip(fitting.reading.options))
            self.readings.addItem(item)
        self._show()

    def refuse(self, about: Unsaid, reason: str) -> None:
        """Say below its field why what was said cannot be."""
        field = self.fields[about]
        if isinstance(field, WordField):
            field.refuse(reason)
        elif self._listed is not None:
            field.pick(getattr(self._listed.reading, about))
            self.about.setText(reason)

    def reading(self) -> FileReading:
        """What is filled in; raises `UserError`."""
        said = FileReading() if self._listed is None else self._listed.reading
        activation = self.activation.value()
        if activation and ACTIVATIONS[activation][1]:
            activation += f":{self.number.value():g}"
        place: BatchNormPlace = {"before": "before", "after": "after"}.get(  # type: ignore[assignment]
            self.batchnorm.value(), ""
        )
        own = activation or self.convolutions.value() or self.order.value()
        return FileReading(
            activation=activation,
            geometry=self.convolutions.value(),
            batchnorm=place,
            norm_eps=_epsilon(self.norm_eps.value()),
            ignored=_names(self.ignored.value()),
            order=_names(self.order.value()),
            net=None if own else said.net,
        )

    def _say(self) -> None:
        try:
            self.said.emit(self.reading())
        except UserError as refusal:
            self.norm_eps.refuse(str(refusal))

    def _take_current(self) -> None:
        row_ = self.readings.currentRow()
        if self._readings and row_ >= 0:
            self.said.emit(self._readings[row_].reading)

    def _on_activation(self) -> None:
        name = self.activation.value()
        if name:
            self.number.show_value(ACTIVATIONS[name][2])
        self._say()

    def _fill(self, reading: FileReading) -> None:
        name, _, number = reading.activation.partition(":")
        self.activation.pick(name)
        if name:
            self.number.show_value(float(number) if number else ACTIVATIONS[name][2])
        self.convolutions.show_value(reading.geometry)
        self.batchnorm.pick(reading.batchnorm)
        self.norm_eps.show_value("" if reading.norm_eps is None else epsilon_text(reading.norm_eps))
        self.order.show_value(",".join(reading.order))
        self.ignored.show_value(",".join(reading.ignored))

    def _show(self) -> None:
        listed = self._listed
        if listed is None:
            return
        reading = listed.reading
        asked = {question.about: question for question in listed.questions}
        shown = 0
        for about, field in self.fields.items():
            wanted = about in asked or getattr(reading, about) not in ("", (), None)
            wanted = wanted and not (self._copies and about not in _OF_WEIGHTS)
            self.section.show_row(field, wanted)
            shown += wanted
        argument = ACTIVATIONS[self.activation.value() or "relu"][1]
        numbered = bool(argument) and not self._copies
        self.section.show_row(self.number, numbered)
        offers = not self._copies and bool(self._readings)
        said = reading != FileReading()
        self.setVisible(bool(shown) or offers or (said and not self._copies))
        words = _OPEN if listed.questions else _SAID
        if reading.net is not None:
            words = f"Read as {reading_in_words(FileReading(net=reading.net))}. {words}"
        self.about.setText(words)
        self.readings.setVisible(offers)
        waits = self._readings is None and bool(listed.questions)
        self.readings_about.setText(
            "Trying readings that fit …" if waits else about_readings(self._readings or ())
        )
        self.readings_about.setVisible(not self._copies and (waits or self._readings is not None))
        self.take.setVisible(offers)
        self.take.setEnabled(self.readings.currentRow() >= 0)
        self.clear.setVisible(said)

    def _lay_out(self) -> None:
        add = self.section.add
        add("activation", self.activation, "What stands between its layers")
        add("its number", self.number, "Slope of LeakyReLU, α of ELU and CELU, β of Softplus")
        add("convolutions", self.convolutions, GEOMETRY_ABOUT)
        add("BatchNorm", self.batchnorm, "Where each BatchNorm stands")
        add("ε of BatchNorm", self.norm_eps, "What is added to its variance")
        add("order", self.order, "Its weights in the order in which they compute")
        add("leave out", self.ignored, "Tensors that are no part of the network")
        self.readings.setAccessibleName("Readings that fit the data, the best first")
        self.readings.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.readings.setWordWrap(True)
        self.readings.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.readings.setSizeAdjustPolicy(QAbstractItemView.SizeAdjustPolicy.AdjustToContents)
        self.readings.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.readings.setMinimumHeight(_LEAST_HEIGHT)
        self.readings.setMaximumHeight(_LIST_HEIGHT)
        column(
            self.section,
            self.about,
            self.readings_about,
            self.readings,
            row(self.take, self.clear, 1, spacing=8),
            into=self,
            spacing=6,
        )

    def _connect(self) -> None:
        self.activation.activated.connect(self._on_activation)
        self.number.chosen.connect(self._say)
        self.batchnorm.activated.connect(self._say)
        for field in (self.convolutions, self.norm_eps, self.order, self.ignored):
            field.said.connect(self._say)
        self.readings.currentRowChanged.connect(lambda place: self.take.setEnabled(place >= 0))
        self.readings.itemActivated.connect(self._take_current)


def _epsilon(text: str) -> float | None:
    """Raises `UserError` where it is no number."""
    if not text:
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise UserError(f"'{text[:20]}' is not a number.") from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())
