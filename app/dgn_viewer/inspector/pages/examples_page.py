"""The page for choosing the probe set: by class, individually, misclassified, or drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QHideEvent, QPaintEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QStylePainter,
    QWidget,
)

from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.probe_choice import ProbeChoice, pack_pixels, unpack_pixels
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import RunStarted
from dgn_engine.protocol.watching import (
    ChooseMisclassified,
    ChooseProbeSet,
    ExamplesListed,
    ListExamples,
    ProbeExamples,
)
from dgn_engine.scene.panel_spec import View
from dgn_engine.scene.predictions import (
    Prediction,
    confident_mistakes,
    prediction_lines,
    predictions_of,
)
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.widgets.drawing_canvas import DrawingCanvas
from dgn_viewer.widgets.elided_box import ElidedBox
from dgn_viewer.widgets.example_grid import ExampleGrid
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, push_button
from dgn_viewer.widgets.mistake_list import MistakeList

AT_ONCE = 30  # examples per page of the grid
_MOST_CLASSES = 24  # maximum number of classes with a button each
_ACROSS = 5  # buttons per row
_LEAST_CLASS, _MOST_CLASS = 40, 120  # pixels; range of a button's width

Light = Callable[[tuple[int, ...]], None]


class _ClassButton(QPushButton):
    """A button with the name of a class, elided in the middle if it does not fit."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST_CLASS, super().minimumSizeHint().height())

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        return QSize(min(hint.width(), _MOST_CLASS), hint.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        inside = QStyle.SubElement.SE_PushButtonContents
        available_width = self.style().subElementRect(inside, option, self).width()
        middle = Qt.TextElideMode.ElideMiddle
        option.text = self.fontMetrics().elidedText(option.text, middle, available_width)
        painter = QStylePainter(self)
        painter.drawControl(QStyle.ControlElement.CE_PushButton, option)
        painter.end()


class ExamplesPage(QFrame):
    """A page that sends the user's choice and shows the resulting probe set.

    Args:
        send: Sends a command to the engine.
        state: The state of the run.
        shown: The current probe examples, if known.
        light: Outlines examples in all panels.
    """

    title = "Probe examples"
    predictions_wanted = Signal(bool)  # what the network answers is in sight, or no longer

    def __init__(
        self,
        send: Callable[[Command], None],
        state: RunState,
        shown: ProbeExamples | None,
        light: Light,
    ) -> None:
        super().__init__()
        self._send, self._light = send, light
        self.state, self._shown = state, shown
        self._theme = LIGHT
        self._first, self._total = 0, 0
        self._drawing = False  # a drawing was sent: outline its row once it has arrived
        self.words = plain_label()
        self.words.setWordWrap(True)
        self.answer = plain_label(role="title")  # what the network says about the drawing
        self.answer.setWordWrap(True)
        self.mistakes = MistakeList()
        self.mistakes.pointed.connect(lambda place: light((place,)))
        self.mistakes_title = plain_label(role="heading")
        self.classes: dict[str, QPushButton] = {}
        self._class_place = QWidget()
        self.of_class = ElidedBox("Examples of")
        self.of_class.setAccessibleName("Class of the examples to choose from")
        self.of_class.activated.connect(lambda _: self._list_examples(0))
        self.grid = ExampleGrid()
        self.grid.toggled.connect(self._toggle_example)
        self.before = push_button(
            "‹", lambda: self._list_examples(self._first - AT_ONCE), about="Previous"
        )
        self.after = push_button(
            "›", lambda: self._list_examples(self._first + AT_ONCE), about="Next"
        )
        self.place = plain_label()
        self.canvas: DrawingCanvas | None = None
        self._canvas_place = QWidget()
        self.why = plain_label()
        self.why.setWordWrap(True)
        self.clear = push_button("Clear", self._clear_drawing, about="Remove the drawn example")
        self._lay_out()
        self._make_data_widgets()
        self._update_widgets()

    def on_event(self, event: Event, state: RunState) -> None:
        self.state = state
        match event:
            case RunStarted():
                self._shown = None
            case ProbeExamples():
                old_class = None if self._shown is None else self._shown.probe_set.class_names[:1]
                is_other_data, self._shown = old_class != event.probe_set.class_names[:1], event
                if is_other_data:
                    self._make_data_widgets()
                if self._drawing and event.probe_set.drawn:
                    self._light((len(event.probe_set.indices) - 1,))
                self._drawing = False
            case ExamplesListed():
                self._first, self._total = event.first, event.total
                self.grid.show_examples(event.found)
        self._update_widgets()

    def show_answers(self, view: View) -> None:
        """Show what the network answers at the step that is shown, as far as it was read."""
        if not self.isVisible():
            return
        pictures, predictions = view.pictures, predictions_of(view)
        lines: tuple[str, ...] = ()
        if pictures is not None and pictures.probe_set.drawn:
            lines = prediction_lines(view, len(pictures.probe_set.indices) - 1)
            if not lines and predictions:  # read, but not for the drawing
                lines = (f"No answer: under {view.regime} only training examples have gates.",)
        self.answer.setText("\n".join(lines))
        self.answer.setVisible(bool(lines))
        wrong = confident_mistakes(view)
        self.mistakes_title.setText(_mistakes_in_words(predictions, wrong))
        self.mistakes_title.setVisible(bool(predictions))
        self.mistakes.setVisible(bool(wrong))
        if pictures is not None:
            self.mistakes.show_mistakes(pictures, wrong)
            rows = pictures.probe_set.indices
            self.grid.answers = {rows[one.place]: one.in_words for one in predictions}

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.predictions_wanted.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.predictions_wanted.emit(False)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.grid.set_theme(theme)
        if self.canvas is not None:
            self.canvas.set_theme(theme)

    # User actions

    def _probe_choice(self) -> ProbeChoice:
        return ProbeChoice.parse(self.state.probe_set)

    def _send_choice(self, choice: ProbeChoice) -> None:
        self._send(ChooseProbeSet(str(choice)))

    def _choose_classes(self) -> None:
        names = [name for name, button in self.classes.items() if button.isChecked()]
        indices = tuple(str(list(self.classes).index(name)) for name in names)
        is_all = len(indices) in (0, len(self.classes))
        self._send_choice(replace(self._probe_choice(), rows=(), classes=() if is_all else indices))

    def _toggle_example(self, at: int) -> None:
        rows = set(self._probe_rows())
        rows ^= {at}
        self._send_choice(replace(self._probe_choice(), classes=(), rows=tuple(sorted(rows))))

    def _probe_rows(self) -> tuple[int, ...]:
        """Return the training examples in the probe set."""
        if self._shown is None:
            return ()
        probe_set = self._shown.probe_set
        return probe_set.indices[: len(probe_set.indices) - probe_set.drawn]

    def _list_examples(self, first: int) -> None:
        label = self.of_class.currentIndex() - 1
        self._send(ListExamples(label, max(first, 0), AT_ONCE))

    def _send_drawing(self) -> None:
        if self.canvas is None or self._shown is None:
            return
        pixels = np.broadcast_to(self.canvas.pixels(), self._shown.one)
        self._drawing = True
        self._send_choice(replace(self._probe_choice(), drawn=(pack_pixels(pixels),)))

    def _clear_drawing(self) -> None:
        if self.canvas is not None:
            self.canvas.show_pixels(0 * self.canvas.pixels())
        self._send_choice(replace(self._probe_choice(), drawn=()))

    # Contents

    def _update_widgets(self) -> None:
        count = len(self._shown.probe_set.indices) if self._shown is not None else 0
        choice = self._probe_choice()
        ready = self.state.run is not None and self.state.recorded is None
        text = f"{count:,} examples: {choice.in_words}." if count else "There is no run."
        if not ready and count:
            text += " This is a recorded run: continue it to choose others."
        remark = (self._shown.remark or self._shown.missing) if self._shown is not None else ""
        self.words.setText(f"{text} {remark}".strip())
        self.setEnabled(ready)
        for index, button in enumerate(self.classes.values()):
            button.setChecked(str(index) in choice.classes)
        self.grid.outline_rows(frozenset(self._probe_rows()))
        last = min(self._first + AT_ONCE, self._total)
        self.place.setText(f"{self._first + 1:,} to {last:,} of {self._total:,}")
        self.before.setEnabled(self._first > 0)
        self.after.setEnabled(last < self._total)
        self.clear.setEnabled(bool(choice.drawn))

    def _make_data_widgets(self) -> None:
        """Create the class buttons and a canvas of the size of an example."""
        if self._shown is None:
            return
        probe_set = self._shown.probe_set
        names = probe_set.class_names[: probe_set.classes]
        self._fill_classes(names)
        self.of_class.clear()
        self.of_class.addItems(["all classes", *(f"class {name}" for name in names)])
        self._make_canvas(self._shown.one)
        self._list_examples(0)

    def _fill_classes(self, names: tuple[str, ...]) -> None:
        for button in self.classes.values():
            button.deleteLater()
        self.classes = {}
        layout = self._class_place.layout()
        assert isinstance(layout, QGridLayout)
        for index, name in enumerate(names if len(names) <= _MOST_CLASSES else ()):
            button = _ClassButton(name)
            button.setToolTip(plain_tip(f"Only examples of class {name}"))
            button.clicked.connect(self._choose_classes)
            button.setCheckable(True)
            button.setAccessibleName(f"Only class {name}")
            self.classes[name] = button
            layout.addWidget(button, *divmod(index, _ACROSS))

    def _make_canvas(self, one: tuple[int, ...]) -> None:
        if self.canvas is not None:
            self.canvas.deleteLater()
            self.canvas = None
        drawable = len(one) == 3 and max(one[1:]) <= 64
        self.why.setText(
            "Left button draws, right button erases. The drawing's gates are the last row of Gate "
            "maps; it has no label, so ν is left out."
            if drawable
            else "Drawing needs images of at most 64×64 pixels."
        )
        self.clear.setVisible(drawable)
        if not drawable:
            return
        self.canvas = DrawingCanvas(*one[1:])
        self.canvas.set_theme(self._theme)
        self.canvas.drawn.connect(self._send_drawing)
        layout = self._canvas_place.layout()
        assert layout is not None
        layout.addWidget(self.canvas)
        if drawn := self._probe_choice().drawn:
            try:
                self.canvas.show_pixels(unpack_pixels(drawn[-1], one).max(axis=0))
            except UserError:  # drawn for other data, and refused by the engine
                return

    def _lay_out(self) -> None:
        balanced = push_button(
            "Balanced set",
            partial(self._send_choice, ProbeChoice()),
            about="The same number per class, chosen by the seed",
        )
        misclassified = push_button(
            "Misclassified now",
            lambda: self._send(ChooseMisclassified()),
            about="Training examples the network gets wrong now",
        )
        grid = QGridLayout(self._class_place)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        make_column(into=self._canvas_place)
        make_column(
            self.words,
            plain_label("Draw an example", "heading"),
            self._canvas_place,
            self.answer,
            make_row(self.clear, 1),
            self.why,
            self.mistakes_title,
            self.mistakes,
            make_row(balanced, misclassified, 1, spacing=8),
            plain_label("By class", "heading"),
            self._class_place,
            plain_label("One by one", "heading"),
            make_row(self.of_class, 1, self.before, self.place, self.after, spacing=4),
            self.grid,
            1,
            into=self,
            margins=(16, 4, 16, 16),
            spacing=8,
        )


def _mistakes_in_words(predictions: tuple[Prediction, ...], wrong: tuple[Prediction, ...]) -> str:
    """Return 'Mistakes: 5 of 64 at step 1,200'."""
    judged = [one for one in predictions if one.label is not None]
    if not judged:
        return "Mistakes: unknown, the classes of this network are its own"
    return f"Mistakes: {len(wrong)} of {len(judged)} at step {judged[0].step:,}"
