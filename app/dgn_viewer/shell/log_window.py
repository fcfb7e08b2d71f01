"""The program's log in a window of its own: its end, as text to copy, and the way to its folder."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QFontDatabase, QGuiApplication, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from dgn_engine.storage.program_log import end_of_log, log_path
from dgn_viewer.widgets.layouts import column, open_at, plain_label, push_button, row

_SIZE = (860, 560)


class LogWindow(QWidget):
    """Nothing in it waits or is modal; the text is read anew each time it is opened."""

    def __init__(
        self, window: QWidget, browse: Callable[[QUrl], object] = QDesktopServices.openUrl
    ) -> None:
        """`browse`: opens a folder."""
        super().__init__(window, Qt.WindowType.Window)
        self._browse = browse
        self.setWindowTitle("Log")
        open_at(self, *_SIZE)
        self.place = plain_label("", "muted", selectable=True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Log")
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.renew = push_button("Read again", self.read)
        self.copy = push_button("Copy", self._copy, about="Copy all of this text")
        self.folder = push_button("Open folder", self._open_folder, about="Where the files lie")
        column(
            plain_label(
                "Starts, notices, and faults with their tracebacks, the newest last. "
                "It stays on this machine; send it with a report of trouble."
            ),
            self.place,
            (self.text, 1),
            row(1, self.renew, self.copy, self.folder),
            into=self,
            margins=(12, 12, 12, 12),
            spacing=8,
        )

    def open(self) -> None:
        self.read()
        self.show()
        self.raise_()
        self.activateWindow()
        self.text.setFocus()

    def read(self) -> None:
        """Read the end of the log, and show its last line."""
        path = log_path()
        self.place.setText(str(path))
        try:
            said = end_of_log().rstrip()
        except FileNotFoundError:
            said = "There is no log yet."
        except OSError as error:
            said = f"{path} cannot be read: {error.strerror}."
        self.text.setPlainText(said)
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        self.text.moveCursor(QTextCursor.MoveOperation.StartOfLine)
        self.folder.setEnabled(path.parent.is_dir())

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())

    def _open_folder(self) -> None:
        self._browse(QUrl.fromLocalFile(str(log_path().parent)))
