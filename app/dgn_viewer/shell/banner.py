"""The tinted rows under the toolbar for anything but an ordinary run.

An inspected network, a comparison, a recorded run, or a question that needs an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QPushButton, QToolButton, QWidget

from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.run_text import (
    describe_assumption,
    describe_branch,
    describe_data,
    name_in_words,
    shorten_middle,
)
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.storage.runs.folder_layout import is_same_folder
from dgn_engine.views.event_notices import ShownNotice
from dgn_viewer.notices import Notices
from dgn_viewer.shell.notice_line import AnswerRow, make_answer_buttons
from dgn_viewer.style.stylesheet import mix_colours, set_sheet
from dgn_viewer.timeline.compared_cursor import ComparedCursor
from dgn_viewer.timeline.step_cursor import StepCursor
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import FixedBar, PlainLabel

_AS_IN_THE_FILE = "All panels show the network in this file; it is not trained"
_UNLIMITED = 16_777_215  # Qt's largest width
_CUTS = (60, 44, 32, 22)  # maximum lengths of names, as the space shrinks


@dataclass(frozen=True)
class Message:
    """Content of a banner: a sentence, or one each for A and B; ids of its buttons."""

    texts: tuple[tuple[str, ...], ...]  # (text, addition to its tooltip, *shorter texts)
    buttons: tuple[str, ...]


@dataclass(frozen=True)
class ShownSteps:
    """Recorded steps shown as A and B (None: the current state), and the name of B's run."""

    a: int | None = None
    b: int | None = None
    run_of_b: str = ""


def inspection_message(now: RunState, shown: ShownSteps = ShownSteps()) -> Message | None:
    """Return the message about the inspected network, or about the comparison."""
    compared, run, inspected = now.comparison, now.run, now.inspected_file
    if run is None:
        return None
    if compared is not None:
        text_a, tip_a = _run_of_a(now), "A, compared with B"
        if shown.a is not None:
            text_a += f" · step {shown.a:,}"
        text_b, about = f"{name_in_words(compared.name)} · {compared.about}", ""
        stop_button: tuple[str, ...] = ()
        shorter_b: tuple[str, ...] = ()
        branch = now.branch
        is_current = compared.at_step is None
        if branch is not None and is_current and is_same_folder(branch.folder, compared.folder):
            text_b, about = describe_branch(branch), f" ({branch.name}; {branch.sharing})"
            now_at = f"step {branch.step:,}"
            shorter_b = (f"branch from step {branch.from_step:,} · {now_at}", f"branch · {now_at}")
            stop_button = ("run.stop_branch",) if branch.is_training else ()
        tip_b = f"B: {text_b}{about}"
        if shown.b is not None:  # a recorded step, not the current network
            shorter_b = ()
            text_b = f"{shown.run_of_b} · step {shown.b:,}"
            tip_b = f"B: {text_b}, as recorded at that step{about}"
        texts = ((text_a, tip_a), (text_b, tip_b, *shorter_b))
        return Message(
            texts, (*stop_button, "view.side_by_side", "view.compare", "file.close_comparison")
        )
    if not inspected:
        return None
    accuracy = f", {now.scored.sentence}" if now.scored is not None else ""
    reading = f", {describe_assumption(run)}" if run.assuming else ""
    data = describe_data(run.config.data)
    text = f"Inspecting {inspected} on {data}{accuracy}{reading} – not training"
    shorter = (
        f"{shorten_middle(inspected, cut)} on {shorten_middle(data, cut)}{accuracy}{more} "
        "– not training"
        for more in dict.fromkeys((reading, ""))
        for cut in _CUTS
    )
    tip = _AS_IN_THE_FILE
    if now.scored is not None and not now.scored.unknown:
        tip += (
            ". Output n is assumed to be class n of this data set; if the file orders its classes "
            "differently, the true accuracy is higher"
        )
    if run.assuming:
        tip += (
            f". The file does not specify everything between its layers: {run.assuming} and the "
            "rest are your choices. If the accuracy is not what you expect, check them"
        )
    buttons = ("run.train_on", "run.train_on_gates", "file.new_run")
    return Message(((text, tip, *shorter),), buttons)


def _run_of_a(now: RunState) -> str:
    if now.inspected_file:
        return f"{now.inspected_file}, not training"
    if now.recorded is not None:
        return f"{name_in_words(now.recorded.name)}, {now.regime}, not training"
    return f"this run, {now.regime}"


