"""A panel of the window: header with facts, options and buttons, charts, footer, and state."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QToolButton, QWidget

from dgn_engine.figures.provenance import make_provenance
from dgn_engine.protocol.watching import CancelReading, GoOnReading
from dgn_engine.scene.axes import with_step_cursor
from dgn_engine.scene.delta_cursor import with_delta
from dgn_engine.scene.elements import Chart, Empty, Scene, Shown
from dgn_engine.scene.example_readout import ExampleReadout, example_readout
from dgn_engine.scene.panel_readings import available_readings
from dgn_engine.scene.panel_spec import Option, PanelSpec, View, chosen_value
from dgn_engine.scene.theme import Theme
from dgn_engine.views.drawn_panel import DrawnPanel
from dgn_engine.views.reading_age import Age, ReadingAges
from dgn_viewer.docks.chart_controls import ChartControls
from dgn_viewer.docks.linked_selection import LinkedSelection
from dgn_viewer.docks.linked_steps import LinkedSteps
from dgn_viewer.docks.panel_message import (
    PanelMessage,
    State,
    compose_caption,
    compose_footer,
    compose_message,
    is_pending,
)
from dgn_viewer.docks.reading_controls import RefinementBar
from dgn_viewer.docks.text_line import FactsLine, TextLine
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import PALETTE_ROLES, plain_tip, themed_icon
from dgn_viewer.widgets.button_keys import press_focused_button
from dgn_viewer.widgets.elided_box import ElidedBox
from dgn_viewer.widgets.layouts import make_column, make_row

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView

CHART = "chart"  # option id, valid for every panel: the chart shown where only one fits
LEAST_HEIGHT = 48  # pixels; a low window may shrink its panels to this
_AROUND = 16  # pixels of margin, left and right together
_TRAINS = 0.1  # seconds between drawings above which the network trains at full speed
_SAID_EVERY = 1.0  # seconds between two updates of the displayed age
# (rows down, columns to the right)
_ARROWS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}
_log = logging.getLogger(__name__)


class PanelHeader:
    """The row above a panel's charts: facts, options, and two buttons."""

    def __init__(self, drawn: DrawnPanel, theme: Theme, choose: Callable[[str, str], None]) -> None:
        self._drawn, self._choose = drawn, choose
        self.facts = FactsLine(theme)
        self._combos = {option.id: self._make_combo(option) for option in drawn.spec.options}
        self.about = self._make_button("About this panel")
        self.export = self._make_button("Export this panel")

    def make_layout(self) -> QHBoxLayout:
        parts = (*self._combos.values(), self.about, self.export)
        return make_row((self.facts, 1), *parts, spacing=4)

    def fill_combos(self) -> None:
        """Update the values offered by each option, except in a list that is open."""
        view = self._drawn.view
        for option in self._drawn.spec.options:
            combo = self._combos[option.id]
            if combo.view().isVisible():
                continue
            offered = option.values(view)
            new_items = tuple((value, with_chosen_numbers(label)) for value, label in offered)
            current_items = tuple(
                (str(combo.itemData(i)), combo.itemText(i)) for i in range(combo.count())
            )
            if new_items != current_items:
                combo.clear()
                for value, label in new_items:
                    combo.addItem(label, value)
            combo.setCurrentIndex(combo.findData(chosen_value(view, option)))
            combo.setVisible(len(new_items) > 1)

    def fit_width(self, width: int) -> None:
        """Hide the buttons in a narrow panel: the context menu has the same entries."""
        buttons = (self.about, self.export)
        needed = self.width_of(ElidedBox.sizeHint)
        needed += sum(button.sizeHint().width() + 4 for button in buttons)
        for button in buttons:
            button.setVisible(width >= needed)

    def width_of(self, measure: Callable[[ElidedBox], QSize]) -> int:
        """Return the width of the options alone, in pixels; facts and buttons may be hidden."""
        boxes = [box for box in self._combos.values() if not box.isHidden()]
        return sum(measure(box).width() + 4 for box in boxes) + _AROUND

    def set_theme(self, theme: Theme) -> None:
        self.about.setIcon(themed_icon("about", theme, colour=theme.muted))
        self.export.setIcon(themed_icon("export", theme, colour=theme.muted))
        self.facts.set_theme(theme)

    def _make_button(self, tip: str) -> QToolButton:
        button = QToolButton()
        button.setToolTip(plain_tip(tip))
        button.setAccessibleName(f"{tip} ({self._drawn.spec.title})")
        button.setAutoRaise(True)
        return button

    def _make_combo(self, option: Option) -> ElidedBox:
        combo = ElidedBox(option.label)
        combo.setObjectName(option.id)
        combo.setAccessibleName(f"{self._drawn.spec.title}: {option.label}")
        combo.setMaxVisibleItems(16)
        combo.setVisible(False)
        combo.activated.connect(lambda _: self._choose(option.id, str(combo.currentData())))
        return combo


