"""One panel in the window: its facts, options and buttons, its picture, and the state it is in."""

from __future__ import annotations

import dataclasses
import logging
import time
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QStackedWidget,
    QToolButton,
    QWidget,
)

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.watching import CancelReading, GoOnReading, ProbeRequest, SetProbeExamples
from dgn_engine.scene.axes import at_step
from dgn_engine.scene.delta_cursor import with_delta
from dgn_engine.scene.elements import Empty, Scene, Shown
from dgn_engine.scene.example_readout import example_readout
from dgn_engine.scene.panel_readings import readings_of
from dgn_engine.scene.panel_spec import Option, PanelSpec, View, choice
from dgn_engine.scene.theme import Theme
from dgn_engine.views.reading_age import Age, ReadingAges
from dgn_viewer.docks.chart_controls import ChartControls
from dgn_viewer.docks.linked_selection import LinkedSelection
from dgn_viewer.docks.linked_steps import LinkedSteps
from dgn_viewer.docks.panel_message import (
    PanelMessage,
    State,
    footer,
    is_pending,
    message,
)
from dgn_viewer.docks.reading_controls import ProbeExamplesDial, RefinementBar
from dgn_viewer.docks.text_line import FactsLine, TextLine
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import icon, plain_tip
from dgn_viewer.widgets.button_keys import press_focused_button
from dgn_viewer.widgets.elided_box import ElidedBox
from dgn_viewer.widgets.layouts import column, row

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView

CHART = "chart"  # the option of every panel that names the chart below a tab
LEAST_HEIGHT = 48  # pixels: in a low window a panel gives way
_AROUND = 16  # pixels left and right of all that is in it
_TRAINS = 0.1  # seconds between drawings: where it is more, a network trains at full speed
_SAID_EVERY = 1.0  # seconds between two counts of the steps that a picture is behind
# Rows down and columns to the right.
_ARROWS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}
_log = logging.getLogger(__name__)


