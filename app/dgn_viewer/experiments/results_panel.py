"""The column of experiments: a list of all, then the progress and the result of one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDockWidget,
    QFrame,
    QMainWindow,
    QProgressBar,
    QStackedWidget,
    QWidget,
)

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
from dgn_engine.experiments.report.result_layout import REPORT
from dgn_engine.scene.theme import Theme
from dgn_engine.sweep.schedule import OVER
from dgn_engine.text.written_numbers import format_duration, format_percent
from dgn_viewer.docks.chart_controls import ChartControls
from dgn_viewer.docks.panel_frame import DockTitle, PanelFrame
from dgn_viewer.experiments.claim_list import ClaimList
from dgn_viewer.experiments.experiment_cards import ExperimentList
from dgn_viewer.experiments.result_tables import RowTable
from dgn_viewer.experiments.running_list import RunningList
from dgn_viewer.widgets.layouts import (
    make_column,
    make_row,
    make_scroll_area,
    plain_label,
    push_button,
)

if TYPE_CHECKING:
    from dgn_viewer.plots.scene_view import SceneView

_FIGURE = 240  # height, pixels
_LEAST = 360  # minimum width, pixels
_WIDTH = 560  # initial width of the dock, pixels
_MOST = 640  # … and its maximum: what a closed page leaves belongs to the panels
_UNLIMITED = (1 << 24) - 1  # Qt's QWIDGETSIZE_MAX
COMING = "Rows, claims and figures appear here once all runs are done."


class ResultsPanel(QFrame):
    """The list of experiments, or the progress and result of one; its buttons emit signals."""

    stop_wanted = Signal()
    go_on_wanted = Signal()
    watch_wanted = Signal()
    report_wanted = Signal()
    again_wanted = Signal()
    list_wanted = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("results")
        self.setMinimumWidth(_LEAST)
        self._theme = theme
        self._document: Document | None = None
        self.list = ExperimentList()
        about = "Back to all experiments"
        self.back = push_button("‹ All experiments", self.list_wanted, "small", about)
        self.title = plain_label(role="title", selectable=True)
        self.paper = plain_label(role="small", selectable=True)
        self.bar = QProgressBar()
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Experiment progress")
        self.words = plain_label(role="muted", selectable=True)
        self.trouble = plain_label(role="refused", selectable=True)
        about = "Stop now; you can resume later"
        self.stop = push_button("Stop", self.stop_wanted, about=about)
        about = "Resume where it stopped"
        self.go_on = push_button("Continue", self.go_on_wanted, about=about)
        about = "Also train its next run in this window"
        self.watch = push_button("Watch live", self.watch_wanted, about=about)
        about = "Open the full report in the browser"
        self.report = push_button("Open report", self.report_wanted, about=about)
        about = "Run it with other settings, or at the paper's scale"
        self.again = push_button("Run again…", self.again_wanted, about=about)
        self.running = RunningList()
        self.answer = plain_label(selectable=True)
        self.rows = RowTable()
        self.claims = ClaimList()
        self._below_claims = make_column()
        self._charts = ChartControls(self, self._make_figures)
        self._charts.changed.connect(self._show_figures)
        self.notes = plain_label(role="small", selectable=True)
        self._pages = QStackedWidget()
        self._lay_out()
        self.set_theme(theme)
        self.show_list()

    @property
    def is_showing_list(self) -> bool:
        return self._pages.currentIndex() == 0

    def show_list(self) -> None:
        self._pages.setCurrentIndex(0)

    def show_current(self) -> None:
        """Show the running experiment or the last result; the list if there is neither."""
        if self.title.text():
            self._pages.setCurrentIndex(1)

    @property
    def name(self) -> str:
        """The experiment whose result is shown; '' if there is none."""
        return self._document.name if self._document is not None else ""

    def show_beginning(self, title: str, paper: str) -> None:
        """Show that the process has started but has not reported anything yet."""
        self._document = None
        self._show_heading(title, paper)
        self.bar.setRange(0, 0)
        self._show_status("Loading torch and the data…", running=True)
        self._show_body(None)

    def show_progress(self, now: ReproductionProgress) -> None:
        self.bar.setRange(0, 1000)
        self.bar.setValue(round(1000 * now.fraction))
        self._show_status(progress_text(now), running=True)
        self.watch.setVisible(now.name != REPORT)  # it trains nothing that could be watched
        failed = [f"{unit.unit}: {_last_line(unit.trouble)}" for unit in now.failures]
        self._show_errors("\n".join(failed[:3]))
        self.running.show_running(now)
        self.notes.setText(COMING)
        self.notes.show()

    def show_document(self, document: Document, trouble: str = "") -> None:
        """Show a result, possibly of an interrupted experiment."""
        if self._document is None or self._document.name != document.name:
            self._charts.replace_settings({})  # chart settings belong to the previous experiment
        self._document = document
        source = (document.paper, document.name, document.scale, document.protocol)
        self._show_heading(document.title, " · ".join(filter(None, source)))
        self.bar.setRange(0, 1000)
        self.bar.setValue(1000 if document.state == "done" else 0)
        self._show_status(_summary_text(document), running=False)
        failed = [u for u in document.units if u.trouble]
        lines = [f"{unit.id}: {_last_line(unit.trouble)}" for unit in failed[:3]]
        self._show_errors("\n".join([trouble, *lines] if trouble else lines))
        self.go_on.setVisible(document.state != "done" and bool(document.command))
        self._show_body(document)

    def show_trouble(self, trouble: str) -> None:
        self.bar.setRange(0, 1000)
        self.bar.setValue(0)
        self._show_status("Ended without a result.", running=False)
        self._show_errors(trouble)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        if self._charts.existing_view is not None:
            self._charts.existing_view.set_theme(theme)
        self.list.set_theme(theme)
        self.setStyleSheet(
            f"#results, #results_body {{ background: {theme.panel}; }}"
            f"#results QTableWidget {{ border: none; border-top: 1px solid {theme.line}; }}"
        )
        self.claims.set_theme(theme)

    def _show_heading(self, title: str, paper: str) -> None:
        self.title.setText(title)
        self.paper.setText(paper)
        self._pages.setCurrentIndex(1)

    def _show_status(self, words_: str, running: bool) -> None:
        self.words.setText(words_)
        self.bar.setVisible(running)
        self.stop.setVisible(running)
        self.watch.setVisible(running)
        self.report.setVisible(not running and self._document is not None)
        self.again.setVisible(not running and self.name in self.list.cards)
        if running:
            self.go_on.hide()

    def _show_errors(self, text: str) -> None:
        self.trouble.setText(text)
        self.trouble.setVisible(bool(text))

    def _show_body(self, document: Document | None) -> None:
        for widget in self._body_widgets:
            widget.hide()
        if document is None:
            return
        self.answer.setText("\n\n".join((*document.notices, *document.answer)))
        self.answer.setVisible(bool(self.answer.text()))
        if document.rows:
            self.rows.show_rows(document.rows, document.scale)
            self.rows.show()
        if document.claims:
            self.claims.show_claims(document.claims, self._theme, document.scale)
            self.claims.show()
        if document.figures:
            self.figures_view.setFixedHeight(_FIGURE * len(document.figures))
            self.figures_view.show()
            self._show_figures()
        self.notes.setText(_notes_text(document))
        self.notes.setVisible(bool(self.notes.text()))

    def _show_figures(self) -> None:
        figures = self._document.figures if self._document is not None else ()
        self._charts.show_adjusted_scene(scene_of(figures))

    @property
    def figures_view(self) -> SceneView:
        return self._charts.view

    def _make_figures(self) -> SceneView:
        from dgn_viewer.plots.scene_view import SceneView

        figures = SceneView(self._theme)
        self._below_claims.addWidget(figures)
        return figures

    @property
    def _body_widgets(self) -> tuple[QWidget, ...]:
        """Widgets below the buttons, top to bottom."""
        figures = () if self._charts.existing_view is None else (self._charts.existing_view,)
        return (self.running, self.answer, self.rows, self.claims, *figures, self.notes)

    def _lay_out(self) -> None:
        row = (self.stop, self.go_on, self.watch, self.report, self.again)
        buttons = make_row(*row, 1, spacing=8)
        body = QWidget()
        body.setObjectName("results_body")
        back = make_row(self.back, 1)
        above = (back, self.title, self.paper, self.bar, self.words, self.trouble)
        parts = (self.running, self.answer, self.rows, self.claims, self._below_claims, self.notes)
        make_column(*above, buttons, *parts, 1, into=body, margins=(12, 8, 12, 12), spacing=8)
        self._pages.addWidget(self.list)
        self._pages.addWidget(make_scroll_area(body))
        make_column(self._pages, into=self)


class ResultsDock(PanelFrame):
    """Dock of the experiments, left of `neighbour`; hidden until opened."""

    opening = Signal()  # about to be shown
    made = Signal(object)  # its panel, when it is first needed

    def __init__(self, window: QMainWindow, neighbour: QDockWidget, theme: Theme) -> None:
        super().__init__("Experiments", window)
        self._theme = theme
        self.setObjectName("dock.results")
        self.setAllowedAreas(
            Qt.DockWidgetArea.LeftDockWidgetArea | Qt.DockWidgetArea.RightDockWidgetArea
        )
        self._title = DockTitle(self, fills=False)
        self.setTitleBarWidget(self._title)
        window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self)
        window.splitDockWidget(self, neighbour, Qt.Orientation.Horizontal)
        self.topLevelChanged.connect(self._limit_width)
        self._limit_width(False)
        self.hide()

    @cached_property
    def panel(self) -> ResultsPanel:
        """The list and the results, made when they are first shown."""
        panel = ResultsPanel(self._theme)
        self.setWidget(panel)
        self.made.emit(panel)
        return panel

    def open(self) -> None:
        self.panel.show()
        if self.isHidden():
            self.opening.emit()
            self.show()
            self.window_.resizeDocks([self], [_WIDTH], Qt.Orientation.Horizontal)
        self.come_to_front()

    def showEvent(self, event: QShowEvent) -> None:
        """Make the panel for whoever shows the dock, such as the window's own context menu."""
        _ = self.panel
        super().showEvent(event)

    def _limit_width(self, floating: bool) -> None:
        self.setMaximumWidth(_UNLIMITED if floating else _MOST)

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self._theme = theme
        if "panel" in vars(self):
            self.panel.set_theme(theme)
        self._title.set_theme(theme)


