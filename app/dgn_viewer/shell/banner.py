"""The tinted rows under the toolbar that say what is not an ordinary run.

A network of a file that is inspected, a comparison, a recorded run; a question that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QPushButton, QToolButton, QWidget

from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.run_text import branch_in_words, data_in_words, middle_cut, reading_of
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.storage.runs.folder_layout import is_same_folder
from dgn_engine.views.event_notices import Told
from dgn_viewer.notices import Notices
from dgn_viewer.shell.notice_line import AnswerRow, answers
from dgn_viewer.style.stylesheet import mixed
from dgn_viewer.timeline.compared_cursor import ComparedCursor
from dgn_viewer.timeline.step_cursor import StepCursor
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import FixedBar, PlainLabel

_AS_IN_THE_FILE = "Every panel shows this network as it is in the file; nothing changes it"
_CUTS = (60, 44, 32, 22)  # letters that names have where there is less and less room


@dataclass(frozen=True)
class Message:
    """What a banner says: one sentence, or one about A and one about B; ids of its buttons."""

    texts: tuple[tuple[str, ...], ...]  # (text, what its tip adds, shorter texts where it has some)
    buttons: tuple[str, ...]


@dataclass(frozen=True)
class ShownSteps:
    """The recorded steps that are shown as A and B, None where it is what is there now; what the
    run of B is called."""

    a: int | None = None
    b: int | None = None
    run_of_b: str = ""


def inspection(now: RunState, shown: ShownSteps = ShownSteps()) -> Message | None:
    """The network that is inspected, and what is compared with what."""
    compared, run, inspected = now.comparison, now.run, now.inspected
    if run is None:
        return None
    if compared is not None:
        ours, tip_a = _run_of_a(now), "A, what is shown beside it"
        if shown.a is not None:
            ours += f" · step {shown.a:,}"
        theirs, about = f"{compared.name} · {compared.about}", ""
        stops: tuple[str, ...] = ()
        branch = now.branch
        now_of_it = compared.at_step is None
        if branch is not None and now_of_it and is_same_folder(branch.folder, compared.folder):
            theirs, about = branch_in_words(branch), f" ({branch.name}; {branch.sharing})"
            stops = ("run.stop_branch",) if branch.trains else ()
        tip_b = f"B, what is compared with: {theirs}{about}"
        if shown.b is not None:  # not its network: what was recorded then
            theirs = f"{shown.run_of_b} · step {shown.b:,}"
            tip_b = f"B, what is compared with: {theirs}, as it was recorded then{about}"
        texts = ((ours, tip_a), (theirs, tip_b))
        return Message(texts, (*stops, "view.compare", "file.close_comparison"))
    if not inspected:
        return None
    known = f", {now.scored.sentence}" if now.scored is not None else ""
    reading = f", {reading_of(run)}" if run.assuming else ""
    data = data_in_words(run.config.data)
    text = f"Inspecting {inspected} on {data}{known}{reading} – not training"
    shorter = (
        f"{middle_cut(inspected, most)} on {middle_cut(data, most)}{known}{more} – not training"
        for more in dict.fromkeys((reading, ""))
        for most in _CUTS
    )
    tip = _AS_IN_THE_FILE
    if now.scored is not None and not now.scored.unknown:
        tip += (
            ". Its n-th output is taken for the n-th class of these data: where the file has its "
            "classes in another order, it is better than it seems"
        )
    if run.assuming:
        tip += (
            f". The file does not say what stands between its layers: {run.assuming} and all else "
            "are as you said. If this is not the accuracy you know, the reading is wrong"
        )
    buttons = ("run.train_on", "run.train_on_gates", "file.new_run")
    return Message(((text, tip, *shorter),), buttons)


def _run_of_a(now: RunState) -> str:
    if now.inspected:
        return f"{now.inspected}, not training"
    if now.recorded is not None:
        return f"{now.recorded.name}, {now.regime}, not training"
    return f"current run, {now.regime}"


def recording(now: RunState) -> Message | None:
    """Which recorded run is shown, and how it ended."""
    shown = now.recorded
    if shown is None:
        return None
    if shown.live:
        words = f"{shown.name} · recorded by another process, live"
        tip = "Another process trains this run; every panel follows what it writes"
        back = ("file.go_back",) if shown.replaced else ()
        return Message(((words, tip),), back)
    run = f"{shown.name} · step {shown.step:,}"
    words = f"Recorded run {run} · {shown.status}"
    if shown.file_name:
        words = f"Session {shown.file_name} · run {run}"
    tip = "Every panel shows what was recorded; nothing is trained"
    back = ("file.go_back",) if shown.replaced else ()
    goes_on = () if now.run is not None and now.run.watched else ("run.toggle",)
    return Message(((f"{words} – not training", tip),), (*goes_on, *back))


class TintedRow(FixedBar):
    """In a tint of the accent, as strong as `SHARE` says."""

    SHARE = 0.12

    def set_theme(self, theme: Theme) -> None:
        tint = mixed(theme.window, theme.accent, self.SHARE)
        self.setStyleSheet(
            f"QToolBar {{ padding: 0; border: none; background: {tint}; }}"
            f"#banner {{ background: {tint}; }} #banner QLabel {{ color: {theme.text}; }}"
        )


class Banner(TintedRow):
    """Shows the message that the state calls for; hidden where there is none."""

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
        self.buttons = {name: _button(action) for name, action in actions.items()}
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
        for place, (badge, label) in enumerate(self._sides):
            badge.setVisible(len(message.texts) == 2)
            label.setVisible(place < len(message.texts))
            if place < len(message.texts):
                label.say(*message.texts[place])
        for name, button in self.buttons.items():
            button.setVisible(name in message.buttons)
        self.show()  # last: with all of its buttons it would be wider than a small screen

    def renew(self) -> None:
        self.show_state(self._now)

    def texts(self) -> tuple[str, ...]:
        """What is said now, A before B."""
        return tuple(label.text() for _, label in self._sides if not label.isHidden())

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        for (badge, _), tone in zip(self._sides, (theme.text, theme.compared), strict=True):
            badge.setStyleSheet(
                f"color: {theme.panel}; background: {tone}; border-radius: 4px; "
                "padding: 1px 6px; font-weight: bold;"
            )


class StandingBanner(Banner):
    """The network that is inspected, and what is compared with what, at which steps."""

    def __init__(
        self, a: StepCursor, b: ComparedCursor, actions: Mapping[str, QAction], window: QWidget
    ) -> None:
        def message(now: RunState) -> Message | None:
            return inspection(now, ShownSteps(a.step, b.step, b.name))

        super().__init__("bar.standing", "Inspected and compared", message, actions, window)
        for cursor in (a, b):
            cursor.changed.connect(self.renew)


class QuestionRow(TintedRow):
    """A notice that something waits for, with its answers; hidden where there is none."""

    SHARE = 0.28

    def __init__(self, notices: Notices, window: QWidget) -> None:
        super().__init__("bar.question", "Question", window)
        self._notices = notices
        self._entry: Told | None = None
        self.sentence = ElidedLabel("", least=60)
        self._answers = AnswerRow()
        self.add_line("banner", (self.sentence, 1), self._answers, margins=(12, 4, 8, 4))
        notices.changed.connect(self.renew)
        self.set_theme(LIGHT)
        self.renew()

    def answers(self) -> list[QPushButton]:
        """The buttons, the safe one first."""
        return self._answers.buttons

    def renew(self) -> None:
        entry = self._notices.question()
        self.setVisible(entry is not None)
        if entry is self._entry:
            return
        self._entry = entry
        self.sentence.say(entry.notice.text if entry is not None else "")
        self._answers.put([] if entry is None else answers(self._notices, entry))


def _button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setIconSize(QSize(16, 16))
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    return button