class PictureAge(QObject):
    """The age of a panel's charts relative to the run, reported at most once a second.

    Signals: `changed` with the `Age` if the charts are stale, else None, and `became_stale` with
    the age in words.
    """

    changed = Signal(object)
    became_stale = Signal(str)

    def __init__(self, ages: ReadingAges, clock: Callable[[], float], parent: QWidget) -> None:
        super().__init__(parent)
        self._ages, self._clock = ages, clock
        self._read: Mapping[str, int] = {}  # step of each reading that is drawn, by probe
        self._shown: Age | None = None
        self._shown_at = 0.0  # time of the last report

    def reset_for_run(self, run: object) -> None:
        """Forget all readings if this is another run than before."""
        self._ages.track_run(run)

    def set_run_step(self, step: int) -> None:
        self._ages.record_step(step, self._clock())

    def set_reading_steps(self, read: Mapping[str, int]) -> None:
        """Set the steps of the readings that are drawn, by probe."""
        self._read = read
        self._ages.record_readings(read)

    def current_age(self, paused: bool) -> Age | None:
        return self._ages.stale_age(self._read.values(), self._clock(), paused)

    def report_age(self, age: Age | None) -> None:
        """Report an age, at most once a second while the charts stay at the same step."""
        before, now = self._shown, self._clock()
        same = age is not None and before is not None and age.step == before.step
        if age == before or (same and now < self._shown_at + _SAID_EVERY):
            return
        self._shown, self._shown_at = age, now
        self.changed.emit(age)
        if age is not None and before is None:
            self.became_stale.emit(age.long_text)


class PanelParts:
    """The widgets of a panel, laid out in it; most of a window's panels are never shown."""

    def __init__(self, panel: PanelDock, theme: Theme) -> None:
        self._panel = panel
        spec = panel.spec
        self._go_on, cancel = GoOnReading(spec.probes), CancelReading(spec.probes)
        self.header = PanelHeader(panel.drawn, theme, panel.set_choice)
        self.header.about.clicked.connect(lambda: panel.about_requested.emit(panel.panel_id))
        self.header.export.clicked.connect(lambda: panel.export_requested.emit(panel.panel_id))
        self.pages = QStackedWidget()
        self.footer = TextLine(theme)
        self.progress = RefinementBar(spec)
        self.progress.cancelled.connect(lambda: panel.command_wanted.emit(cancel))
        self.progress.resumed.connect(lambda: panel.command_wanted.emit(self._go_on))
        below = make_row((self.footer, 1), self.progress)
        parts = (self.header.make_layout(), (self.pages, 1), below)
        make_column(*parts, into=panel, margins=(8, 2, 8, 2), spacing=0)
        for part in (self.header.facts, self.pages, self.footer):
            part.show()  # now: a layout would show them in the next turn
        self.set_theme(theme)
        self.header.fit_width(panel.width())

    @cached_property
    def message(self) -> PanelMessage:
        """The message in place of charts, made when there is one."""
        message = PanelMessage()
        message.accepted.connect(lambda: self._panel.command_wanted.emit(self._go_on))
        self.pages.addWidget(message)
        return message

    def set_theme(self, theme: Theme) -> None:
        for part in (self.header, self.footer, self.progress):
            part.set_theme(theme)


