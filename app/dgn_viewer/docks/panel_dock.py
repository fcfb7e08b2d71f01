"""One panel in the window: its facts, options and buttons, its picture, and the state it is in."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QToolButton, QWidget

from dgn_engine.protocol.watching import CancelReading, GoOnReading, SetProbeExamples
from dgn_engine.scene.axes import at_step
from dgn_engine.scene.delta_cursor import with_delta
from dgn_engine.scene.elements import Empty, Scene, Shown
from dgn_engine.scene.example_readout import example_readout
from dgn_engine.scene.panel_readings import readings_of
from dgn_engine.scene.panel_spec import Option, PanelSpec, View, choice
from dgn_engine.scene.theme import Theme
from dgn_engine.views.drawn_panel import DrawnPanel
from dgn_engine.views.reading_age import Age, ReadingAges
from dgn_viewer.docks.chart_controls import ChartControls
from dgn_viewer.docks.linked_selection import LinkedSelection
from dgn_viewer.docks.linked_steps import LinkedSteps
from dgn_viewer.docks.panel_message import PanelMessage, State, footer, is_pending, message
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


class PanelHeader:
    """What stands above a panel's picture: its facts, its choices and two buttons."""

    def __init__(self, drawn: DrawnPanel, theme: Theme, choose: Callable[[str, str], None]) -> None:
        self._drawn, self._choose = drawn, choose
        self.facts = FactsLine(theme)
        self.dial = ProbeExamplesDial(drawn.spec)
        self._combos = {option.id: self._make_combo(option) for option in drawn.spec.options}
        self.about = self._make_button("What am I seeing?")
        self.export = self._make_button("Export this panel")

    def layout(self) -> QHBoxLayout:
        parts = (*self._combos.values(), self.dial, self.about, self.export)
        return row((self.facts, 1), *parts, spacing=4)

    def has_option(self, option_id: str) -> bool:
        return option_id in self._combos

    def fill_combos(self) -> None:
        """Offer what can be chosen now; an open list is left in peace."""
        view = self._drawn.view
        for option in self._drawn.spec.options:
            combo = self._combos[option.id]
            if combo.view().isVisible():
                continue
            offered = option.values(view)
            wanted = tuple((value, with_chosen_numbers(label)) for value, label in offered)
            present = tuple(
                (str(combo.itemData(i)), combo.itemText(i)) for i in range(combo.count())
            )
            if wanted != present:
                combo.clear()
                for value, label in wanted:
                    combo.addItem(label, value)
            combo.setCurrentIndex(combo.findData(choice(view, option)))
            combo.setVisible(len(wanted) > 1)

    def fit(self, width: int) -> None:
        """In a narrow panel the choices have the room of the buttons, which the menu has too."""
        buttons = (self.about, self.export)
        needed = self.width_of(ElidedBox.sizeHint)
        needed += sum(button.sizeHint().width() + 4 for button in buttons)
        for button in buttons:
            button.setVisible(width >= needed)

    def width_of(self, measure: Callable[[ElidedBox], QSize]) -> int:
        """Return the width of its choices alone, in pixels: facts and buttons give way."""
        boxes = [box for box in (*self._combos.values(), self.dial) if not box.isHidden()]
        return sum(measure(box).width() + 4 for box in boxes) + _AROUND

    def set_theme(self, theme: Theme) -> None:
        self.about.setIcon(icon("about", theme, colour=theme.muted))
        self.export.setIcon(icon("export", theme, colour=theme.muted))
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
    """Whether a panel's picture is far behind the run, told at most once a second.

    `changed`: the `Age` where the picture is stale, else None; `became_stale`: the age in words.
    """

    changed = Signal(object)
    became_stale = Signal(str)

    def __init__(self, ages: ReadingAges, clock: Callable[[], float], parent: QWidget) -> None:
        super().__init__(parent)
        self._ages, self._clock = ages, clock
        self._read: Mapping[str, int] = {}  # steps of the readings that are drawn
        self._shown: Age | None = None
        self._shown_at = 0.0  # when the age was last told

    def follow(self, run: object) -> None:
        """Forget the readings of another run than this one."""
        self._ages.follow(run)

    def reach(self, step: int) -> None:
        self._ages.reach(step, self._clock())

    def take(self, read: Mapping[str, int]) -> None:
        """The picture is made of readings of these steps."""
        self._read = read
        self._ages.take(read)

    def now(self, paused: bool) -> Age | None:
        return self._ages.age(self._read.values(), self._clock(), paused)

    def show(self, age: Age | None) -> None:
        """Tell this age; where the picture stays the same, its steps are counted once a second."""
        before, now = self._shown, self._clock()
        same = age is not None and before is not None and age.step == before.step
        if age == before or (same and now < self._shown_at + _SAID_EVERY):
            return
        self._shown, self._shown_at = age, now
        self.changed.emit(age)
        if age is not None and before is None:
            self.became_stale.emit(age.words)


