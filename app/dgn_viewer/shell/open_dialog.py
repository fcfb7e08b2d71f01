"""The dialog that opens anything: files and folders, chosen, typed or pasted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QSize, QUrl
from PySide6.QtWidgets import (
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QSplitter,
    QTreeView,
    QWidget,
)

from dgn_engine.errors import UserError
from dgn_engine.storage.runs.folder_layout import results_root, runs_root
from dgn_viewer.shell.opened_paths import CONFIGURED, PACKED, WEIGHTS, PathKind, path_kind
from dgn_viewer.widgets.message_line import MessageLine

_KINDS: dict[PathKind, str] = {
    "run": "a recorded run, shown at its last step",
    "session": "a session, a run with its window layout",
    "configuration": "a configuration, which starts a new run",
    "checkpoint": "a checkpoint; nothing changes until you confirm",
    "result": "the result of an experiment",
    "images": "images, chosen as the data of a new run",
}
_ENDINGS = (*WEIGHTS, ".dgn", CONFIGURED, ".json", *PACKED)
_FILTERS = (f"Everything that opens ({' '.join(f'*{e}' for e in _ENDINGS)})", "All files (*)")
_SIZE = QSize(820, 500)
_SIDEBAR = 160  # pixels
_TYPE = 2  # column
_HINT = "Choose a file or a folder, or paste a path."


class OpenDialog(QFileDialog):
    """Says what the chosen file or folder is before it is opened.

    A recorded run, a result and images are folders; 'Open' takes them, and enters any other folder.
    Not the platform's dialog, which takes either files or folders.
    """

    def __init__(self, parent: QWidget, folder: str, opened: Callable[[str], object]) -> None:
        super().__init__(parent, "Open", folder)
        option = QFileDialog.Option
        self.setOptions(option.DontUseNativeDialog | option.ReadOnly | option.HideNameFilterDetails)
        self.resize(_SIZE)
        self.setFileMode(QFileDialog.FileMode.ExistingFile)
        self.setNameFilters(_FILTERS)
        places = (Path.home(), runs_root(), results_root())
        self.setSidebarUrls([QUrl.fromLocalFile(str(p)) for p in places if p.is_dir()])
        self._arrange_columns()
        self.said = MessageLine()
        self.open_folder = QPushButton("Open this folder")
        self.open_folder.setAutoDefault(False)
        self.open_folder.clicked.connect(lambda: self.finish(Path(self.directory().path())))
        layout = self.layout()
        assert isinstance(layout, QGridLayout)
        layout.addWidget(self.said, layout.rowCount(), 0, 1, layout.columnCount())
        buttons = self.findChild(QDialogButtonBox)
        assert isinstance(buttons, QDialogButtonBox)
        buttons.addButton(self.open_folder, QDialogButtonBox.ButtonRole.ActionRole)
        self.path_line.textChanged.connect(self._describe_typed)
        self.directoryEntered.connect(lambda _folder: self._describe_folder())
        self.fileSelected.connect(opened)
        self.finished.connect(self.deleteLater)
        self._describe_folder()

    def _arrange_columns(self) -> None:
        """Show whole names and dates; the line below says the type better than Qt does."""
        splitter, files = self.findChild(QSplitter), self.findChild(QTreeView)
        assert isinstance(splitter, QSplitter)
        assert isinstance(files, QTreeView)
        splitter.setSizes([_SIDEBAR, _SIZE.width() - _SIDEBAR])
        header = files.header()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        files.hideColumn(_TYPE)

    @property
    def path_line(self) -> QLineEdit:
        line = self.findChild(QLineEdit, "fileNameEdit")
        assert isinstance(line, QLineEdit)
        return line

    def typed_path(self) -> Path | None:
        """Return the chosen, typed or pasted path; None if there is none."""
        text = self.path_line.text().strip().strip('"')
        text = QUrl(text).toLocalFile() if text.startswith("file:") else text
        return Path(self.directory().path(), os.path.expanduser(text)) if text else None  # noqa: PTH111 (also of nobody)

    def accept(self) -> None:
        """Open the chosen or typed path; enter a folder that cannot be opened."""
        path = self.typed_path()
        if path is None:
            return
        try:
            path_kind(path)
        except UserError as refusal:
            if os.path.isdir(path):  # noqa: PTH112
                self.setDirectory(str(path))
                self.path_line.clear()
                self._describe_folder()
            else:
                self.said.show_refusal(str(refusal))
        else:
            self.finish(path)

    def finish(self, path: Path) -> None:
        """Close the dialog and open the path."""
        self.fileSelected.emit(str(path))
        self.done(QFileDialog.DialogCode.Accepted)

    def _describe_typed(self) -> None:
        path = self.typed_path()
        if path is None or not os.path.exists(path):  # noqa: PTH110 (still being typed)
            self._describe_folder()
            return
        try:
            self.said.show_message(f"{path.name}: {_KINDS[path_kind(path)]}.")
        except UserError as refusal:
            is_folder = os.path.isdir(path)  # noqa: PTH112
            self.said.show_message(_HINT if is_folder else str(refusal))

    def _describe_folder(self) -> None:
        """Offer the folder that is entered if it can be opened itself."""
        folder = Path(self.directory().path())
        try:
            text = f"{folder.name}: {_KINDS[path_kind(folder)]}."
        except UserError:
            text = ""
        self.open_folder.setEnabled(bool(text))
        self.said.show_message(text or _HINT)
