"""The program log in its own window."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QFontDatabase, QGuiApplication, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from dgn_engine.storage.program_log import end_of_log, log_path
from dgn_viewer.widgets.layouts import (
    make_column,
    make_row,
    plain_label,
    push_button,
    resize_to_fit,
)

_SIZE = (860, 560)


class LogWindow(QWidget):
    """Non-modal window with the end of the log; reloaded each time it is opened."""

    def __init__(
        self, window: QWidget, browse: Callable[[QUrl], object] = QDesktopServices.openUrl
    ) -> None:
        """`browse` opens a folder."""
        super().__init__(window, Qt.WindowType.Window)
        self._browse = browse
        self.setWindowTitle("Log")
        resize_to_fit(self, *_SIZE)
        self.place = plain_label("", "muted", selectable=True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Log")
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.renew = push_button("Reload", self.reload_log)
        self.copy = push_button("Copy", self._copy_text, about="Copy the whole text")
        self.folder = push_button(
            "Open folder", self._open_folder, about="Open the folder of the log files"
        )
        make_column(
            plain_label(
                "Startups, notices, and errors with tracebacks, newest last. "
                "The log stays on this machine; attach it to bug reports."
            ),
            self.place,
            (self.text, 1),
            make_row(1, self.renew, self.copy, self.folder),
            into=self,
            margins=(12, 12, 12, 12),
            spacing=8,
        )

    def open(self) -> None:
        self.reload_log()
        self.show()
        self.raise_()
        self.activateWindow()
        self.text.setFocus()

    def reload_log(self) -> None:
        """Reload the end of the log and scroll to its last line."""
        path = log_path()
        self.place.setText(str(path))
        try:
            text = end_of_log().rstrip()
        except FileNotFoundError:
            text = "There is no log yet."
        except OSError as error:
            text = f"Cannot read {path}: {error.strerror}."
        self.text.setPlainText(text)
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        self.text.moveCursor(QTextCursor.MoveOperation.StartOfLine)
        self.folder.setEnabled(path.parent.is_dir())

    def _copy_text(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())

    def _open_folder(self) -> None:
        self._browse(QUrl.fromLocalFile(str(log_path().parent)))