def progress_text(now: ReproductionProgress) -> str:
    """Return a text such as '12 of 60 done, 1 failed · 4 min left · best 97.31 %'."""
    parts = [f"{now.done} of {now.total} done" + (f", {now.failed} failed" if now.failed else "")]
    if now.left is not None:
        parts.append(f"{format_duration(now.left)} left")
    if now.best is not None and now.best.score is not None:
        parts.append(f"best {format_percent(now.best.score, 2)}")
    return " · ".join(parts)


def _summary_text(document: Document) -> str:
    date = document.made[:16].replace("T", " ")
    done = sum(unit.state in OVER and unit.state != "failed" for unit in document.units)
    partial = "" if document.state == "done" else f"{done:,} of "
    count = f"{partial}{len(document.units):,} runs and calculations"
    compute = f"{format_duration(document.seconds)} of compute · " if document.seconds else ""
    return f"{document.state} · {count} · {compute}{date}"


def _notes_text(document: Document) -> str:
    parts = []
    notes = tuple(dict.fromkeys(figure.note for figure in document.figures if figure.note))
    verdicts = formatting.summarize_verdicts(document.claims, document.scale)
    for title, sentences in (
        ("Verdicts", (verdicts,) if verdicts else ()),
        ("Remarks", document.remarks),
        ("Scaled down", document.scaled_down),
        ("Choices", document.choices),
        ("Figures", notes),
    ):
        if sentences:
            parts.append(f"{title}: {'; '.join(sentence.rstrip('.') for sentence in sentences)}.")
    return "\n\n".join(parts)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
