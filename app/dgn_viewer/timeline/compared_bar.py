"""The time bar of B: a slider over the recorded steps of the compared run."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QWidget

from dgn_engine.scene.run_text import name_in_words, shorten_middle
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.style.stylesheet import mix_colours, plain_tip, set_sheet
from dgn_viewer.timeline.compared_cursor import ComparedCursor
from dgn_viewer.timeline.step_cursor import StepCursor
from dgn_viewer.timeline.step_slider import StepSlider
from dgn_viewer.widgets.layouts import FixedBar, PlainLabel, make_row, push_button

_GUIDE = "The step of B shown in all panels: drag, or press ← and →. Training is not interrupted"
_NETWORK = "Show the last saved network of B, evaluated on the examples of A"
_LONGEST = 24  # characters of a name
_WITH_A = "Keep B at the same step as A"


class ComparedBar(FixedBar):
    """Bar that shows and moves the cursor of B; hidden if B has no recorded steps."""

    def __init__(self, cursor: ComparedCursor, a: StepCursor, window: QWidget) -> None:
        super().__init__("bar.time_of_b", "Time of B", window)
        self._cursor, self._a = cursor, a
        self._badge = PlainLabel("B")
        self.slider = StepSlider()
        self.slider.setObjectName("step_slider_of_b")
        self.slider.setAccessibleName("Step of B")
        self.slider.setToolTip(plain_tip(_GUIDE))
        self.slider.wanted.connect(cursor.go_to)
        self.slider.moved.connect(cursor.move_by)
        self.slider.ended.connect(cursor.go_to_end)
        self.label = PlainLabel("")
        self.label.setMinimumWidth(120)
        self.label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.with_a = QCheckBox("with A")
        self.with_a.setToolTip(plain_tip(_WITH_A))
        self.with_a.toggled.connect(lambda on: cursor.set_following_a(a.step, on))
        self.network = push_button("Network", cursor.show_network, "small", about=_NETWORK)
        self.left, self.right = QWidget(), QWidget()  # left and right of the slider
        make_row(self._badge, 1, into=self.left)
        make_row((self.label, 1), self.with_a, self.network, into=self.right, spacing=8)
        parts = (self.left, (self.slider, 1), self.right)
        self.add_line("time_of_b_line", *parts, margins=(8, 0, 8, 0))
        cursor.changed.connect(self.refresh_bar)
        a.changed.connect(lambda: cursor.follow_a(a.step))
        self.set_theme(LIGHT)
        self.refresh_bar()

    def refresh_bar(self) -> None:
        cursor = self._cursor
        step, last = cursor.step, cursor.last_step
        self.slider.show_time(step, last, cursor.steps, ())
        position = "current network" if step is None else f"step {step:,} of {last:,}"
        self.label.setText(f"{shorten_middle(name_in_words(cursor.name), _LONGEST)} · {position}")
        self.label.setToolTip(plain_tip(f"B: {cursor.name}, {position}"))
        self.network.setVisible(cursor.has_network and step is not None)
        self.with_a.blockSignals(True)
        self.with_a.setChecked(cursor.with_a)
        self.with_a.blockSignals(False)
        self.setVisible(cursor.has_steps)

    def set_theme(self, theme: Theme) -> None:
        self.slider.set_theme(theme)
        tint = mix_colours(theme.window, theme.compared, 0.10)
        set_sheet(
            self,
            f"QToolBar {{ padding: 0; border: none; border-top: 1px solid {theme.line}; "
            f"background: {tint}; }} #time_of_b_line {{ background: {tint}; }} "
            f"#time_of_b_line QLabel {{ color: {theme.text}; }}",
        )
        set_sheet(
            self._badge,
            f"color: {theme.panel}; background: {theme.compared}; border-radius: 4px; "
            "padding: 0px 6px; font-weight: bold;",
        )
