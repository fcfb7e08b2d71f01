"""The 'Save animation' dialog: panels, steps and speed; then the progress."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QDialog, QFileDialog, QProgressBar, QWidget

from dgn_engine.confinement.start_folder import find_program
from dgn_engine.figures.animation_format import frame_durations
from dgn_engine.figures.figure_style import COLUMN, TEXT
from dgn_engine.text.written_numbers import format_duration
from dgn_viewer.shell.file_dialogs import ask_new_file
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.widgets.form_fields import PickBox, problem_in
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import (
    make_column,
    make_row,
    make_scroll_area,
    push_button,
    resize_to_fit,
)
from dgn_viewer.widgets.message_line import MessageLine
from dgn_viewer.widgets.number_field import NumberField

PAGES, MOST_PAGES = 100, 1000
PER_SECOND = 10.0
_RATES = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 50.0)
_WIDTHS = (("text", "Large, 1,012 pixels"), ("column", "Small, 488 pixels"))
_INCHES = {"text": TEXT, "column": COLUMN}
_MOST_STEP = 2_000_000_000


@dataclass(frozen=True)
class AnimationWish:
    """Options of the animation to save. `width`: inches."""

    path: Path
    panels: tuple[str, ...]
    reach: tuple[int, int]
    pages: int
    per_second: float
    width: float


class AnimationDialog(QDialog):
    """Non-modal dialog; if it is closed while saving, the animation is still completed.

    Signals: `wanted(AnimationWish)`, `cancelled`, and `reach_chosen(first, last)` as the step
    fields are edited.
    """

    wanted = Signal(object)
    cancelled = Signal()
    reach_chosen = Signal(int, int)

    def __init__(
        self, context: WindowContext, titles: Mapping[str, str], chosen: Sequence[str]
    ) -> None:
        """`titles`: titles of the available panels, by id."""
        super().__init__(context.window)
        self.setObjectName("animation_dialog")
        self.setWindowTitle("Save animation")
        self._context = context
        self.steps: tuple[int, ...] | None = None  # recorded steps; None: not known yet
        self.writing = False
        self.panels = {name: QCheckBox(title) for name, title in titles.items()}
        self.first, self.last = IntegerField(0, _MOST_STEP), IntegerField(0, _MOST_STEP)
        self.pages = IntegerField(2, MOST_PAGES)
        self.rate = NumberField(0.5, 50.0, rungs=_RATES, unit="per second")
        self.width_ = PickBox(_WIDTHS)
        self.forecast = MessageLine()  # what will be saved, or why it cannot be
        self.said = MessageLine()  # result of saving
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Rendering progress")
        self.cancel_button = push_button(
            "Cancel", self.cancelled, about="Stop without saving an animation"
        )
        self.save_button = push_button("Save…", self.ask_file_name, role="primary")
        self.save_button.setDefault(True)
        self._form = self._lay_out(chosen)
        self.pages.setValue(PAGES)
        self.rate.show_value(PER_SECOND)
        self._connect_fields()
        self.show_progress("", 0, 0)

    def show_reach(self, reach: tuple[int, int]) -> None:
        for field, step in zip((self.first, self.last), reach, strict=True):
            field.blockSignals(True)
            field.setValue(step)
            field.blockSignals(False)
        self._update_forecast()

    def show_steps(self, steps: tuple[int, ...] | None) -> None:
        """Set the recorded steps; None: still being read."""
        self.steps = steps
        self._update_forecast()

    def show_progress(self, words: str, done: int, of: int) -> None:
        """Show the progress of saving; `words`: the current stage, '' if nothing is saved."""
        self.writing = bool(words)
        self._form.setEnabled(not self.writing)
        self.cancel_button.setVisible(self.writing)
        self.save_button.setVisible(not self.writing)
        policy = self.bar.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.bar.setSizePolicy(policy)
        self.bar.setVisible(self.writing)
        self.bar.setRange(0, max(of, 1))
        self.bar.setValue(done)
        if self.writing:
            self.said.show_message(words)

    def show_refusal(self, why: str) -> None:
        self._update_forecast()
        self.said.show_message("")
        self.said.show_refusal(why)

    def ask_file_name(self) -> QFileDialog:
        kinds = "GIF (*.gif)"
        if find_program("ffmpeg") is not None:
            kinds += ";;MP4 video (*.mp4)"
        chosen = [name for name, box in self.panels.items() if box.isChecked()]
        first, last = self.chosen_reach()
        name = f"{chosen[0] if len(chosen) == 1 else 'dgn'}-steps{first}-{last}.gif"
        context, title = self._context, "Save animation"
        dialog = ask_new_file(context, title, kinds, name, self.save_as, parent=self)
        dialog.filterSelected.connect(
            lambda kind: dialog.setDefaultSuffix("mp4" if "mp4" in kind else "gif")
        )
        return dialog

    def chosen_reach(self) -> tuple[int, int]:
        first, last = self.first.value(), self.last.value()
        return min(first, last), max(first, last)

    # Internal

    def save_as(self, path: str) -> None:
        """Request the animation with the current options in this file."""
        chosen = tuple(name for name, box in self.panels.items() if box.isChecked())
        width = _INCHES[self.width_.value()]
        self.wanted.emit(
            AnimationWish(
                Path(path),
                chosen,
                self.chosen_reach(),
                self.pages.value(),
                self.rate.value(),
                width,
            )
        )

    def _lay_out(self, chosen: Sequence[str]) -> QWidget:
        which, steps, animation = Section("Panels"), Section("Steps"), Section("Animation")
        for name, box in self.panels.items():
            box.setChecked(name in chosen)
            which.add_field("", box)
        steps.add_field("From", self.first, "Or Shift+drag on the time bar")
        steps.add_field("To", self.last, "Or Shift+drag on the time bar")
        steps.add_field(
            "Max. frames", self.pages, "If there are more recorded steps, frames are spread evenly"
        )
        animation.add_field("Speed", self.rate, "Frames per second")
        animation.add_field("Width", self.width_, "The height follows from the panels")
        form = QWidget()
        make_column(which, steps, animation, 1, into=form, margins=(0, 0, 8, 0), spacing=12)
        buttons = make_row(1, self.cancel_button, self.save_button, spacing=8)
        parts = ((make_scroll_area(form), 1), self.forecast, self.said, self.bar, buttons)
        make_column(*parts, into=self, margins=(12, 12, 12, 12), spacing=8)
        resize_to_fit(self, 380, 470)
        return form

    def _connect_fields(self) -> None:
        for field in (self.first, self.last):
            field.setKeyboardTracking(False)
            field.valueChanged.connect(lambda _: self.reach_chosen.emit(*self.chosen_reach()))
        self.said.end_with_edits_in(self._form)
        for typed in (self.first, self.last, self.pages, self.rate):
            typed.valueChanged.connect(self._update_forecast)
            typed.refused.connect(self._update_forecast)
        for box in self.panels.values():
            box.toggled.connect(self._update_forecast)

    def _update_forecast(self) -> None:
        if self.writing:
            return
        text, possible = self._forecast_text()
        self.save_button.setEnabled(possible)
        self.forecast.show_message(text, "muted" if possible or self.steps is None else "refused")

    def _forecast_text(self) -> tuple[str, bool]:
        if self.steps is None:
            return "Reading the recorded steps…", False
        if not any(box.isChecked() for box in self.panels.values()):
            return "No panel is selected; tick at least one.", False
        if problem := problem_in(self):
            return problem, False
        first, last = self.chosen_reach()
        count = bisect_right(self.steps, last) - bisect_left(self.steps, first)
        steps = f"{count:,} recorded step{'' if count == 1 else 's'} from {first:,} to {last:,}"
        if count < 2:
            return f"{steps}; an animation needs at least two.", False
        pages = min(count, self.pages.value())
        seconds = sum(frame_durations(pages, self.rate.value())) / 1000.0
        return f"{steps}: {pages:,} frames, {format_duration(seconds)}.", True
