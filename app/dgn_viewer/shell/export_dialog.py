"""The export dialog: a preview of the figure at final size, and its options.

It shows the panels as they were when it was opened, while the window continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication, QImage, QPixmap
from PySide6.QtWidgets import QDialog, QFileDialog, QScrollArea

from dgn_engine.errors import UserError
from dgn_engine.figures.figure_style import TEXT, FigureStyle
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.text.written_numbers import format_number
from dgn_engine.views.event_notices import Notice
from dgn_viewer.shell.export_form import KINDS, NUMBERS, ExportForm
from dgn_viewer.shell.figure_thread import FigureThread
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.widgets.layouts import (
    PlainLabel,
    make_column,
    make_row,
    make_scroll_area,
    push_button,
    resize_to_fit,
)
from dgn_viewer.widgets.message_line import MessageLine

_PAUSE_MS = 150  # pause after the last edit before the preview is drawn
_DPI = 96.0  # screen resolution at 100 %: a figure inch is about a screen inch
_PAGE = 9.5  # text height of a page, inches
_PREVIEW = "preview"
Write = Callable[[Sequence[FigurePanel], Path, FigureStyle, bool], tuple[Path, ...]]


class ExportDialog(QDialog):
    """Non-modal dialog; training and panels continue behind it.

    `capture` returns the current panels; `empty`: titles of panels that show nothing.
    """

    def __init__(
        self,
        context: WindowContext,
        capture: Callable[[], tuple[FigurePanel, ...]],
        chosen: Sequence[str],
        write: Write,
        thread: FigureThread,
        empty: Sequence[str] = (),
    ) -> None:
        super().__init__(context.window)
        self.setObjectName("export_dialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._context, self._capture, self._write = context, capture, write
        self._thread, self._empty = thread, tuple(empty)
        self._chosen = tuple(chosen)
        self.panels: tuple[FigurePanel, ...] = ()
        self._named: tuple[str, ...] = ()
        self._closed = False  # results of later writes appear only as notices
        self.form = ExportForm()
        self.form.restore_choices(context.settings.export_choices)
        self.picture = PlainLabel()
        self.picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.picture.setAccessibleName("Figure preview")
        self.caption = MessageLine(selectable=True)  # of the preview, or why there is none
        self.said = MessageLine(selectable=True)  # result of saving or copying
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._draw_preview)
        self._lay_out()
        self.form.changed.connect(self._on_change)
        self.said.end_with(self.form.changed)
        self.capture_newest()

    def capture_newest(self) -> None:
        try:
            self.panels = self._capture()
        except UserError as refusal:
            self._show_refusal(str(refusal))
            return
        self.form.offer_panels(self.panels, self.form.chosen_panels() or self._chosen)
        self._named = ()
        self._on_change()

    def save(self) -> QFileDialog | None:
        """Ask for a file name; the file is written in the figure thread."""
        return self._ask_file(self.form.kind)

    def save_script(self) -> QFileDialog | None:
        return self._ask_file("py")

    def copy_to_clipboard(self) -> None:
        """Copy the figure to the clipboard, at PNG resolution."""
        try:
            panels, style = self._current_choice()
        except UserError as refusal:
            self._show_refusal(str(refusal))
            return

        def on_rendered(result: Any) -> None:
            if self._check_result(result):
                QGuiApplication.clipboard().setImage(QImage.fromData(result))
                self._show_message("Figure copied to the clipboard.")

        self._thread.run_job(lambda: _render_png(panels, style, style.dpi), on_rendered)

    def done(self, result: int) -> None:
        """Save the options and drop a pending preview; files in progress are completed."""
        self._closed = True
        self._context.settings.export_choices = self.form.choices()
        self._pause.stop()
        self._thread.drop_jobs(_PREVIEW)
        super().done(result)

    # Internal

    def _lay_out(self) -> None:
        sheet = QScrollArea()
        sheet.setAccessibleName("Preview")
        sheet.setWidget(self.picture)
        sheet.setWidgetResizable(True)
        form = make_scroll_area(self.form)
        form.setFixedWidth(300)
        newest = push_button("Refresh", self.capture_newest, about="Update to the current panels")
        copy = push_button("Copy", self.copy_to_clipboard, about="Copy the figure as an image")
        script = push_button(
            "Save script…",
            self.save_script,
            about="Save a Python script that redraws the figure with matplotlib",
        )
        save = push_button("Save…", self.save, role="primary")
        save.setDefault(True)
        buttons = make_row(newest, 1, copy, script, save, spacing=8)
        body = make_row((sheet, 1), form, spacing=12)
        make_column(
            body, self.caption, self.said, buttons, into=self, margins=(12, 12, 12, 12), spacing=8
        )
        resize_to_fit(self, 1000, 660)

    def _current_choice(self) -> tuple[list[FigurePanel], FigureStyle]:
        names = self.form.require_panels()
        return [panel for panel in self.panels if panel.name in names], self.form.figure_style()

    def _on_change(self) -> None:
        names = self.form.chosen_panels()
        if names != self._named:
            self._named = names
            self.form.offer_names([panel for panel in self.panels if panel.name in names])
        steps = {panel.context.step for panel in self.panels if panel.name in names}
        titles = [panel.context.title for panel in self.panels if panel.name in names]
        subject = titles[0] if len(titles) == 1 else f"{len(titles)} panels"
        step = f" · step {max(steps):,}" if steps else ""
        self.setWindowTitle(f"Export {subject}{step}")
        self._pause.start()

    def _draw_preview(self) -> None:
        try:
            panels, style = self._current_choice()
        except UserError as refusal:
            self._thread.drop_jobs(_PREVIEW)
            self.caption.show_message(str(refusal), "refused")
            return
        if self.form.in_separate_files:
            panels = panels[:1]
        ratio = self.devicePixelRatio()

        def on_preview(result: Any) -> None:
            if isinstance(result, UserError):
                self.caption.show_message(str(result), "refused")
                return
            if isinstance(result, Exception):
                raise result
            pixmap = QPixmap()
            pixmap.loadFromData(result, "PNG")
            pixmap.setDevicePixelRatio(ratio)
            self.picture.setPixmap(pixmap)
            self.caption.show_message(self._preview_caption(panels, style, pixmap))

        self._thread.run_job(lambda: _render_png(panels, style, _DPI * ratio), on_preview, _PREVIEW)

    def _preview_caption(
        self, panels: Sequence[FigurePanel], style: FigureStyle, shown: QPixmap
    ) -> str:
        if self.form.kind in NUMBERS:
            return "The file contains the data of the panels; figure options do not apply."
        height = shown.height() / shown.devicePixelRatio() / _DPI
        font_sizes = (
            f"{format_number(style.text_size)} and {format_number(style.small_text_size)} pt"
        )
        text = (
            f"{format_number(style.width)} × {format_number(height, 3)} in, text at {font_sizes}."
        )
        if height > _PAGE:
            text += f" That is taller than a page; try a width of {format_number(TEXT)} in."
        if self.form.in_separate_files and len(self.form.chosen_panels()) > 1:
            text += f" Showing the first of {len(self.form.chosen_panels())} files."
        return f"{text} Empty panels left out: {', '.join(self._empty)}." if self._empty else text

    def _ask_file(self, kind: str) -> QFileDialog | None:
        try:
            panels, style = self._current_choice()
        except UserError as refusal:
            self._show_refusal(str(refusal))
            return None
        apart = self.form.in_separate_files
        step = max(panel.context.step for panel in panels)
        name = panels[0].name if len(panels) == 1 else "dgn"
        dialog = QFileDialog(self, "Save", self._context.settings.export_folder)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        kinds = {kind: KINDS[kind], **KINDS}
        filters = {f"{label} (*.{ending})": ending for ending, label in kinds.items()}
        dialog.setNameFilters(list(filters))
        dialog.setDefaultSuffix(kind)
        dialog.filterSelected.connect(lambda label: dialog.setDefaultSuffix(filters[label]))
        dialog.selectFile(f"{name}-step{step}")
        dialog.fileSelected.connect(lambda path: self._write_file(panels, Path(path), style, apart))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
        return dialog

    def _write_file(
        self, panels: Sequence[FigurePanel], path: Path, style: FigureStyle, apart: bool
    ) -> None:
        def on_written(result: Any) -> None:
            if self._check_result(result, tell=True):
                self._context.settings.export_folder = str(path.parent)
                text = _saved_message(result, self._empty)
                self._show_message(text)
                self._context.notify(Notice("info", text))

        self._show_message(f"Saving {path.name}…")
        self._thread.run_job(lambda: self._write(panels, path, style, apart), on_written)

    def _check_result(self, result: Any, tell: bool = False) -> bool:
        """Return whether there is a result; show a refusal, raise any other error."""
        if isinstance(result, UserError):
            self._show_message("")
            self._show_refusal(str(result))
            if tell:
                self._context.notify_refusal(str(result))
            return False
        if isinstance(result, Exception):
            raise result
        return True

    def _show_message(self, words: str) -> None:
        if not self._closed:
            self.said.show_message(words)

    def _show_refusal(self, why: str) -> None:
        if not self._closed:
            self.said.show_refusal(why)


def _render_png(panels: Sequence[FigurePanel], style: FigureStyle, dpi: float) -> bytes:
    # Importing matplotlib takes a quarter of a second: do so in the figure thread.
    from dgn_engine.figures.save_figure import page_bytes

    return page_bytes(panels, "png", style, dpi)


def _saved_message(files: Sequence[Path], skipped: Sequence[str]) -> str:
    folder = files[0].parent
    if len(files) == 1:
        text = f"{files[0].name} saved in {folder}."
    else:
        text = f"{len(files)} files saved in {folder}: {files[0].name} and others."
    return f"{text} Empty panels left out: {', '.join(skipped)}." if skipped else text