class PanelDock(QWidget):
    """A panel that draws the views it is given and contains its own drawing errors.

    Its widgets are made when it is first drawn, which is when it is first shown. Its choices, the
    settings of its charts, and the theme are kept from the start.
    """

    choices_changed = Signal()
    about_requested = Signal(str)
    export_requested = Signal(str)
    animation_requested = Signal(str)
    command_wanted = Signal(object)  # for the engine

    def __init__(
        self,
        panel_id: str,
        spec: PanelSpec,
        theme: Theme,
        parent: QWidget | None = None,
        linked: LinkedSelection | None = None,
        steps: LinkedSteps | None = None,
        clock: Callable[[], float] = time.monotonic,
        ages: ReadingAges | None = None,
    ) -> None:
        """`linked`, `steps` and `ages` are shared by all panels of the window."""
        super().__init__(parent)
        self._theme = theme
        self.panel_id = panel_id
        self.spec = spec
        self.setObjectName(f"panel_{panel_id}")
        self.setAccessibleName(spec.title)
        self.setMinimumHeight(LEAST_HEIGHT)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)  # a click anywhere makes it the front panel
        self.drawn = DrawnPanel(spec)
        self._linked = linked or LinkedSelection(self)
        self._steps = steps or LinkedSteps(self)
        self._linked.changed.connect(self._apply_pin)
        self._steps.changed.connect(self._mark_steps)
        self._shown: Shown | None = None
        self._made_of: tuple[object, ...] = ()  # the inputs of `_shown`
        self._state: State = "waiting"
        self._last_fault = ""
        self._every = 0.0
        self.age = PictureAge(ages or ReadingAges(), clock, self)
        self.age.changed.connect(
            lambda age: self.setAccessibleDescription("" if age is None else age.long_text)
        )
        self._made: PanelParts | None = None
        ask_about = partial(self.about_requested.emit, panel_id)
        ask_export = partial(self.export_requested.emit, panel_id)
        ask_animation = partial(self.animation_requested.emit, panel_id)
        self.charts = ChartControls(
            self,
            self._make_scene_view,
            ask_export,
            ask_about,
            ask_animation,
            lambda scene: make_provenance(self.drawn.view, spec, scene),
        )
        self.charts.changed.connect(self._redraw)
        # A colour in its own palette would be lost: when Qt applies the style sheet again, it
        # restores the palette that a widget had when the sheet was first applied to it.
        self.setBackgroundRole(PALETTE_ROLES["panel"])
        self.setAutoFillBackground(True)

    # Public

    @property
    def is_made(self) -> bool:
        """Whether the panel has been shown, and so has its widgets."""
        return self._made is not None

    @property
    def parts(self) -> PanelParts:
        """The widgets of the panel, made on first access."""
        if self._made is None:
            self.show_view(self.drawn.view, self._every)
        assert self._made is not None
        return self._made

    def show_view(self, view: View, every: float = 0.0) -> None:
        """Draw a view with this panel's choices.

        Args:
            view: The data and settings to draw.
            every: Seconds between two drawings.
        """
        self._every = every
        if self._made is None:
            self._made = PanelParts(self, self._theme)
        parts = self._made
        before = self.drawn.view
        if view.run is not before.run:
            self._steps.track_run(view.run)
            if self.charts.existing_view is not None:
                self.charts.existing_view.steps.follow_linked_range()
        self.age.reset_for_run(view.run)
        if view.run is not before.run or view.pictures is not before.pictures:
            self._linked.track_run(view.run, view.pictures)
        self.drawn.view = view = self.drawn.with_choices(view, self._linked.pinned)
        if view.cursor is None:
            self.age.set_run_step(view.step)
        try:
            parts.header.fill_combos()
            content = self._draw_content()
        except Exception as error:  # last line of defence: one panel must not stop the window
            self._show_failure(error)
            return
        self._last_fault = ""
        self._shown = content
        if view.cursor is None and isinstance(content, Scene):
            readings = available_readings(self.spec, view)
            self.age.set_reading_steps(
                {reading.probe: reading.step for reading in readings} or {"": content.step}
            )
        self._state = self._state_of(content)
        match content:
            case Scene():
                parts.header.facts.set_facts(content.facts)
                self.charts.view.pointer.slow_down(every > _TRAINS)
                self._show_age(content)
                parts.pages.setCurrentWidget(self.charts.view)
            case Empty():
                parts.header.facts.set_facts(())
                parts.footer.set_text("")
                self.age.report_age(None)
                texts = compose_message(self._state, self.spec, view, content)
                parts.message.show_message(*texts[:2], offer=texts[2])
                parts.pages.setCurrentWidget(parts.message)
        parts.progress.show_view(view, isinstance(content, Scene))
        parts.header.export.setEnabled(isinstance(content, Scene))

    def update_staleness(self, step: int) -> None:
        """Update the age after the run has reached a step; dim charts that lag far behind."""
        if self._state in ("live", "paused", "stale") and isinstance(self._shown, Scene):
            self.age.set_run_step(step)
            before, self._state = self._state, self._state_of(self._shown)
            if "stale" in (before, self._state):
                self._show_age(self._shown)

    def set_choice(self, option_id: str, value: str) -> None:
        """Set an option; an unknown value selects the option's default.

        Raises:
            ValueError: The panel has no such option. `CHART` is valid for every panel.
        """
        if option_id == CHART:
            if self.charts.existing_view is not None:
                self.charts.existing_view.charts.choose_chart(value)
        elif option_id not in {option.id for option in self.spec.options}:
            raise ValueError(f"panel {self.panel_id!r} has no option {option_id!r}")
        if self.drawn.choose_value(option_id, value):
            self._redraw()
            self.choices_changed.emit()

    def shown_content(self) -> Shown | None:
        """Return what is displayed, with the user's chart settings.

        None after an error, or if nothing was drawn yet.
        """
        return self._shown

    def panel_state(self) -> State:
        return self._state

    def footer_text(self) -> str:
        """Return all that is known of the charts, as on hover."""
        return self.parts.footer.text()

    def caption_text(self) -> str:
        """Return the part of the footer that is in sight."""
        return self.parts.footer.drawn_text()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        if self._made is not None:
            self._made.set_theme(theme)
        if self.charts.existing_view is not None:
            self.charts.existing_view.set_theme(theme)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Open the menu for the menu key; right clicks are handled by the charts."""
        if event.reason() == QContextMenuEvent.Reason.Keyboard:
            self.charts.open_menu()
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle arrow keys (move the cursor over entries), Return (pin) and Esc (unpin)."""
        if press_focused_button(event):
            return
        scene_view, key = self.charts.existing_view, event.key()
        unmodified = event.modifiers() in (
            Qt.KeyboardModifier.NoModifier,
            Qt.KeyboardModifier.KeypadModifier,
        )
        handled = False
        if key == Qt.Key.Key_Escape:
            handled = self._linked.unpin()
        elif scene_view is not None and isinstance(self._shown, Scene):
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                scene_view.click_at_cursor()
                handled = True
            elif key in _ARROWS and unmodified:
                handled = scene_view.pointer.move_cursor(*_ARROWS[Qt.Key(key)])
        if not handled:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._made is not None:
            self._made.header.fit_width(self.width())

    def minimumSizeHint(self) -> QSize:
        width = 0 if self._made is None else self._made.header.width_of(ElidedBox.minimumSizeHint)
        return QSize(width, LEAST_HEIGHT)

    # Private

    def _draw_content(self) -> Shown:
        """Return the drawn content, or the current one if none of its inputs has changed."""
        drawn = self.drawn.draw(self.drawn.view)
        if not isinstance(drawn, Scene):
            return drawn
        cursor, marks = self.drawn.view.cursor, self._steps.marks
        made_of = drawn, cursor, marks, self.charts.settings
        same = len(self._made_of) == len(made_of) and all(
            old is new for old, new in zip(self._made_of, made_of, strict=True)
        )
        if same and self._shown is not None:  # None after a failure: try again
            return self._shown
        self._made_of = ()
        scene = with_delta(with_step_cursor(drawn, cursor), marks)
        content = self.charts.show_adjusted_scene(
            scene, self.drawn.draw_with, self.drawn.other_choices
        )
        self._made_of = made_of
        return content

    def _redraw(self) -> None:
        """Draw the same view with changed choices or settings, unless nothing was drawn yet."""
        if self._made is not None:
            self.show_view(self.drawn.view, self._every)
        else:  # what is measured depends on the choices
            self.drawn.view = self.drawn.with_choices(self.drawn.view, self._linked.pinned)

    def _make_scene_view(self) -> SceneView:
        from dgn_viewer.plots.scene_view import SceneView

        scene = SceneView(self._theme)
        scene.chosen.connect(self.set_choice)
        scene.chart_chosen.connect(lambda key: self.set_choice(CHART, key))
        scene.charts.choose_chart(self.drawn.choices.get(CHART, ""))
        scene.links.explain = self._explain_examples
        self._linked.link_view(scene)
        self._steps.link_view(scene)
        self.parts.pages.addWidget(scene)
        return scene

    def _explain_examples(self, chart: Chart, x: float, y: float) -> ExampleReadout | None:
        view = self.drawn.view  # not the picture: the card is made before it is replaced
        steps = (reading.step for reading in available_readings(self.spec, view))
        return example_readout(view, chart, x, y, max(steps, default=None))

    def _state_of(self, shown: Shown) -> State:
        readings = available_readings(self.spec, self.drawn.view)
        if isinstance(shown, Empty):
            if is_pending(self.spec, self.drawn.view):
                return "reading"
            return "unavailable" if any(reading.absent for reading in readings) else "waiting"
        if self.drawn.view.cursor is not None:
            return "past"
        run = self.drawn.view.run
        trains = run is not None and not run.inspected and self.drawn.view.diverged is None
        if trains and self._current_age():
            return "stale"  # also while paused, until the last step has been read
        return "paused" if self.drawn.view.paused else "live"

    def _show_age(self, shown: Scene) -> None:
        """Dim charts that do not show the current network, and display their step."""
        state = self._state
        view = self.drawn.view
        caption = compose_caption(self.spec, view, shown)
        self.parts.footer.set_text(
            compose_footer(state, self.spec, view, shown, self._every), caption
        )
        diverged = (
            self.drawn.view.diverged is not None and state != "past" and bool(self.spec.probes)
        )
        self.charts.view.set_dimmed(diverged or state == "stale")
        self.parts.header.facts.set_dimmed(diverged or state == "stale")
        self.age.report_age(self._current_age() if state == "stale" else None)

    def _current_age(self) -> Age | None:
        # No pause brings a curve of the log another point: only readings catch up.
        return self.age.current_age(self.drawn.view.paused and bool(self.spec.probes))

    def _apply_pin(self) -> None:
        """Select the pinned subject, or go back to the choice before the pin."""
        self.drawn.follow_pin()
        view = self.drawn.view
        if self.drawn.with_choices(view, self._linked.pinned).choices != view.choices:
            self._redraw()
            self.choices_changed.emit()

    def _mark_steps(self) -> None:
        """Redraw if there is a time axis to mark."""
        if isinstance(self._shown, Scene) and any(
            chart.has_step_axis for chart in self._shown.charts
        ):
            self.show_view(self.drawn.view, self._every)

    def _show_failure(self, error: Exception) -> None:
        details = "".join(traceback.format_exception(error))
        self._shown = None
        self._state = "failed"
        sentence = (
            f"{self.spec.title} could not be drawn at step {self.drawn.view.step:,} "
            f"({type(error).__name__}). The next frame will retry."
        )
        self.parts.header.facts.set_facts(())
        self.age.report_age(None)
        self.parts.message.show_message("This panel failed", sentence, details)
        self.parts.pages.setCurrentWidget(self.parts.message)
        self.parts.header.export.setEnabled(False)
        self.parts.footer.set_text("")
        if details != self._last_fault:
            self._last_fault = details
            _log.error("panel %s failed", self.panel_id, exc_info=error)
