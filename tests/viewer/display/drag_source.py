"""A program that offers one file to drag: `python drag_source.py FILE X Y`.

Stands in for the file manager: the drag is between two programs, by XDND.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDrag, QMouseEvent
from PySide6.QtWidgets import QApplication, QLabel

SIZE = 60  # pixels


class Source(QLabel):
    """A square from which the file is dragged."""

    def __init__(self, file: Path) -> None:
        super().__init__(file.name)
        self._file = file

    def mousePressEvent(self, event: QMouseEvent) -> None:
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(self._file))])
        drag = QDrag(self)
        drag.setMimeData(data)
        drag.exec(Qt.DropAction.CopyAction)


def main() -> int:
    file, x, y = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    application = QApplication([])
    source = Source(file)
    source.setWindowFlag(Qt.WindowType.FramelessWindowHint)
    source.setGeometry(x, y, SIZE, SIZE)
    source.show()
    print("shown", flush=True)
    return application.exec()


if __name__ == "__main__":
    sys.exit(main())