class PanelDock(QWidget):
    """Draws one panel from the views it is given; a fault in its drawing stays in its frame."""

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
        """What panels have in common: `linked`, `steps` and `ages`."""
        super().__init__(parent)
        self.panel_id = panel_id
        self.spec = spec
        self.setObjectName(f"panel_{panel_id}")
        self.setAccessibleName(spec.title)
        self.setMinimumHeight(LEAST_HEIGHT)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)  # wherever it is clicked it is in front
        self.drawn = DrawnPanel(spec)
        self._linked = linked or LinkedSelection(self)
        self._steps = steps or LinkedSteps(self)
        self._linked.changed.connect(self._follow)
        self._steps.changed.connect(self._mark_steps)
        self._shown: Shown | None = None
        self._made_of: tuple[object, ...] = ()  # what `_shown` was made of
        self._state: State = "waiting"
        self._last_fault = ""
        self._every = 0.0
        self.age = PictureAge(ages or ReadingAges(), clock, self)
        self.age.changed.connect(
            lambda age: self.setAccessibleDescription("" if age is None else age.words)
        )
        self._theme = theme
        self._header = PanelHeader(self.drawn, theme, self.set_choice)
        ask_about = partial(self.about_requested.emit, panel_id)
        ask_export = partial(self.export_requested.emit, panel_id)
        ask_animation = partial(self.animation_requested.emit, panel_id)
        self._header.about.clicked.connect(lambda: ask_about())
        self._header.export.clicked.connect(lambda: ask_export())
        self.charts = ChartControls(
            self, self._make_scene_view, ask_export, ask_about, ask_animation
        )
        self.charts.changed.connect(lambda: self.show_view(self.drawn.view, self._every))
        go_on, cancel = GoOnReading(spec.probes), CancelReading(spec.probes)
        self.message = PanelMessage()
        self.message.accepted.connect(lambda: self.command_wanted.emit(go_on))
        self._pages = QStackedWidget()
        self._pages.addWidget(self.message)
        self._footer = TextLine(theme)
        self._header.dial.chosen.connect(lambda n: self.command_wanted.emit(SetProbeExamples(n)))
        self._progress = RefinementBar(spec)
        self._progress.cancelled.connect(lambda: self.command_wanted.emit(cancel))
        self._progress.resumed.connect(lambda: self.command_wanted.emit(go_on))
        below = row((self._footer, 1), self._progress)
        parts = (self._header.layout(), (self._pages, 1), below)
        column(*parts, into=self, margins=(8, 2, 8, 2), spacing=0)
        self.set_theme(theme)
        self.show_view(View())

    # What others use

    def show_view(self, view: View, every: float = 0.0) -> None:
        """Draw the view with this panel's own choices; `every`: seconds between drawings."""
        self._every = every
        before = self.drawn.view
        if view.run is not before.run and self.charts.made is not None:
            self.charts.made.steps.follow()  # it has other steps
            self._steps.follow()
        self.age.follow(view.run)
        if view.run is not before.run or view.pictures is not before.pictures:
            self._linked.unpin()  # there are other examples in these places, or other layers
        self.drawn.view = view = self.drawn.with_choices(view, self._linked.pinned)
        if view.cursor is None:
            self.age.reach(view.step)
        try:
            self._header.fill_combos()
            shown = self._draw()
        except Exception as error:  # the panel's last line of defence: the window lives on
            self._fail(error)
            return
        self._last_fault = ""
        self._shown = shown
        if view.cursor is None and isinstance(shown, Scene):
            readings = readings_of(self.spec, view)
            self.age.take({one.probe: one.step for one in readings} or {"": shown.step})
        self._state = self._state_of(shown)
        match shown:
            case Scene():
                self._header.facts.set_facts(shown.facts)
                self.charts.view.pointer.slow_down(every > _TRAINS)
                self._show_age(shown)
                self._pages.setCurrentWidget(self.charts.view)
            case Empty():
                self._header.facts.set_facts(())
                self._footer.set_text("")
                self.age.show(None)
                said = message(self._state, self.spec, view, shown)
                self.message.say(*said[:2], offer=said[2])
                self._pages.setCurrentWidget(self.message)
        self._header.dial.show_view(view)
        self._progress.show_view(view, isinstance(shown, Scene))
        self._header.export.setEnabled(isinstance(shown, Scene))

    def reach(self, step: int) -> None:
        """The run is at this step: a picture that stays far behind pales until the next one."""
        if self._state in ("live", "paused", "stale") and isinstance(self._shown, Scene):
            self.age.reach(step)
            before, self._state = self._state, self._state_of(self._shown)
            if "stale" in (before, self._state):
                self._show_age(self._shown)

    def set_choice(self, option_id: str, value: str) -> None:
        """Choose; unknown options are a fault of ours, unknown values fall back to the default.

        `CHART` is an option of every panel: the key of the chart where only one has room.
        """
        if option_id == CHART:
            if self.charts.made is not None:
                self.charts.made.charts.choose(value)
        elif not self._header.has_option(option_id):
            raise ValueError(f"panel {self.panel_id!r} has no option {option_id!r}")
        if self.drawn.choose(option_id, value):
            self.show_view(self.drawn.view, self._every)
            self.choices_changed.emit()

    def shown(self) -> Shown | None:
        """What the panel shows now, as the user set its charts; None after a fault."""
        return self._shown

    def state(self) -> State:
        return self._state

    def footer(self) -> str:
        return self._footer.text()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for part in (self._header, self._footer, self._progress):
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
        if press_focused_button(event):
            return
        made, key = self.charts.made, event.key()
        plain = event.modifiers() in (
            Qt.KeyboardModifier.NoModifier,
            Qt.KeyboardModifier.KeypadModifier,
        )
        obeyed = False
        if key == Qt.Key.Key_Escape:
            obeyed = self._linked.unpin()
        elif made is not None and isinstance(self._shown, Scene):
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                made.click_at_cursor()
                obeyed = True
            elif key in _ARROWS and plain:
                obeyed = made.pointer.move_cursor(*_ARROWS[Qt.Key(key)])
        if not obeyed:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._header.fit(self.width())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._header.width_of(ElidedBox.minimumSizeHint), LEAST_HEIGHT)

    # Inside

    def _draw(self) -> Shown:
        """Return what the panel shows, as its charts are set; what is there where it is the same.

        Where the picture was made of the same things neither the panel nor its charts are asked.
        """
        drawn = self.drawn.draw(self.drawn.view)
        if not isinstance(drawn, Scene):
            return drawn
        cursor, marks = self.drawn.view.cursor, self._steps.marks
        made_of = drawn, cursor, marks, self.charts.settings
        same = len(self._made_of) == len(made_of) and all(
            one is other for one, other in zip(self._made_of, made_of, strict=True)
        )
        if same and self._shown is not None:  # None: it failed
            return self._shown
        self._made_of = ()
        scene = with_delta(at_step(drawn, cursor), marks)
        shown = self.charts.show(scene, self.drawn.draw_with, self.drawn.other_choices)
        self._made_of = made_of
        return shown

    def _make_scene_view(self) -> SceneView:
        from dgn_viewer.plots.scene_view import SceneView

        scene = SceneView(self._theme)
        scene.chosen.connect(self.set_choice)
        scene.chart_chosen.connect(lambda key: self.set_choice(CHART, key))
        scene.charts.choose(self.drawn.choices.get(CHART, ""))
        scene.links.explain = lambda chart, x, y: example_readout(self.drawn.view, chart, x, y)
        self._linked.join(scene)
        self._steps.join(scene)
        self._pages.addWidget(scene)
        return scene

    def _state_of(self, shown: Shown) -> State:
        readings = readings_of(self.spec, self.drawn.view)
        if isinstance(shown, Empty):
            if is_pending(self.spec, self.drawn.view):
                return "reading"
            return "unavailable" if any(reading.absent for reading in readings) else "waiting"
        if self.drawn.view.cursor is not None:
            return "past"
        run = self.drawn.view.run
        trains = run is not None and not run.inspected and self.drawn.view.diverged is None
        if trains and self.age.now(self.drawn.view.paused):
            return "stale"  # of a run that pauses, too, until its last step is read
        return "paused" if self.drawn.view.paused else "live"

    def _show_age(self, shown: Scene) -> None:
        """Pale what is not of the network as it is, and say of which step it is."""
        state = self._state
        self._footer.set_text(footer(state, self.spec, self.drawn.view, shown, self._every))
        stands = self.drawn.view.diverged is not None and state != "past" and bool(self.spec.probes)
        self.charts.view.dim(stands or state == "stale")
        self._header.facts.set_dimmed(stands or state == "stale")
        self.age.show(self.age.now(self.drawn.view.paused) if state == "stale" else None)

    def _follow(self) -> None:
        """Choose what was pinned, or again what was chosen before."""
        self.drawn.follow_pin()
        view = self.drawn.view
        if self.drawn.with_choices(view, self._linked.pinned).choices != view.choices:
            self.show_view(view, self._every)
            self.choices_changed.emit()

    def _mark_steps(self) -> None:
        """Draw anew where there is a time axis to mark."""
        if isinstance(self._shown, Scene) and any(one.timed for one in self._shown.charts):
            self.show_view(self.drawn.view, self._every)

    def _fail(self, error: Exception) -> None:
        details = "".join(traceback.format_exception(error))
        self._shown = None
        self._state = "failed"
        sentence = (
            f"{self.spec.title} could not be drawn at step {self.drawn.view.step:,} "
            f"({type(error).__name__}). The next frame tries again."
        )
        self._header.facts.set_facts(())
        self.age.show(None)
        self.message.say("This panel failed", sentence, details)
        self._pages.setCurrentWidget(self.message)
        self._header.export.setEnabled(False)
        self._footer.set_text("")
        if details != self._last_fault:
            self._last_fault = details
            _log.error("panel %s failed", self.panel_id, exc_info=error)
