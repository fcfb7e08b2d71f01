"""Fields for what a file does not state about its network, and suggested readings that fit."""

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
from dgn_viewer.style.stylesheet import wrapping_tip
from dgn_viewer.widgets.form_fields import PickBox, WordField
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, push_button
from dgn_viewer.widgets.number_field import NumberField

_OPEN = "Nothing is guessed: fill in what you know, or use a reading that fits."
_SAID = "As specified. If the accuracy is not what you expect, the reading is wrong."
_CHOOSE = ("", "choose…")
_OF_WEIGHTS: tuple[Unsaid, ...] = ("batchnorm", "norm_eps")  # fields that affect copied weights
_LEAST_HEIGHT, _LIST_HEIGHT = 32, 156  # pixels


class ReadingSection(QWidget):
    """The fields of a `FileReading`, as known to the engine; none is filled in by a guess.

    `said` is emitted with a new reading after an edit.
    """

    said = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._listed: FileListed | None = None
        self._copies = False
        self._readings: tuple[FittingReading, ...] | None = None  # None while being tried
        self.section = Section("Not stated in the file")
        self.activation = PickBox([_CHOOSE, *((n, activation_title(n)) for n in ACTIVATIONS)])
        self.number = NumberField(0.0, 1000.0)
        self.convolutions = WordField("s2p1,max2,…")
        self.batchnorm = PickBox(
            [_CHOOSE, ("before", "before the activation"), ("after", "after the activation")]
        )
        self.norm_eps = WordField("1e-5 in torch")
        self.order = WordField("names of weights, in order")
        self.ignored = WordField("names of unused tensors")
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
        self.take = push_button("Use this reading", self._use_current_reading)
        self.clear = push_button(
            "Clear", lambda: self.said.emit(FileReading()), about="Clear all fields"
        )
        self._lay_out()
        self._connect_signals()

    def show_listing(self, listed: FileListed, copies: bool) -> None:
        """Show open and answered questions.

        Args:
            listed: The contents of the file.
            copies: Only weights will be copied, so that fewer questions matter.
        """
        before = self._listed
        if before is None or (before.reading, before.ticket) != (listed.reading, listed.ticket):
            self._fill_fields(listed.reading)
        self._listed, self._copies = listed, copies
        self._update_fields()

    def show_readings(self, readings: tuple[FittingReading, ...] | None) -> None:
        """Suggest these readings; None while they are being tried."""
        if readings == self._readings:
            return
        self._readings = readings
        self.readings.clear()
        for fitting in readings or ():
            item = QListWidgetItem(printable(fitting_in_words(fitting)))
            item.setToolTip(wrapping_tip(fitting.reading.command_options))
            self.readings.addItem(item)
        self._update_fields()

    def show_refusal(self, about: Unsaid, reason: str) -> None:
        """Show below a field why its value was refused."""
        field = self.fields[about]
        if isinstance(field, WordField):
            field.set_problem(reason)
        elif self._listed is not None:
            field.pick_value(getattr(self._listed.reading, about))
            self.about.setText(reason)

    def collect_reading(self) -> FileReading:
        """Return the reading in the fields; raise `UserError` if one is invalid."""
        answered = FileReading() if self._listed is None else self._listed.reading
        activation = self.activation.value()
        if activation and ACTIVATIONS[activation][1]:
            activation += f":{self.number.value():g}"
        batchnorm_place: BatchNormPlace = {"before": "before", "after": "after"}.get(  # type: ignore[assignment]
            self.batchnorm.value(), ""
        )
        has_own_answer = activation or self.convolutions.value() or self.order.value()
        return FileReading(
            activation=activation,
            geometry=self.convolutions.value(),
            batchnorm=batchnorm_place,
            norm_eps=_parse_epsilon(self.norm_eps.value()),
            ignored=_parse_names(self.ignored.value()),
            order=_parse_names(self.order.value()),
            net=None if has_own_answer else answered.net,
        )

    def _emit_reading(self) -> None:
        try:
            self.said.emit(self.collect_reading())
        except UserError as refusal:
            self.norm_eps.set_problem(str(refusal))

    def _use_current_reading(self) -> None:
        row_ = self.readings.currentRow()
        if self._readings and row_ >= 0:
            self.said.emit(self._readings[row_].reading)

    def _on_activation(self) -> None:
        name = self.activation.value()
        if name:
            self.number.show_value(ACTIVATIONS[name][2])
        self._emit_reading()

    def _fill_fields(self, reading: FileReading) -> None:
        name, _, number = reading.activation.partition(":")
        self.activation.pick_value(name)
        if name:
            self.number.show_value(float(number) if number else ACTIVATIONS[name][2])
        self.convolutions.show_value(reading.geometry)
        self.batchnorm.pick_value(reading.batchnorm)
        self.norm_eps.show_value("" if reading.norm_eps is None else epsilon_text(reading.norm_eps))
        self.order.show_value(",".join(reading.order))
        self.ignored.show_value(",".join(reading.ignored))

    def _update_fields(self) -> None:
        listed = self._listed
        if listed is None:
            return
        reading = listed.reading
        questions = {question.about: question for question in listed.questions}
        visible_count = 0
        for about, field in self.fields.items():
            is_wanted = about in questions or getattr(reading, about) not in ("", (), None)
            is_wanted = is_wanted and not (self._copies and about not in _OF_WEIGHTS)
            self.section.show_row(field, is_wanted)
            visible_count += is_wanted
        argument = ACTIVATIONS[self.activation.value() or "relu"][1]
        has_number = bool(argument) and not self._copies
        self.section.show_row(self.number, has_number)
        has_offers = not self._copies and bool(self._readings)
        has_answers = reading != FileReading()
        self.setVisible(bool(visible_count) or has_offers or (has_answers and not self._copies))
        text = _OPEN if listed.questions else _SAID
        if reading.net is not None:
            text = f"Read as {reading_in_words(FileReading(net=reading.net))}. {text}"
        self.about.setText(text)
        self.readings.setVisible(has_offers)
        is_trying = self._readings is None and bool(listed.questions)
        self.readings_about.setText(
            "Trying readings…" if is_trying else about_readings(self._readings or ())
        )
        self.readings_about.setVisible(
            not self._copies and (is_trying or self._readings is not None)
        )
        self.take.setVisible(has_offers)
        self.take.setEnabled(self.readings.currentRow() >= 0)
        self.clear.setVisible(has_answers)

    def _lay_out(self) -> None:
        add = self.section.add_field
        add("activation", self.activation, "The activation between layers")
        add("parameter", self.number, "Slope of LeakyReLU, α of ELU and CELU, β of Softplus")
        add("convolutions", self.convolutions, GEOMETRY_ABOUT)
        add("BatchNorm", self.batchnorm, "The position of each BatchNorm")
        add("ε of BatchNorm", self.norm_eps, "Added to the variance")
        add("order", self.order, "The weights in the order they are applied")
        add("leave out", self.ignored, "Tensors that are not part of the network")
        self.readings.setAccessibleName("Readings that fit the data, best first")
        self.readings.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.readings.setWordWrap(True)
        self.readings.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.readings.setSizeAdjustPolicy(QAbstractItemView.SizeAdjustPolicy.AdjustToContents)
        self.readings.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.readings.setMinimumHeight(_LEAST_HEIGHT)
        self.readings.setMaximumHeight(_LIST_HEIGHT)
        make_column(
            self.section,
            self.about,
            self.readings_about,
            self.readings,
            make_row(self.take, self.clear, 1, spacing=8),
            into=self,
            spacing=6,
        )

    def _connect_signals(self) -> None:
        self.activation.activated.connect(self._on_activation)
        self.number.chosen.connect(self._emit_reading)
        self.batchnorm.activated.connect(self._emit_reading)
        for field in (self.convolutions, self.norm_eps, self.order, self.ignored):
            field.said.connect(self._emit_reading)
        self.readings.currentRowChanged.connect(lambda index: self.take.setEnabled(index >= 0))
        self.readings.itemActivated.connect(self._use_current_reading)


def _parse_epsilon(text: str) -> float | None:
    """Parse ε, None for an empty text; raise `UserError` if it is not a number."""
    if not text:
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise UserError(f"'{text[:20]}' is not a number.") from None


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())