def recording_message(now: RunState) -> Message | None:
    """Return the message about the recorded run on show."""
    shown = now.recorded
    if shown is None:
        return None
    if shown.is_live:
        text = f"{name_in_words(shown.name)} · recorded by another process, live"
        tip = "Another process is training this run; all panels follow it live"
        go_back = ("file.go_back",) if shown.replaced else ()
        return Message(((text, tip),), go_back)
    run = f"{name_in_words(shown.name)} · step {shown.step:,}"
    text = f"Recorded run {run} · {shown.status}"
    if shown.file_name:
        text = f"Session {shown.file_name} · run {run}"
    tip = "All panels show recorded data; nothing is being trained"
    go_back = ("file.go_back",) if shown.replaced else ()
    resume = () if now.run is not None and now.run.watched else ("run.toggle",)
    return Message(((f"{text} – not training", tip),), (*resume, *go_back))


class TintedRow(FixedBar):
    """Row tinted with the accent colour, with strength `SHARE`."""

    SHARE = 0.12

    def set_theme(self, theme: Theme) -> None:
        tint = mix_colours(theme.window, theme.accent, self.SHARE)
        set_sheet(
            self,
            f"QToolBar {{ padding: 0; border: none; background: {tint}; }}"
            f"#banner {{ background: {tint}; }} #banner QLabel {{ color: {theme.text}; }}",
        )


class Banner(TintedRow):
    """Row that shows the message for the current state; hidden if there is none."""

    def __init__(
        self,
        name: str,
        title: str,
        message: Callable[[RunState], Message | None],
        actions: Mapping[str, QAction],
        window: QWidget,
        margin: int = 2,
    ) -> None:
        super().__init__(name, title, window)
        self._message = message
        self._sides = tuple((PlainLabel(letter), ElidedLabel("", least=12)) for letter in "AB")
        self.buttons = {name: _tool_button(action) for name, action in actions.items()}
        parts = (*self._sides[0], *self._sides[1], *self.buttons.values())
        self.add_line("banner", *parts, margins=(12, margin, 8, margin))
        self.set_theme(LIGHT)
        self.show_state(RunState())

    def show_state(self, now: RunState) -> None:
        self._now = now
        message = self._message(now)
        if message is None:
            self.hide()
            return
        for index, (badge, label) in enumerate(self._sides):
            badge.setVisible(len(message.texts) == 2)
            label.setVisible(index < len(message.texts))
            if index < len(message.texts):
                label.show_text(*message.texts[index])
        self._leave_room_to_b(len(message.texts) == 2)
        for name, button in self.buttons.items():
            button.setVisible(name in message.buttons)
        self.show()  # last: with all buttons visible it would be wider than a small screen

    def _leave_room_to_b(self, compares: bool) -> None:
        """Make A as wide as its text: B, which says more, has the rest."""
        label = self._sides[0][1]
        needed = label.fontMetrics().horizontalAdvance(label.text()) + 4
        label.setMaximumWidth(needed if compares else _UNLIMITED)

    def refresh_banner(self) -> None:
        self.show_state(self._now)

    def shown_texts(self) -> tuple[str, ...]:
        """Return the texts shown, A before B."""
        return tuple(label.text() for _, label in self._sides if not label.isHidden())

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        for (badge, _), tone in zip(self._sides, (theme.text, theme.compared), strict=True):
            set_sheet(
                badge,
                f"color: {theme.panel}; background: {tone}; border-radius: 4px; "
                "padding: 1px 6px; font-weight: bold;",
            )


class StandingBanner(Banner):
    """Banner for the inspected network or the comparison, with the steps shown."""

    def __init__(
        self, a: StepCursor, b: ComparedCursor, actions: Mapping[str, QAction], window: QWidget
    ) -> None:
        def current_message(now: RunState) -> Message | None:
            return inspection_message(now, ShownSteps(a.step, b.step, name_in_words(b.name)))

        super().__init__("bar.standing", "Inspected and compared", current_message, actions, window)
        for cursor in (a, b):
            cursor.changed.connect(self.refresh_banner)


class QuestionRow(TintedRow):
    """Row with a notice that needs an answer; hidden if there is none."""

    SHARE = 0.28

    def __init__(self, notices: Notices, window: QWidget) -> None:
        super().__init__("bar.question", "Question", window)
        self._notices = notices
        self._entry: ShownNotice | None = None
        self.sentence = ElidedLabel("", least=60)
        self._answers = AnswerRow()
        self.add_line("banner", (self.sentence, 1), self._answers, margins=(12, 4, 8, 4))
        notices.changed.connect(self.refresh_question)
        self.set_theme(LIGHT)
        self.refresh_question()

    def answer_buttons(self) -> list[QPushButton]:
        """Return the buttons, the safe one first."""
        return self._answers.buttons

    def refresh_question(self) -> None:
        entry = self._notices.open_question()
        self.setVisible(entry is not None)
        if entry is self._entry:
            return
        self._entry = entry
        self.sentence.show_text(entry.notice.text if entry is not None else "")
        self._answers.set_buttons(
            [] if entry is None else make_answer_buttons(self._notices, entry)
        )


def _tool_button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setIconSize(QSize(16, 16))
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    return button
