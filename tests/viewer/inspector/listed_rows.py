"""Every cell of the table of runs as Qt asks for it."""

from __future__ import annotations

import dataclasses
from typing import Any

from PySide6.QtCore import Qt

from dgn_engine.protocol.runs import RecordedRun, RunsListed
from dgn_viewer.inspector.pages.run_table import COLUMNS, SORT
from dgn_viewer.inspector.pages.runs_page import RunsPage

ROLES = (
    *(Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole, Qt.ItemDataRole.ToolTipRole),
    *(Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ForegroundRole, SORT),
)


def make_listed_run(name: str, status: str = "stopped", **changes: Any) -> RecordedRun:
    """One that stands in a list."""
    run = RecordedRun(
        folder=name,
        name=name,
        status=status,
        step=1200,
        total_steps=4500,
        regime="DL",
        net="fc",
        data="digits",
        seed=0,
        best=0.961,
        touched=1000.0,
        resumable=True,
        best_step=900,
        seconds=63.0,
        bytes=2_400_000,
    )
    return dataclasses.replace(run, **changes)


def show_every_cell(page: RunsPage, listed: RunsListed) -> None:
    """Show a list, sort it by each column, and choose each of its rows."""
    page.show_runs(listed)
    for column in range(len(COLUMNS)):
        for order in (Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder):
            page.table.sortByColumn(column, order)
        for row in range(page.table.shown.rowCount()):
            for role in ROLES:
                page.table.shown.data(page.table.shown.index(row, column), role)
    for row in range(page.table.shown.rowCount()):
        page.table.selectRow(row)
        assert page.message.text()
    page.grab()
