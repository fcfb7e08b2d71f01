"""The time bar below all panels: play, slider over the steps, back to live, probe examples."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QAction, QActionGroup, QResizeEvent
from PySide6.QtWidgets import QMenu, QToolBar, QToolButton, QWidget

from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.views.history import History
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.style.stylesheet import plain_tip, set_sheet
from dgn_viewer.timeline.looking_back import background_colour
from dgn_viewer.timeline.probe_examples_dial import ProbeExamplesDial
from dgn_viewer.timeline.step_cursor import SPEEDS, StepCursor
from dgn_viewer.timeline.step_slider import StepSlider
from dgn_viewer.widgets.layouts import FixedBar, PlainLabel, make_row

_GUIDE = (
    "Drag, press ← and →, or double-click a chart over steps to look back; training continues. "
    "Esc or End: back to live"
)
_NARROW = 1200  # pixels of a bar whose words are short: beside the list of runs it has 250 less


def align_sides(*bars: tuple[QToolBar, QWidget, QWidget]) -> None:
    """Keep the areas left and right of the sliders equally wide in all visible bars.

    Equal steps of runs of equal length are then aligned vertically.

    Args:
        bars: Each bar with the widgets left and right of its slider.
    """

    def align_shown_bars(_event: QEvent) -> None:
        shown = [bar for bar in bars if not bar[0].isHidden()]
        _align_widths(left for _, left, _ in shown)
        _align_widths(right for _, _, right in shown)

    # A bar is shown or hidden, or its text changes length.
    kinds = (QEvent.Type.LayoutRequest, QEvent.Type.ShowToParent, QEvent.Type.HideToParent)
    EventFilter(
        bars[0][0], dict.fromkeys(kinds, align_shown_bars), *(part for bar in bars for part in bar)
    )


def _align_widths(sides: Iterable[QWidget]) -> None:
    sides = list(sides)
    layouts = (side.layout() for side in sides)
    width = max((layout.sizeHint().width() for layout in layouts if layout is not None), default=0)
    for side in sides:
        if side.minimumWidth() != width:
            side.setMinimumWidth(width)


class TimeBar(FixedBar):
    """Bar that shows and moves the step cursor; tinted while a past step is shown.

    `KEYS`: keys that move it from anywhere in the window, unless another widget handles them.
    """

    KEYS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End)

    def __init__(
        self,
        cursor: StepCursor,
        history: History,
        play: QAction,
        live: QAction,
        compare: QAction,
        window: QWidget,
    ) -> None:
        super().__init__("bar.time", "Time", window)
        self._cursor, self._history = cursor, history
        self._theme = LIGHT
        self._tinted: bool | None = None
        self.slider = StepSlider()
        self.slider.wanted.connect(cursor.go_to)
        self.slider.moved.connect(cursor.move_by)
        self.slider.reach_chosen.connect(cursor.choose_reach)
        self.slider.ended.connect(lambda first: cursor.go_to_first() if first else cursor.go_live())
        self.play = _tool_button(play, Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.live = _tool_button(live, Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.compare = _tool_button(compare, Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.play.setMenu(self._make_speed_menu())
        self.play.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        self.label = PlainLabel("", self)
        self.label.setMinimumWidth(120)
        self.label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.left, self.right = QWidget(), QWidget()  # left and right of the slider
        make_row(self.play, 1, into=self.left)
        self.dial = ProbeExamplesDial()
        shown = ((self.label, 1), self.compare, self.live, self.dial)
        make_row(*shown, into=self.right, spacing=8)
        parts = (self.left, (self.slider, 1), self.right)
        self.add_line("time_line", *parts, margins=(8, 0, 8, 0))
        cursor.changed.connect(self.refresh_bar)
        cursor.reach_changed.connect(self.refresh_bar)
        cursor.steps_changed.connect(self.refresh_bar)
        self.set_theme(LIGHT)
        self.refresh_bar()

    def refresh_bar(self) -> None:
        cursor, why = self._cursor, self._cursor.reason_not_available
        step, last = cursor.step, cursor.last_step
        self.slider.setEnabled(not why)
        _set_tip(self.slider, why or _GUIDE)
        self.slider.show_reach(cursor.reach)
        self.slider.show_time(step, last, cursor.steps, () if why else self._history.marks)
        self.label.setText(self._label_text())
        past = self._history.past
        problem = "" if past is None else past.trouble
        _set_tip(self.label, why or problem or cursor.keeper.memory_text)
        self._shorten_words()
        self.live.setVisible(step is not None)
        self.dial.show_state(self._history.shown_state, step is not None)
        self.compare.setVisible(step is not None)
        self._apply_tint(step is not None)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.slider.set_theme(theme)
        self._tinted = None
        self._apply_tint(self._cursor.step is not None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if (event.size().width() < _NARROW) != (event.oldSize().width() < _NARROW):
            self.refresh_bar()

    def _shorten_words(self) -> None:
        """Leave the words of a button to its tooltip where the bar is narrow."""
        style = Qt.ToolButtonStyle
        narrow = self.width() < _NARROW
        self.compare.setToolButtonStyle(
            style.ToolButtonIconOnly if narrow else style.ToolButtonTextBesideIcon
        )

    def _label_text(self) -> str:
        cursor = self._cursor
        if cursor.reason_not_available:
            return "no history"
        shown = self._history.state.recorded
        if cursor.step is None and shown is not None and not shown.is_live:
            return "last step"
        if cursor.step is None:
            return "live · history in memory" if cursor.keeper.memory_text else "live"
        then, now = self._history.shown_state.regime, self._history.state.regime
        if self.width() < _NARROW:  # the tint says that it is the past, the toolbar the regime
            return f"step {cursor.step:,} of {cursor.last_step:,}"
        regime = f" · {then}" if then != now else ""
        return f"looking back · step {cursor.step:,} of {cursor.last_step:,}{regime}"

    def _apply_tint(self, back: bool) -> None:
        if back == self._tinted:
            return
        self._tinted, theme = back, self._theme
        tint = background_colour(theme, self._cursor.step)
        set_sheet(
            self,
            f"QToolBar {{ padding: 0; border: none; border-top: 1px solid {theme.line}; "
            f"background: {tint}; }} #time_line {{ background: {tint}; }} "
            "#time_line QToolButton { padding: 1px 3px; } "
            '#time_line QToolButton[popupMode="1"] { padding-right: 16px; } '
            f"#time_line QLabel {{ color: {theme.text if back else theme.muted}; }}",
        )

    def _make_speed_menu(self) -> QMenu:
        menu, group = QMenu("Playback speed", self), QActionGroup(self)
        for speed in SPEEDS:
            steps = "step" if speed == 1 else "steps"
            action = menu.addAction(f"{speed} recorded {steps} per second")
            action.setCheckable(True)
            action.setChecked(speed == self._cursor.player.speed)
            action.triggered.connect(partial(self._cursor.player.set_speed, speed))
            group.addAction(action)
        return menu


def _set_tip(widget: QWidget, words: str) -> None:
    """Set a tooltip unless it is unchanged, so that Qt does not send an event."""
    if plain_tip(words) != widget.toolTip():
        widget.setToolTip(plain_tip(words))


def _tool_button(action: QAction, style: Qt.ToolButtonStyle) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setIconSize(QSize(16, 16))
    button.setToolButtonStyle(style)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    return button
