"""Every cell of the table of runs as Qt asks for it."""

from __future__ import annotations

from PySide6.QtCore import Qt

from dgn_engine.protocol.runs import RunsListed
from dgn_viewer.inspector.pages.run_table import COLUMNS, SORT
from dgn_viewer.inspector.pages.runs_page import RunsPage

ROLES = (
    *(Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole, Qt.ItemDataRole.ToolTipRole),
    *(Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ForegroundRole, SORT),
)


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
