"""The table of differences: long texts take several lines, and every column is in sight."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from dgn_viewer.inspector.pages.difference_table import DifferenceTable
from dgn_viewer.scene.differences import Difference, Differences
from dgn_viewer.style.theme import LIGHT


def test_the_order_of_many_gate_layers_leaves_room_for_the_other_columns(qtbot: QtBot) -> None:
    table = DifferenceTable(LIGHT)
    qtbot.addWidget(table)
    table.resize(340, 300)
    table.show()
    order = " ".join(map(str, range(12, 0, -1)))
    scores = (Difference("train loss", "3.563e-06", "3.998e-05", "+3.64e−05", "step 3"),)
    table.show_differences(Differences((Difference("gate layers", "in order", order),), scores))
    header = table.horizontalHeader()
    assert header.length() <= table.viewport().width()
    assert header.sectionSize(0) > header.sectionSize(1)
    assert table.rowHeight(1) > table.rowHeight(3)
    assert table.texts()[1] == ("gate layers", "in order", order, "")
