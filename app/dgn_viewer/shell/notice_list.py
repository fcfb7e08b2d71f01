"""The list of recent notices: time, text and the actions that are still possible."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFontDatabase, QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QPushButton, QToolButton, QVBoxLayout, QWidget

from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.views.event_notices import ShownNotice
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.notices import Notices
from dgn_viewer.shell.notice_line import ICONS, AnswerRow, colour_of, make_answer_buttons
from dgn_viewer.style.stylesheet import themed_icon
from dgn_viewer.widgets.layouts import (
    PlainLabel,
    make_column,
    make_row,
    make_scroll_area,
    plain_label,
    push_button,
)

_WIDTH, _HEIGHT = 600, 420
_MARGIN = 8


class NoticeRow(QFrame):
    """One notice: time, kind, text, step and buttons."""

    def __init__(self, entry: ShownNotice, notices: Notices, theme: Theme) -> None:
        super().__init__()
        self.entry = entry
        self._notices = notices
        self._names: tuple[str, ...] = ("not yet",)
        step = "" if entry.step is None else f"\nstep {entry.step:,}"
        when = PlainLabel(f"{entry.time}{step}", role="small")
        self._icon = PlainLabel()
        self.label = plain_label(entry.notice.text, selectable=True, breaks=True)
        self.label.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.setAccessibleName(f"{entry.time}, {entry.notice.kind}: {entry.notice.text}")
        top = Qt.AlignmentFlag.AlignTop
        headline = make_row((self.label, 1), spacing=8)
        headline.insertWidget(0, self._icon, 0, top)
        headline.insertWidget(0, when, 0, top)
        self.details = QPlainTextEdit(entry.notice.details)
        self.details.setReadOnly(True)
        self.details.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.details.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.details.setFixedHeight(150)
        self.details.hide()
        self._buttons = AnswerRow()
        make_column(
            headline, self._buttons, self.details, into=self, margins=(8, 4, 8, 4), spacing=2
        )
        self.set_theme(theme)
        self.refresh_row()

    def buttons_by_text(self) -> dict[str, QPushButton]:
        return {button.text(): button for button in self._buttons.buttons}

    def refresh_row(self) -> None:
        step = self._notices.step_to_show(self.entry)
        offers = self._notices.buttons_for(self.entry)
        details = bool(self.entry.notice.details)
        names = (*(offer.text for offer in offers), str(step), str(details))
        if names == self._names:
            return
        self._names = names
        buttons = make_answer_buttons(self._notices, self.entry)
        if step is not None:
            tip = "Zoom the step axes to this step"
            buttons.append(push_button("Go to step", self._go_to_step, "small", tip))
        if details:
            buttons.append(push_button("Details", self.show_details, "small"))
            buttons.append(push_button("Copy", self._copy_details, "small"))
        self._buttons.set_buttons(buttons)

    def show_details(self) -> None:
        """Show or hide the traceback."""
        self.details.setVisible(self.details.isHidden())

    def set_theme(self, theme: Theme) -> None:
        kind = self.entry.notice.kind
        self._icon.setPixmap(
            themed_icon(ICONS[kind], theme, colour=colour_of(kind, theme)).pixmap(14, 14)
        )

    def _go_to_step(self) -> None:
        step = self._notices.step_to_show(self.entry)
        if step is not None:
            self._notices.step_wanted.emit(step)

    def _copy_details(self) -> None:
        notice = self.entry.notice
        QGuiApplication.clipboard().setText(f"{notice.text}\n\n{notice.details}")


class NoticeList(QFrame):
    """List in the lower right corner of the window, newest notice first."""

    def __init__(self, notices: Notices, window: QWidget, above: QWidget) -> None:
        """`above`: the status bar; the list is placed on top of it."""
        super().__init__(window)
        self.setObjectName("notice_list")
        self.setAccessibleName("Recent notices")
        self._notices, self._window, self._above = notices, window, above
        self._theme = LIGHT
        self._shown: list[NoticeRow] = []
        heading = PlainLabel("Recent notices", role="heading")
        self.close_button = QToolButton()
        self.close_button.setToolTip("Close the list")
        self.close_button.setAccessibleName("Close the list")
        self.close_button.setIconSize(QSize(12, 12))
        self.close_button.clicked.connect(self.hide_and_refocus)
        self._empty = plain_label("No notices yet.", "muted")
        self._page = QWidget()
        self._rows: QVBoxLayout = make_column(into=self._page, spacing=0)
        self._rows.addStretch(1)
        self._area = make_scroll_area(self._page)
        header = make_row((heading, 1), self.close_button)
        make_column(
            header, self._empty, (self._area, 1), into=self, margins=(8, 6, 6, 6), spacing=4
        )
        notices.changed.connect(self._refresh_rows)
        EventFilter(self, {QEvent.Type.Resize: lambda _event: self._on_resize()}, window)
        self.hide()

    def notice_rows(self) -> list[NoticeRow]:
        """Return the notices, newest first."""
        return list(self._shown)

    def open_at(self, entry: ShownNotice | None) -> None:
        """Show the list at this notice; without a notice, toggle the list."""
        if entry is None and self.isVisible():
            self.hide_and_refocus()
            return
        self.show()
        self.raise_()
        self._refresh_rows()
        self._stay_in_corner()
        self.close_button.setFocus(Qt.FocusReason.OtherFocusReason)
        for notice_row in self.notice_rows():
            if notice_row.entry is entry:
                if entry.notice.details and notice_row.details.isHidden():
                    notice_row.show_details()
                self._page.adjustSize()
                self._area.ensureWidgetVisible(notice_row)

    def hide_and_refocus(self) -> None:
        """Hide the list and return the focus to the window."""
        if self.isVisible():
            self.hide()
            self._window.setFocus(Qt.FocusReason.OtherFocusReason)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.close_button.setIcon(themed_icon("close", theme, colour=theme.muted))
        for notice_row in self.notice_rows():
            notice_row.set_theme(theme)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.hide_and_refocus()
        else:
            super().keyPressEvent(event)

    # Internal

    def _refresh_rows(self) -> None:
        """Update the rows while the list is visible, reusing existing ones."""
        if not self.isVisible():
            return
        entries = list(reversed(self._notices.entries))
        rows = {notice_row.entry: notice_row for notice_row in self._shown}
        for entry, removed in rows.items():
            if entry not in entries:
                self._rows.removeWidget(removed)
                removed.hide()
                removed.deleteLater()
        for index, entry in enumerate(entries):
            if entry not in rows:
                rows[entry] = NoticeRow(entry, self._notices, self._theme)
                self._rows.insertWidget(index, rows[entry])
        self._shown = [rows[entry] for entry in entries]
        for notice_row in self.notice_rows():
            notice_row.refresh_row()
        self._empty.setVisible(not entries)
        self._area.setVisible(bool(entries))

    def _on_resize(self) -> None:
        if self.isVisible():
            self._stay_in_corner()

    def _stay_in_corner(self) -> None:
        width = min(_WIDTH, self._window.width() - 2 * _MARGIN)
        height = min(_HEIGHT, self._above.y() - 2 * _MARGIN)
        self.setGeometry(
            self._window.width() - width - _MARGIN, self._above.y() - height - 2, width, height
        )
