"""The notice in the status bar: one sentence, its buttons, and access to the list."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QCursor, QMouseEvent
from PySide6.QtWidgets import QApplication, QFrame, QPushButton, QToolButton, QWidget

from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.views.event_notices import Kind, NoticeButton, ShownNotice
from dgn_viewer.notices import Notices
from dgn_viewer.style.stylesheet import mix_colours, plain_tip, themed_icon
from dgn_viewer.widgets.announcement import announce_text
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import PlainLabel, make_row, push_button

ICONS: dict[Kind, str] = {"info": "about", "refused": "warning", "failed": "warning"}
_KINDS: dict[Kind, str] = {"info": "Notice", "refused": "Refused", "failed": "Failed"}


def colour_of(kind: Kind, theme: Theme) -> str:
    return theme.accent if kind == "info" else theme.refused


class AnswerRow(QWidget):
    """Row of buttons that can be replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.buttons: list[QPushButton] = []
        self._row = make_row(0, into=self, spacing=4)

    def set_buttons(self, buttons: list[QPushButton]) -> None:
        for old in self.buttons:
            self._row.removeWidget(old)
            old.hide()
            old.deleteLater()
        self.buttons = buttons
        for index, button in enumerate(buttons):
            self._row.insertWidget(index, button)
        self.setVisible(bool(buttons))


def make_answer_buttons(notices: Notices, entry: ShownNotice) -> list[QPushButton]:
    return [
        push_button(button.text, _answer_callback(notices, entry, button), "small")
        for button in notices.buttons_for(entry)
    ]


def _answer_callback(
    notices: Notices, entry: ShownNotice, button: NoticeButton
) -> Callable[[], None]:

    def answer_and_refocus() -> None:
        focused = QApplication.focusWidget()
        if focused is not None:  # the button disappears
            focused.window().setFocus(Qt.FocusReason.OtherFocusReason)
        notices.press_button(entry, button)

    return answer_and_refocus


class _Sentence(ElidedLabel):
    """Text of the notice; a click opens the list at this notice."""

    clicked = Signal()

    def __init__(self) -> None:
        super().__init__("", least=60)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.clicked.emit()


class NoticeLine(QFrame):
    """Line with the newest open notice; without one, only the button of the list."""

    def __init__(
        self, notices: Notices, say: Callable[[QWidget, str, bool], object] = announce_text
    ) -> None:
        """`say(widget, words, urgent)` announces text to screen readers."""
        super().__init__()
        self._say = say
        self.setObjectName("notice_line")
        self._notices = notices
        self._entry: ShownNotice | None = None
        self._showing: tuple[object, ...] = ()
        self._theme = LIGHT
        self._icon = PlainLabel()
        self.sentence = _Sentence()
        self.more = self._make_tool_button("", "Open the list of notices")
        self.more.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        self.details = QPushButton("Details")
        self.close_button = self._make_tool_button("×", "Close this notice; it stays in the list")
        self.list_button = self._make_tool_button("", "Recent notices")
        self.details.setProperty("role", "small")
        self._answers = AnswerRow()
        make_row(
            self._icon,
            (self.sentence, 1),
            self.more,
            self._answers,
            self.details,
            self.close_button,
            self.list_button,
            into=self,
            margins=(6, 0, 2, 0),
            spacing=4,
        )
        for opener in (self.sentence.clicked, self.more.clicked, self.details.clicked):
            opener.connect(self._open_list)
        self.list_button.clicked.connect(lambda: notices.list_wanted.emit(None))
        self.close_button.clicked.connect(self._close_notice)
        notices.held = self._is_pointed_at
        notices.changed.connect(self.refresh_line)
        notices.told.connect(self._announce_entry)
        self.set_theme(LIGHT)
        self.refresh_line()

    @property
    def entry(self) -> ShownNotice | None:
        return self._entry

    def offer_buttons(self) -> list[QPushButton]:
        return self._answers.buttons

    def refresh_line(self) -> None:
        entry = self._notices.notice_on_show()
        buttons = self._notices.buttons_for(entry) if entry is not None else ()
        hidden = self._notices.count_hidden()
        content = (entry, hidden, tuple(button.text for button in buttons))
        if content == self._showing:
            return
        self._entry, self._showing = entry, content
        self._answers.set_buttons(
            [] if entry is None else make_answer_buttons(self._notices, entry)
        )
        for widget in (self._icon, self.sentence, self.close_button):
            widget.setVisible(entry is not None)
        self.more.setVisible(hidden > 0)
        self.more.setText(f"{hidden} more")
        self.details.setVisible(entry is not None and bool(entry.notice.details))
        self.sentence.show_text(entry.notice.text if entry is not None else "")
        self.sentence.setAccessibleName(
            self._spoken_text(entry) if entry is not None else "No notice"
        )
        self._apply_style()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.list_button.setIcon(themed_icon("more", theme, colour=theme.muted))
        self._apply_style()

    # Internal

    def _is_pointed_at(self) -> bool:
        """Return whether the pointer is over the line; underMouse() alone can be outdated."""
        return self.underMouse() and self.rect().contains(self.mapFromGlobal(QCursor.pos()))

    @staticmethod
    def _make_tool_button(text: str, about: str) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(plain_tip(about))
        button.setAccessibleName(about)
        button.setIconSize(QSize(14, 14))
        return button

    def _close_notice(self) -> None:
        if self._entry is not None:
            self._notices.close_notice(self._entry)

    def _open_list(self) -> None:
        self._notices.list_wanted.emit(self._entry)

    def _announce_entry(self, entry: ShownNotice) -> None:
        self._say(self.sentence, self._spoken_text(entry), entry.notice.kind != "info")

    @staticmethod
    def _spoken_text(entry: ShownNotice) -> str:
        return f"{_KINDS[entry.notice.kind]}: {entry.notice.text}"

    def _apply_style(self) -> None:
        """Tint offers with the accent; mark problems with a coloured edge."""
        entry, theme = self._entry, self._theme
        if entry is None:
            self.setStyleSheet("#notice_line { background: transparent; border: none; }")
            return
        colour = colour_of(entry.notice.kind, theme)
        share = 0.22 if _has_offers(entry) else 0.0 if entry.notice.kind == "info" else 0.08
        self._icon.setPixmap(
            themed_icon(ICONS[entry.notice.kind], theme, colour=colour).pixmap(14, 14)
        )
        self.setStyleSheet(
            f"#notice_line {{ background: {mix_colours(theme.window, colour, share)}; "
            "border: none; "
            f"border-left: 3px solid {colour}; }} #notice_line QLabel {{ color: {theme.text}; }} "
            "#notice_line QToolButton { font-size: 12px; }"
        )


def _has_offers(entry: ShownNotice | None) -> bool:
    return entry is not None and bool(entry.notice.offers)
