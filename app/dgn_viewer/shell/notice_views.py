"""The three places that show notices: line in the status bar, list, and question row."""

from __future__ import annotations

from functools import cached_property

from PySide6.QtWidgets import QWidget

from dgn_viewer.notices import Notices
from dgn_viewer.shell.banner import QuestionRow
from dgn_viewer.shell.notice_line import NoticeLine
from dgn_viewer.shell.notice_list import NoticeList
from dgn_viewer.shell.statusbar import StatusBar
from dgn_viewer.shell.window_theme import WindowTheme


class NoticeViews:
    """Line, list and question row; they update themselves."""

    def __init__(
        self, notices: Notices, status: StatusBar, window: QWidget, theme: WindowTheme
    ) -> None:
        self._notices, self._status, self._window, self._theme = notices, status, window, theme
        self.line = line = NoticeLine(notices)
        self.question = QuestionRow(notices, window)
        status.add_notice_widget(line, lambda: line.entry is not None)
        notices.changed.connect(status.share_room)
        notices.list_wanted.connect(lambda entry: self.list.open_at(entry))
        for part in (self.question, self.line):
            theme.changed.connect(part.set_theme)

    @cached_property
    def list(self) -> NoticeList:
        """The list, made when it is first opened."""
        made = NoticeList(self._notices, self._window, self._status)
        self._theme.follow(made)
        return made
