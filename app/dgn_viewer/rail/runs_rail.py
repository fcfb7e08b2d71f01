"""The list of recorded runs: open, continue, compare, overlay, annotate and delete them."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QMenu, QToolButton, QWidget

from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import (
    ContinueRun,
    CurvesRead,
    DeleteRun,
    NoteRun,
    ReadCurves,
    RecordedRun,
    RunsListed,
    ShowRun,
)
from dgn_engine.scene.theme import Theme
from dgn_engine.storage.runs.run_search import FIELDS, SearchField
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_viewer.rail.run_table import SORTS, RunTable, describe_run, run_title, trouble_in_words
from dgn_viewer.rail.runs_view import NotesField, RunsView
from dgn_viewer.style.stylesheet import plain_tip, set_sheet, themed_icon
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import (
    PlainLabel,
    make_column,
    make_row,
    plain_label,
    push_button,
)
from dgn_viewer.widgets.message_line import MessageLine

_NOTES_FROM, _BUTTONS_FROM = 400, 280  # pixels of height
_LONGEST_FILTER = 400  # characters; each word is looked for in each run while typing
_MOST_VALUES = 12  # values of a setting that the menu lists


class DeleteQuestion(QWidget):
    """An inline question whether to delete runs permanently; `answered` when it closes."""

    answered = Signal()

    def __init__(self, send: Callable[[Command], None]) -> None:
        super().__init__()
        self._send = send
        self._runs: tuple[RecordedRun, ...] = ()
        self.sentence = plain_label()
        self.yes = push_button("Delete forever", self._delete_runs)
        self.no = push_button("Cancel", self._dismiss_question)
        make_column(self.sentence, make_row(self.yes, self.no, 1, spacing=8), into=self, spacing=8)
        self.hide()

    def ask_deletion(self, runs: tuple[RecordedRun, ...]) -> None:
        """Ask whether to delete runs for which there is no trash."""
        size = bytes_in_words(sum(run.bytes for run in runs))
        name = run_title(runs[0]) if len(runs) == 1 else f"{len(runs)} runs"
        self.sentence.setText(f"No trash available for {name} ({size}). Delete forever?")
        self._runs = runs
        self.show()
        self.no.setFocus()

    def _delete_runs(self) -> None:
        runs = self._runs
        self._dismiss_question()
        for run in runs:
            self._send(DeleteRun(run.folder))

    def _dismiss_question(self) -> None:
        self._runs = ()
        self.hide()
        self.answered.emit()


class FilterMenu(QMenu):
    """The settings that runs can be filtered by, with the values that the listed runs have.

    `term_wanted(term, complete)`: insert 'regime:DL ', or 'best>' for the user to complete.
    """

    term_wanted = Signal(str, bool)

    def __init__(self, runs: RunTable, parent: QWidget) -> None:
        super().__init__(parent)
        self._runs = runs
        self._menus: list[QMenu] = []
        self.aboutToShow.connect(self._list_fields)

    def _list_fields(self) -> None:
        self.clear()
        for menu in self._menus:
            menu.deleteLater()
        self._menus = []
        for field in FIELDS:
            values = self._listed_values(field)
            if len(values) > 1 or (values and field.name in ("day", "tag")):
                menu = self.addMenu(field.about)
                self._menus.append(menu)
                for value in values:
                    quoted = f'"{value}"' if " " in value else value
                    action = menu.addAction(value.replace("&", "&&"))
                    term = f"{field.name}:{quoted}"
                    action.triggered.connect(
                        lambda _=False, term=term: self.term_wanted.emit(term, True)
                    )
            elif not values:
                action = self.addAction(f"{field.about} …")
                term = field.example.rstrip("0123456789.")
                action.triggered.connect(
                    lambda _=False, term=term: self.term_wanted.emit(term, False)
                )

    def _listed_values(self, field: SearchField) -> list[str]:
        """Return the values of the listed runs; none if there are many, as of accuracies."""
        values: dict[str | float, None] = {}
        for run in self._runs.runs:
            match field.value(run):
                case None | "" | ():
                    continue
                case tuple() as words:
                    values |= dict.fromkeys(words[-1:] if field.name == "day" else words)
                case value:
                    values[value] = None
            if len(values) > _MOST_VALUES and field.name not in ("day", "tag"):
                return []
        numbers = sorted(value for value in values if not isinstance(value, str))
        texts = [str(int(number) if float(number).is_integer() else number) for number in numbers]
        names = [value for value in values if isinstance(value, str)]
        texts += names if field.name == "day" else sorted(names, key=str.casefold)
        return texts[:_MOST_VALUES]


class RunsRail(QFrame):
    """The list of recorded runs, which only changes once the engine has answered.

    `export_wanted(run)`, `report_wanted(run)` and `trash_wanted(folders)` are left to the window,
    because they need a file dialog, a process and the platform's trash; so are `branch_wanted(run)`
    and `undo_wanted`. `listed`: a new list is shown.
    """

    branch_wanted = Signal(object)
    export_wanted = Signal(object)
    report_wanted = Signal(object)
    trash_wanted = Signal(tuple)
    undo_wanted = Signal()
    narrow_wanted = Signal()
    wide_wanted = Signal()
    listed = Signal()

    def __init__(self, send: Callable[[Command], None], theme: Theme) -> None:
        super().__init__()
        self.setObjectName("runs_rail")
        self.setAccessibleName("Runs")
        self._send = send
        self._root: str | None = None  # None until the engine has answered
        self._awaited = False  # a new list was requested
        self._outdated = ""  # why the displayed list is outdated, or ''
        self.runs = RunTable(theme, self)
        self.title = PlainLabel("Runs", role="heading")
        self.count = PlainLabel(role="muted")
        self.sort_button = _tool_button("Sort", "Sort the runs")
        self.narrower = _tool_button("«", "Narrower")
        self.wider = _tool_button("»", "Show all columns")
        self.search = QLineEdit()
        self.search.setPlaceholderText("Filter")
        self.search.setMaxLength(_LONGEST_FILTER)
        self.search.setToolTip(
            plain_tip("Words, and terms such as regime:DL, best>90, seed:3, tag:paper, day:today")
        )
        self.search.setAccessibleName("Filter the recorded runs")
        self.search.setClearButtonEnabled(True)
        for clear_button in self.search.findChildren(QToolButton):
            clear_button.setAccessibleName("Clear the filter")
        self.terms = _tool_button("By", "Filter by a setting")
        self.table = RunsView(self.runs)
        self.message = MessageLine("Reading the runs folder…")
        self.notes = NotesField(self.runs, send)
        about = "Continue training from its last checkpoint"
        self.go_on = push_button("Continue", self._continue_run, about=about)
        about = "Show its curves and last readings, without training"
        self.show_run = push_button("Open", self._show_run, about=about)
        about = "Compare its scores and network with the current run"
        self.compare = push_button("Compare", self._compare_run, about=about)
        about = "Remove all overlaid curves from the current run"
        self.untick = push_button("Untick all", self.runs.untick_all, "small", about=about)
        self.more = QToolButton()
        self._drawn = ElidedLabel(least=60)
        self.deletion = DeleteQuestion(send)
        self._make_menus()
        self._lay_out()
        self._connect_signals()
        self.set_theme(theme)
        self.show_form(wide=False)
        self._update_buttons()

    def show_form(self, wide: bool) -> None:
        """Show the list of lines, or the table of all columns."""
        self.table.show_form(wide)
        self.go_on.setVisible(wide)
        self.wider.setEnabled(not wide)
        self.narrower.setToolTip("Show the list" if wide else "Fold the list of runs")
        self.narrower.setAccessibleName(self.narrower.toolTip())

    def show_runs(self, listed: RunsListed) -> None:
        self._root = listed.root
        self._awaited, self._outdated = False, ""
        self.table.show_runs(listed.runs)
        self._update_buttons()
        self.listed.emit()

    def show_read(self, read: CurvesRead) -> None:
        """Keep ticked what was read, if this answers the present ticks."""
        if read.requested == self.runs.ticked:
            self.runs.show_read(
                [run.folder for run in read.runs],
                frozenset(run.folder for run in read.runs if not run.spectrum),
            )
            self._update_buttons()

    def await_list(self, working: str) -> None:
        """Expect a new list; `working` is what the engine is busy with, or ''."""
        self._awaited = True
        if working:
            self.show_work(working)

    def show_work(self, sentence: str) -> None:
        """Show what the engine is busy with before it can list the runs."""
        if self._root is None:
            self.message.show_message(f"Runs will be listed when the engine is ready: {sentence}.")
        elif self._awaited:
            self._outdated = f"This list will be updated when the engine is ready: {sentence}."
            self._update_buttons()

    def set_theme(self, theme: Theme) -> None:
        self.runs.set_theme(theme)
        self.more.setIcon(themed_icon("more", theme))
        lines = f"border: none; border-top: 1px solid {theme.line}; border-radius: 0px;"
        set_sheet(
            self,
            f"#runs_rail {{ background: {theme.panel}; }}"
            f"#runs_rail QTableView {{ {lines} border-bottom: 1px solid {theme.line}; }}"
            f"#runs_rail QTableView:focus {{ border-top: 1px solid {theme.accent}; }}",
        )

    def ask_to_delete_permanently(self, folders: tuple[str, ...]) -> None:
        """Ask whether to delete these runs permanently, because there is no trash for them."""
        runs = tuple(run for run in self.runs.runs if run.folder in folders)
        if runs and self._none_is_running(runs):
            self.deletion.ask_deletion(runs)

    def set_can_undo(self, can_undo: bool) -> None:
        """Let the list undo the last deletion with Ctrl+Z."""
        self.table.setProperty("can_undo", can_undo)

    def prepare_to_close(self) -> None:
        self.notes.save_notes()

    def insert_term(self, term: str, complete: bool) -> None:
        """Add a term to the filter, in place of another one of the same setting."""
        name = term.partition(":")[0].partition(">")[0]
        others = [
            word
            for word in self.search.text().split()
            if not word.startswith((f"{name}:", f"{name}>"))
        ]
        self.search.setText(" ".join((*others, term)) + (" " if complete else ""))
        self.search.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave a low window to the list: without notes, then without buttons and status."""
        super().resizeEvent(event)
        self.notes.setVisible(self.height() >= _NOTES_FROM)
        was_low = self._buttons.isHidden()
        self._buttons.setVisible(self.height() >= _BUTTONS_FROM)
        if was_low != self._buttons.isHidden():
            self._update_buttons()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Let Escape clear the filter, then narrow the table."""
        if event.key() == Qt.Key.Key_Escape and self.search.text():
            self.search.clear()
        elif event.key() == Qt.Key.Key_Escape and self.table.wide:
            self.narrow_wanted.emit()
        else:
            super().keyPressEvent(event)

    def _update_buttons(self) -> None:
        run, many = self.table.current_run(), len(self.table.selected_runs()) > 1
        why = reason_not_continuable(run) if run is not None else ""
        is_single = run is not None and not many
        self.show_run.setEnabled(is_single and run.status not in ("damaged", "running"))  # type: ignore[union-attr]
        self.compare.setEnabled(is_single and run.status != "damaged")  # type: ignore[union-attr]
        self.go_on.setEnabled(is_single and not why)
        for button, action in zip(
            (self.show_run, self.go_on, self.compare), self.menu.actions(), strict=False
        ):
            action.setEnabled(button.isEnabled())
        self.branch.setEnabled(self.show_run.isEnabled() and run.best == run.best)  # type: ignore[union-attr]
        self.more.setEnabled(run is not None)
        ticked = len(self.runs.ticked)
        self._drawn.show_text(f"{ticked} overlaid")
        for part in (self._drawn, self.untick):
            part.setVisible(bool(ticked) and not self._buttons.isHidden())
        shown, listed = len(self.runs.shown), len(self.runs.runs)
        self.count.setText(f"{listed:,}" if shown == listed else f"{shown:,} of {listed:,}")
        self._show_status(run, many, why)
        self.notes.show_notes(run)

    def _show_status(self, run: RecordedRun | None, many: bool, why: str) -> None:
        if self._root is None:
            return
        if self._outdated:
            self.message.show_message(self._outdated)
        elif not self.runs.runs:
            no_runs = f"There are no runs in {self._root}."
            self.message.show_message(no_runs if self._root else "Runs are not recorded.")
        elif run is None:
            self.message.show_message("No run matches the filter.")
        elif many:
            self.message.show_message(f"{len(self.table.selected_runs())} runs selected.")
        elif self._buttons.isHidden():
            self.message.show_message("")
        else:
            self.message.show_message(why or ", ".join(describe_run(run, time.time())))

    # Actions

    def _show_run(self) -> None:
        run = self.table.current_run()
        if run is not None and self.show_run.isEnabled():
            self._send(ShowRun(run.folder))

    def _continue_run(self) -> None:
        run = self.table.current_run()
        if run is not None and self.go_on.isEnabled():
            self._send(ContinueRun(run.folder))

    def _compare_run(self) -> None:
        run = self.table.current_run()
        if run is not None and self.compare.isEnabled():
            self._send(CompareRun(run.folder))

    def _branch_run(self) -> None:
        run = self.table.current_run()
        if run is not None and self.branch.isEnabled():
            self.branch_wanted.emit(run)

    def _export_run(self) -> None:
        run = self.table.current_run()
        if run is not None:
            self.export_wanted.emit(run)

    def _report_run(self) -> None:
        run = self.table.current_run()
        if run is not None and run.status != "damaged":
            self.report_wanted.emit(run)

    def delete_selected(self) -> None:
        """Ask the window to move the selected runs to the trash, unless one is being recorded."""
        runs = self.table.selected_runs()
        if runs and self._none_is_running(runs):
            self.trash_wanted.emit(tuple(run.folder for run in runs))

    def _none_is_running(self, runs: tuple[RecordedRun, ...]) -> bool:
        running = [run for run in runs if run.status == "running"]
        if running:
            self.message.show_refusal(
                f"{run_title(running[0])} is still being recorded; nothing was deleted."
            )
        return not running

    # Private

    def _connect_signals(self) -> None:
        self.search.textChanged.connect(self._on_search)
        self.runs.modelReset.connect(self._update_buttons)
        self.table.selectionModel().currentRowChanged.connect(self._update_buttons)
        self.table.selectionModel().selectionChanged.connect(self._update_buttons)
        self.table.open_wanted.connect(self._show_run)
        self.table.undo_wanted.connect(self.undo_wanted)
        self.table.customContextMenuRequested.connect(self._open_menu)
        self.narrower.clicked.connect(self.narrow_wanted)
        self.wider.clicked.connect(self.wide_wanted)
        self.terms_menu.term_wanted.connect(self.insert_term)
        self.runs.ticked_changed.connect(lambda folders: self._send(ReadCurves(folders)))
        self.runs.ticked_changed.connect(self._update_buttons)
        self.runs.renamed.connect(
            lambda run, name: self._send(NoteRun(run.folder, name, run.notes))
        )
        self.runs.refused.connect(self.message.show_refusal)
        self.deletion.answered.connect(self.table.setFocus)

    def _on_search(self, text: str) -> None:
        self.table.filter_rows(text)
        self._update_buttons()

    def _open_menu(self, place: QPoint) -> None:
        if self.table.current_run() is not None:
            self.menu.popup(self.table.viewport().mapToGlobal(place))

    def _edit_notes(self) -> None:
        self.notes.setFocus()
        self.notes.moveCursor(self.notes.textCursor().MoveOperation.End)

    def _make_menus(self) -> None:
        self.menu = QMenu(self)
        for text, keys, callback in (
            ("Open", "Return", self._show_run),
            ("Continue", "", self._continue_run),
            ("Compare", "", self._compare_run),
            ("Branch from its best step…", "", self._branch_run),
            ("Overlay", "Space", self.table.toggle_current_tick),
            ("Rename", "F2", self.table.rename_current),
            ("Notes and tags", "", self._edit_notes),
            ("Export…", "", self._export_run),
            ("Write report", "", self._report_run),
            ("Delete", "Del", self.delete_selected),
        ):
            action = QAction(text, self.menu)
            action.triggered.connect(callback)
            if keys:
                action.setShortcut(keys)
                action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
            if keys == "Del":  # the list handles the other keys itself
                self.table.addAction(action)
            self.menu.addAction(action)
        self.branch = self.menu.actions()[3]
        self.more.setMenu(self.menu)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setProperty("role", "more")
        self.more.setAccessibleName("More actions")
        self.more.setToolTip("Continue, branch, overlay, rename, export, report, delete")
        self.terms_menu = FilterMenu(self.runs, self)
        self.terms.setMenu(self.terms_menu)
        self.sort_menu = QMenu(self)
        for title in SORTS:
            action = self.sort_menu.addAction(f"By {'best accuracy' if title == 'best' else title}")
            action.setCheckable(True)
            action.setData(title)
            action.triggered.connect(lambda _=False, title=title: self.table.sort_by(title))
        self.sort_menu.aboutToShow.connect(self._check_sort)
        self.sort_button.setMenu(self.sort_menu)
        for button in (self.terms, self.sort_button):
            button.setProperty("role", "menu")
            button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)

    def _check_sort(self) -> None:
        for action in self.sort_menu.actions():
            action.setChecked(action.data() == self.runs.sorted_by)

    def _lay_out(self) -> None:
        head = make_row(
            *(self.title, self.count, 1, self.sort_button, self.narrower, self.wider),
            margins=(8, 4, 4, 0),
            spacing=4,
        )
        find = make_row((self.search, 1), self.terms, margins=(8, 0, 4, 4), spacing=4)
        self._buttons = QWidget()
        parts = (self.go_on, self.show_run, self.compare, self.more, 1)
        make_row(*parts, into=self._buttons, spacing=4)
        drawn = make_row((self._drawn, 1), self.untick, spacing=8)
        foot = make_column(
            *(drawn, self.message, self.deletion, self.notes, self._buttons),
            margins=(8, 4, 8, 8),
            spacing=6,
        )
        make_column(head, find, (self.table, 1), foot, into=self, spacing=0)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)


def _tool_button(text: str, about: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setToolTip(plain_tip(about))
    button.setAccessibleName(about)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
    return button


def reason_not_continuable(run: RecordedRun) -> str:
    """Return why a run cannot be continued, or ''."""
    if run.status == "running":
        return "This run is still being recorded, here or by another program."
    if run.status == "damaged":
        return f"This run is damaged: {trouble_in_words(run)}."
    return ""
