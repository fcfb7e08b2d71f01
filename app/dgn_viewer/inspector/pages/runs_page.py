"""The inspector's page of recorded runs: show one, or continue it."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QListWidget,
    QListWidgetItem,
    QWidget,
)

from dgn_engine.protocol.commands import Command, ContinueRun, ShowRun
from dgn_engine.protocol.events import RecordedRun, RunsListed
from dgn_viewer.inspector.pages.run_rows import ABOUT, HEADLINE, RunRows
from dgn_viewer.scene.run_text import ago
from dgn_viewer.style.stylesheet import tip
from dgn_viewer.style.theme import Theme
from dgn_viewer.widgets.layouts import column, plain_label, push_button, row


class RunsPage(QWidget):
    """Two lines a run. The engine is asked; nothing changes before it answers."""

    title = "Recorded runs"

    def __init__(self, send: Callable[[Command], None], theme: Theme) -> None:
        super().__init__()
        self._send = send
        self._runs: tuple[RecordedRun, ...] = ()
        self.rows = QListWidget()
        self.rows.setAccessibleName("Recorded runs")
        self._painter = RunRows(theme, self.rows)
        self.rows.setItemDelegate(self._painter)
        self.rows.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.rows.currentRowChanged.connect(self._refresh)
        self.rows.itemActivated.connect(lambda _: self._show_run())
        self.message = plain_label("Reading the folder of runs…", "muted")
        about = "Train on from its last checkpoint"
        self.go_on = push_button("Continue", self._continue, "primary", about)
        about = "Its curves and its last readings, without training"
        self.show_run = push_button("Show", self._show_run, about=about)
        buttons = row(self.go_on, self.show_run, 1, spacing=8)
        parts = ((self.rows, 1), self.message, buttons)
        column(*parts, into=self, margins=(16, 4, 16, 12), spacing=8)
        self._refresh()

    def show_runs(self, listed: RunsListed) -> None:
        chosen = self._chosen()
        self._runs = listed.runs
        now = time.time()
        self.rows.clear()
        for run in listed.runs:
            item = QListWidgetItem()
            headline, about = words_of(run, now)
            item.setData(HEADLINE, headline)
            item.setData(ABOUT, about)
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{headline}. {about}")
            item.setData(Qt.ItemDataRole.ToolTipRole, tip(run.folder))
            self.rows.addItem(item)
        names = [run.name for run in listed.runs]
        self.rows.setCurrentRow(names.index(chosen.name) if chosen and chosen.name in names else 0)
        empty = f"There are no runs in {listed.root}." if listed.root else "Runs are not recorded."
        self.message.setText("" if listed.runs else empty)
        self._refresh()

    def set_theme(self, theme: Theme) -> None:
        self._painter.set_theme(theme)
        self.rows.viewport().update()

    def _chosen(self) -> RecordedRun | None:
        row = self.rows.currentRow()
        return self._runs[row] if 0 <= row < len(self._runs) else None

    def _refresh(self) -> None:
        run = self._chosen()
        why = why_not(run) if run is not None else ""
        self.show_run.setEnabled(run is not None and run.status not in ("damaged", "running"))
        self.go_on.setEnabled(run is not None and not why)
        if run is not None:
            self.message.setText(why)
        self.message.setVisible(bool(self.message.text()))

    def _show_run(self) -> None:
        run = self._chosen()
        if run is not None and self.show_run.isEnabled():
            self._send(ShowRun(run.folder))

    def _continue(self) -> None:
        run = self._chosen()
        if run is not None:
            self._send(ContinueRun(run.folder))


def words_of(run: RecordedRun, now: float) -> tuple[str, str]:
    """What it is, and its status: 'DL · fc · digits · seed 0', 'stopped at step 1,200 · …'."""
    if run.status == "damaged":
        return run.name, f"damaged: 'dgn runs repair {run.name}' keeps what is sound"
    headline = f"{run.regime} · {run.net} · {run.data} · seed {run.seed}"
    total = f" of {run.total_steps:,}" if run.total_steps else ""
    best = f" · best {100 * run.best:.1f} %" if run.best == run.best else ""
    when = "now" if run.status == "running" else ago(now - run.touched)
    return headline, f"{run.status} at step {run.step:,}{total}{best} · {when}"


def why_not(run: RecordedRun) -> str:
    """Why a run cannot be continued; empty where it can."""
    if run.status == "running":
        return "This run is being written now, here or by another program."
    if run.status == "damaged":
        return f"This run is damaged; 'dgn runs repair {run.name}' keeps what is sound."
    return ""
