"""Every cell of the table of runs as Qt asks for it."""

from __future__ import annotations

import dataclasses
from typing import Any

from PySide6.QtCore import Qt

from dgn_engine.protocol.runs import RecordedRun, RunsListed
from dgn_viewer.rail.run_table import COLUMNS
from dgn_viewer.rail.runs_rail import RunsRail

ROLES = (
    *(Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole, Qt.ItemDataRole.ToolTipRole),
    *(Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ForegroundRole),
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


def show_every_cell(rail: RunsRail, listed: RunsListed) -> None:
    """Show a list in both forms, sort it by each column, and choose each of its rows."""
    rail.show_runs(listed)
    rail.grab()
    model = rail.runs
    rail.show_form(wide=True)
    for column in range(1, len(COLUMNS)):
        for order in (Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder):
            rail.table.sortByColumn(column, order)
        for row in range(model.rowCount()):
            for role in ROLES:
                model.data(model.index(row, column), role)
    for row in range(model.rowCount()):
        rail.table.selectRow(row)
        assert rail.message.text()
    rail.grab()