class PanelDock(QWidget):
    """Draws one panel from the views it is given; a fault in its drawing stays in its frame."""

    choices_changed = Signal()
    about_requested = Signal(str)
    export_requested = Signal(str)
    animation_requested = Signal(str)
    command_wanted = Signal(object)  # for the engine
    age_changed = Signal(object)  # the `Age` of its picture where that is stale, else None
    became_stale = Signal(str)  # the age in words

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
        """What panels have in common: `linked`, `steps` and `ages`."""
        super().__init__(parent)
        self.panel_id = panel_id
        self.spec = spec
        self.setObjectName(f"panel_{panel_id}")
        self.setAccessibleName(spec.title)
        self.setMinimumHeight(LEAST_HEIGHT)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)  # wherever it is clicked it is in front
        self._clock = clock
        self._linked = linked or LinkedSelection(self)
        self._steps = steps or LinkedSteps(self)
        self._linked.changed.connect(self._follow)
        self._steps.changed.connect(self._mark_steps)
        self._view = View()
        self._choices: dict[str, str] = {}
        self._by_hand: set[str] = set()  # options chosen since something was pinned
        self._shown: Shown | None = None
        self._state: State = "waiting"
        self._last_fault = ""
        self._every = 0.0
        self._ages = ages or ReadingAges()
        self._read: Mapping[str, int] = {}  # steps of the readings that are drawn
        self._age: Age | None = None
        self._said_at = 0.0  # when the age was last said
        self._facts = FactsLine(theme)
        self._combos = {option.id: self._combo(option) for option in spec.options}
        self._about = self._button("What am I seeing?")
        self._export = self._button("Export this panel")
        self._about.clicked.connect(self._ask_about)
        self._export.clicked.connect(self._ask_export)
        self._theme = theme
        self.charts = ChartControls(
            self, self._make_scene_view, self._ask_export, self._ask_about, self._ask_animation
        )
        self.charts.changed.connect(lambda: self.show_view(self._view, self._every))
        self._message = PanelMessage()
        self._message.accepted.connect(self._go_on)
        self._pages = QStackedWidget()
        self._pages.addWidget(self._message)
        self._footer = TextLine(theme)
        self._dial = ProbeExamplesDial(self.spec)
        self._dial.chosen.connect(lambda n: self.command_wanted.emit(SetProbeExamples(n)))
        self._progress = RefinementBar(self.spec)
        self._progress.cancelled.connect(
            lambda: self.command_wanted.emit(CancelReading(self.spec.probes))
        )
        self._progress.resumed.connect(self._go_on)
        self._lay_out()
        self.set_theme(theme)
        self.show_view(self._view)

    # What others use

    def show_view(self, view: View, every: float = 0.0) -> None:
        """Draw the view with this panel's own choices; `every`: seconds between drawings."""
        self._every = every
        if view.run is not self._view.run and self.charts.made is not None:
            self.charts.made.follow_steps()  # it has other steps
            self._steps.follow()
        self._ages.follow(view.run)
        if view.run is not self._view.run or view.pictures is not self._view.pictures:
            self._linked.unpin()  # there are other examples in these places, or other layers
        self._view = self._as_chosen(view)
        if view.cursor is None:
            self._ages.reach(view.step, self._clock())
        try:
            self._fill_combos()
            shown = self.spec.draw(self._view)
            if isinstance(shown, Scene):
                shown = with_delta(at_step(shown, self._view.cursor), self._steps.marks)
                shown = self.charts.show(shown, self._drawn_with, self._other_choices())
        except Exception as error:  # the panel's last line of defence: the window lives on
            self._fail(error)
            return
        self._last_fault = ""
        self._shown = shown
        if view.cursor is None and isinstance(shown, Scene):
            readings = readings_of(self.spec, self._view)
            self._read = {one.probe: one.step for one in readings} or {"": shown.step}
            self._ages.take(self._read)
        self._state = self._state_of(shown)
        match shown:
            case Scene():
                self._facts.set_facts(shown.facts)
                self.charts.view.slow_down(every > _TRAINS)
                self._show_age(shown)
                self._pages.setCurrentWidget(self.charts.view)
            case Empty():
                self._facts.set_facts(())
                self._footer.set_text("")
                self._say_age(None)
                said = message(self._state, self.spec, self._view, shown)
                self._message.say(*said[:2], offer=said[2])
                self._pages.setCurrentWidget(self._message)
        self._dial.show_view(self._view)
        self._progress.show_view(self._view, isinstance(shown, Scene))
        self._export.setEnabled(isinstance(shown, Scene))

    def reach(self, step: int) -> None:
        """The run is at this step: a picture that stays far behind pales until the next one."""
        if self._state in ("live", "paused", "stale") and isinstance(self._shown, Scene):
            self._ages.reach(step, self._clock())
            before, self._state = self._state, self._state_of(self._shown)
            if "stale" in (before, self._state):
                self._show_age(self._shown)

    def requests(self) -> tuple[ProbeRequest, ...]:
        """What the engine has to measure for this panel as it is set now."""
        options: list[tuple[str, OptionValue]] = []
        for option in self.spec.options:
            if option.engine and (value := choice(self._view, option)):
                options.append((option.id, int(value) if value.isdecimal() else value))
        return tuple(ProbeRequest(probe, tuple(options)) for probe in self.spec.probes)

    def choices(self) -> dict[str, str]:
        return dict(self._choices)

    def set_choice(self, option_id: str, value: str) -> None:
        """Choose; unknown options are a fault of ours, unknown values fall back to the default.

        `CHART` is an option of every panel: the key of the chart where only one has room.
        """
        if option_id == CHART:
            if self.charts.made is not None:
                self.charts.made.choose_chart(value)
        elif option_id not in self._combos:
            raise ValueError(f"panel {self.panel_id!r} has no option {option_id!r}")
        self._by_hand.add(option_id)
        if self._choices.get(option_id, "") == self._view.choices.get(option_id, "") == value:
            return
        self._choices[option_id] = value
        self.show_view(self._view, self._every)
        self.choices_changed.emit()

    def shown(self) -> Shown | None:
        """What the panel shows now, as the user set its charts; None after a fault."""
        return self._shown

    def view(self) -> View:
        return self._view

    def state(self) -> State:
        return self._state

    def scene_view(self) -> SceneView:
        """Where the charts are drawn; it is made when it is asked for first."""
        return self.charts.view

    def painting(self) -> float:
        """Seconds of processor time that painting the charts has taken so far."""
        return self.charts.made.painting() if self.charts.made is not None else 0.0

    def words(self) -> tuple[str, str, str]:
        return self._message.words()

    def footer(self) -> str:
        return self._footer.text()

    def set_theme(self, theme: Theme) -> None:
        self._about.setIcon(icon("about", theme, colour=theme.muted))
        self._export.setIcon(icon("export", theme, colour=theme.muted))
        self._theme = theme
        for part in (self._facts, self._footer, self._progress):
            part.set_theme(theme)
        if self.charts.made is not None:
            self.charts.made.set_theme(theme)
        self.setAutoFillBackground(True)
        palette = self.palette()
        palette.setColor(self.backgroundRole(), theme.panel)
        self.setPalette(palette)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """The menu key; the right button belongs to the chart that it is pressed on."""
        if event.reason() == QContextMenuEvent.Reason.Keyboard:
            self.charts.open_menu()
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """The arrow keys move the cursor over entries, Return pins them, Esc lets go."""
        if not press_focused_button(event) and not self._obeys(event):
            super().keyPressEvent(event)

    # Inside

    def _obeys(self, event: QKeyEvent) -> bool:
        made, key = self.charts.made, event.key()
        if key == Qt.Key.Key_Escape:
            return self._linked.unpin()
        if made is None or not isinstance(self._shown, Scene):
            return False
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            made.click_at_cursor()
            return True
        plain = event.modifiers() in (
            Qt.KeyboardModifier.NoModifier,
            Qt.KeyboardModifier.KeypadModifier,
        )
        return key in _ARROWS and plain and made.move_cursor(*_ARROWS[Qt.Key(key)])

    def _lay_out(self) -> None:
        combos = self._combos.values()
        header = row((self._facts, 1), *combos, self._dial, self._about, self._export, spacing=4)
        below = row((self._footer, 1), self._progress)
        column(header, (self._pages, 1), below, into=self, margins=(8, 2, 8, 2), spacing=0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow panel the choices have the room of the buttons, which the menu has too."""
        super().resizeEvent(event)
        buttons = (self._about, self._export)
        needed = self._header_width(ElidedBox.sizeHint)
        needed += sum(button.sizeHint().width() + 4 for button in buttons)
        for button in buttons:
            button.setVisible(self.width() >= needed)

    def minimumSizeHint(self) -> QSize:
        """Of its choices alone: facts and buttons give way."""
        return QSize(self._header_width(ElidedBox.minimumSizeHint), LEAST_HEIGHT)

    def _header_width(self, of: Callable[[ElidedBox], QSize]) -> int:
        boxes = [box for box in (*self._combos.values(), self._dial) if not box.isHidden()]
        return sum(of(box).width() + 4 for box in boxes) + _AROUND

    def _make_scene_view(self) -> SceneView:
        from dgn_viewer.plots.scene_view import SceneView

        scene = SceneView(self._theme)
        scene.chosen.connect(self.set_choice)
        scene.chart_chosen.connect(lambda key: self.set_choice(CHART, key))
        scene.choose_chart(self._choices.get(CHART, ""))
        scene.links.explain = lambda chart, x, y: example_readout(self._view, chart, x, y)
        self._linked.join(scene)
        self._steps.join(scene)
        self._pages.addWidget(scene)
        return scene

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton()
        button.setToolTip(plain_tip(tip))
        button.setAccessibleName(f"{tip} ({self.spec.title})")
        button.setAutoRaise(True)
        return button

    def _combo(self, option: Option) -> ElidedBox:
        combo = ElidedBox(option.label)
        combo.setObjectName(option.id)
        combo.setAccessibleName(f"{self.spec.title}: {option.label}")
        combo.setMaxVisibleItems(16)
        combo.setVisible(False)
        combo.activated.connect(lambda _: self.set_choice(option.id, str(combo.currentData())))
        return combo

    def _fill_combos(self) -> None:
        """Offer what can be chosen now; an open list is left in peace."""
        for option in self.spec.options:
            combo = self._combos[option.id]
            if combo.view().isVisible():
                continue
            offered = option.values(self._view)
            wanted = tuple((value, with_chosen_numbers(label)) for value, label in offered)
            present = tuple(
                (str(combo.itemData(i)), combo.itemText(i)) for i in range(combo.count())
            )
            if wanted != present:
                combo.clear()
                for value, label in wanted:
                    combo.addItem(label, value)
            combo.setCurrentIndex(combo.findData(choice(self._view, option)))
            combo.setVisible(len(wanted) > 1)

    def _state_of(self, shown: Shown) -> State:
        readings = readings_of(self.spec, self._view)
        if isinstance(shown, Empty):
            if is_pending(self.spec, self._view):
                return "reading"
            return "unavailable" if any(reading.absent for reading in readings) else "waiting"
        if self._view.cursor is not None:
            return "past"
        run = self._view.run
        trains = run is not None and not run.inspected and self._view.diverged is None
        if trains and self._age_now():
            return "stale"  # of a run that pauses, too, until its last step is read
        return "paused" if self._view.paused else "live"

    def _show_age(self, shown: Scene) -> None:
        """Pale what is not of the network as it is, and say of which step it is."""
        state = self._state
        self._footer.set_text(footer(state, self.spec, self._view, shown, self._every))
        stands = self._view.diverged is not None and state != "past" and bool(self.spec.probes)
        self.charts.view.dim(stands or state == "stale")
        self._facts.set_dimmed(stands or state == "stale")
        self._say_age(self._age_now() if state == "stale" else None)

    def _age_now(self) -> Age | None:
        return self._ages.age(self._read.values(), self._clock(), self._view.paused)

    def _say_age(self, age: Age | None) -> None:
        """Where the picture stays the same, the steps are counted once a second."""
        before, now = self._age, self._clock()
        same = age is not None and before is not None and age.step == before.step
        if age == before or (same and now < self._said_at + _SAID_EVERY):
            return
        self._age, self._said_at = age, now
        self.setAccessibleDescription("" if age is None else age.words)
        self.age_changed.emit(age)
        if age is not None and before is None:
            self.became_stale.emit(age.words)

    def _as_chosen(self, view: View) -> View:
        """The view with this panel's choices: what is pinned is chosen where an option follows it,
        it is offered, and nothing else was chosen by hand since."""
        view = dataclasses.replace(view, choices=dict(self._choices))
        for option in self.spec.options:
            value = "" if option.id in self._by_hand else option.following(self._linked.pinned)
            if value and value in dict(option.values(view)):
                view = dataclasses.replace(view, choices={**view.choices, option.id: value})
        return view

    def _follow(self) -> None:
        """Choose what was pinned, or again what was chosen before."""
        self._by_hand.clear()
        if self._as_chosen(self._view).choices != self._view.choices:
            self.show_view(self._view, self._every)
            self.choices_changed.emit()

    def _mark_steps(self) -> None:
        """Draw anew where there is a time axis to mark."""
        if isinstance(self._shown, Scene) and any(one.timed for one in self._shown.charts):
            self.show_view(self._view, self._every)

    def _go_on(self) -> None:
        self.command_wanted.emit(GoOnReading(self.spec.probes))

    def _other_choices(self) -> list[tuple[str, str]]:
        """What could be drawn instead without asking the engine."""
        return [
            (option.id, value)
            for option in self.spec.options
            if not option.engine
            for value, _ in option.values(self._view)
        ]

    def _drawn_with(self, option: str, value: str) -> Scene | None:
        """What the panel would draw with another choice."""
        choices = {**self._view.choices, option: value}
        shown = self.spec.draw(dataclasses.replace(self._view, choices=choices))
        return shown if isinstance(shown, Scene) else None

    def _fail(self, error: Exception) -> None:
        details = "".join(traceback.format_exception(error))
        self._shown = None
        self._state = "failed"
        sentence = (
            f"{self.spec.title} could not be drawn at step {self._view.step:,} "
            f"({type(error).__name__}). The next frame tries again."
        )
        self._facts.set_facts(())
        self._say_age(None)
        self._message.say("This panel failed", sentence, details)
        self._pages.setCurrentWidget(self._message)
        self._export.setEnabled(False)
        self._footer.set_text("")
        if details != self._last_fault:
            self._last_fault = details
            _log.error("panel %s failed", self.panel_id, exc_info=error)

    def _ask_about(self) -> None:
        self.about_requested.emit(self.panel_id)

    def _ask_export(self) -> None:
        self.export_requested.emit(self.panel_id)

    def _ask_animation(self) -> None:
        self.animation_requested.emit(self.panel_id)
