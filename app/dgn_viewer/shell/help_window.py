"""The user guide in its own window: contents, search field and text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QTextBlock, QTextCursor
from PySide6.QtWidgets import (
    QComboBox,
    QLineEdit,
    QSplitter,
    QTextBrowser,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from dgn_engine.scene.theme import Theme
from dgn_engine.text.documents import built_site, document_titles, documents_folder
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.widgets.layouts import make_column, resize_to_fit

GUIDE = "guide.md"
_SIZE = (960, 720)
_CONTENTS = 240
_HEADING = re.compile(r"(#{1,3}) +(.+?) *$")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str


def iter_headings(markdown: str) -> Iterator[Heading]:
    """Yield the headings of a document, skipping code blocks."""
    code = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            code = not code
        elif not code and (match := _HEADING.match(line)):
            yield Heading(len(match[1]), match[2].replace("`", ""))


def without_site_markup(markdown: str) -> str:
    """Return a document without website markup: images become captions, formulas become code.

    Installed programs come without images.
    """
    markdown = re.sub(r"^!\[(.+?)\]\([^)]*\)$", r"*(\1)*", markdown, flags=re.MULTILINE)
    markdown = re.sub(r"^</?div[^>]*>$\n?", "", markdown, flags=re.MULTILINE)
    return re.sub(r"^\$\$\n(.*?)\n\$\$$", r"```\n\1\n```", markdown, flags=re.M | re.S)


class HelpWindow(QWidget):
    """Non-modal window; links open our documents here and other pages in the browser."""

    def __init__(
        self,
        window: QWidget,
        theme: Theme,
        browse: Callable[[QUrl], object] = QDesktopServices.openUrl,
    ) -> None:
        """`browse` opens a web page."""
        super().__init__(window, Qt.WindowType.Window)
        self._browse = browse
        self.setWindowTitle("User guide")
        resize_to_fit(self, *_SIZE)
        self._theme = theme
        self._name = ""
        self.pages = QComboBox()
        self.pages.setAccessibleName("Document")
        self.pages.setToolTip("Choose a document")
        self.pages.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        for page, title in document_titles().items():
            self.pages.addItem(title, f"{page}.md")
        self.pages.activated.connect(lambda _: self._load_document(self.pages.currentData()))
        self.contents = QTreeWidget()
        self.contents.setHeaderHidden(True)
        self.contents.setAccessibleName("Contents")
        self.contents.setRootIsDecorated(False)
        self.contents.setIndentation(12)
        self.contents.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.contents.currentItemChanged.connect(self._on_chosen)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Find in this document")
        self.search.setAccessibleName("Find in this document")
        self.search.setToolTip("Enter: find next")
        self.search.returnPressed.connect(self.find_next)
        self.text = QTextBrowser()
        self.text.setAccessibleName("Document")
        self.text.setOpenLinks(False)
        self.text.anchorClicked.connect(self.follow_link)
        self.text.document().setDocumentMargin(16)
        left = QWidget()
        make_column(
            self.pages, self.search, (self.contents, 1), into=left, margins=(8, 8, 4, 8), spacing=8
        )
        parts = QSplitter(Qt.Orientation.Horizontal)
        parts.addWidget(left)
        parts.addWidget(self.text)
        parts.setStretchFactor(1, 1)
        parts.setSizes([_CONTENTS, _SIZE[0] - _CONTENTS])
        make_column((parts, 1), into=self)

    def open(self, name: str = GUIDE) -> None:
        """Show a document, at the top unless it was already open."""
        if name != self._name:
            self._load_document(name)
        self.show()
        self.raise_()
        self.activateWindow()
        self.search.setFocus()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        if self._name:
            self._load_document(self._name)

    def find_next(self) -> bool:
        """Go to the next match, wrapping around; return whether there is one."""
        query = self.search.text()
        if not query:
            return False
        if self.text.find(query):
            return True
        self.text.moveCursor(QTextCursor.MoveOperation.Start)
        return self.text.find(query)

    def _load_document(self, name: str) -> None:
        try:
            markdown = (documents_folder() / name).read_text(encoding="utf-8")
        except OSError as error:
            markdown = f"# {name}\n\nCannot read this document: {error.strerror}."
        self._name = name
        self.pages.setCurrentIndex(self.pages.findData(name))
        self.text.setMarkdown(without_site_markup(markdown))
        self._set_spacing()
        self.contents.clear()
        ancestors: list[QTreeWidgetItem] = []
        for index, heading in enumerate(iter_headings(markdown)):
            item = QTreeWidgetItem([heading.text])
            item.setToolTip(0, plain_tip(heading.text))
            item.setData(0, Qt.ItemDataRole.UserRole, index)
            del ancestors[max(heading.level - 1, 0) :]
            if ancestors:
                ancestors[-1].addChild(item)
            else:
                self.contents.addTopLevelItem(item)
            ancestors.append(item)
        self.contents.expandAll()

    def _set_spacing(self) -> None:
        """Set line height and paragraph spacing for reading."""
        cursor = QTextCursor(self.text.document())
        block = self.text.document().begin()
        while block.isValid():
            form = block.blockFormat()
            form.setLineHeight(125.0, 1)  # per cent: QTextBlockFormat.ProportionalHeight
            if block.blockFormat().headingLevel():
                form.setTopMargin(18.0)
            form.setBottomMargin(6.0)
            cursor.setPosition(block.position())
            cursor.setBlockFormat(form)
            block = block.next()
        self.text.moveCursor(QTextCursor.MoveOperation.Start)

    def _on_chosen(self, item: QTreeWidgetItem | None) -> None:
        if item is None:
            return
        blocks = list(self.heading_blocks())
        index = int(item.data(0, Qt.ItemDataRole.UserRole))
        if index < len(blocks):
            self._show_block(blocks[index])

    def _show_block(self, block: QTextBlock) -> None:
        cursor = QTextCursor(block)
        self.text.setTextCursor(cursor)
        top = self.text.cursorRect(cursor).top()
        bar = self.text.verticalScrollBar()
        bar.setValue(bar.value() + top - 8)

    def heading_blocks(self) -> Iterator[QTextBlock]:
        """Yield the blocks that are listed in the contents."""
        block = self.text.document().begin()
        while block.isValid():
            if block.blockFormat().headingLevel() in (1, 2, 3):
                yield block
            block = block.next()

    def follow_link(self, link: QUrl) -> None:
        """Open one of our documents; open a page of the site or of the web in the browser."""
        name = "" if link.scheme() else self._linked_document(link.path())
        if name:
            self.open(name)
        elif not link.scheme() and (page := self._linked_page(link.path())) is not None:
            self._browse(QUrl.fromLocalFile(str(page)))
        if not link.scheme() and link.fragment():
            self._scroll_to_anchor(link.fragment())
        if link.scheme() in ("http", "https"):
            self._browse(link)

    def _linked_document(self, path: str) -> str:
        """Return the name of the document that a relative link refers to; '' if it is not ours."""
        folder = documents_folder().resolve()
        target = ((folder / self._name).parent / path).resolve()
        is_ours = target.suffix == ".md" and target.is_relative_to(folder) and target.is_file()
        return target.relative_to(folder).as_posix() if is_ours else ""

    def _linked_page(self, path: str) -> Path | None:
        """Return the generated page that a relative link refers to, if the site has been built."""
        if (site := built_site()) is None or not path.endswith(".md"):
            return None
        folder = site.parent.resolve()
        page = ((folder / self._name).parent / path).with_suffix(".html").resolve()
        return page if page.is_relative_to(folder) and page.is_file() else None

    def _scroll_to_anchor(self, anchor: str) -> None:
        """Scroll to the heading with this anchor, such as 'events'."""
        for block in self.heading_blocks():
            slug = re.sub(r"[^\w\- ]", "", block.text().casefold()).replace(" ", "-")
            if slug == anchor:
                self._show_block(block)
                return
