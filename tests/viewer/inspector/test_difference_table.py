"""The table of differences: long texts take several lines, and every column is in sight."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from dgn_engine.scene.differences import Difference, Differences
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.inspector.pages.difference_table import DifferenceTable


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


def test_steps_stand_in_each_row_where_they_differ_and_a_reason_once_below_the_group(
    qtbot: QtBot,
) -> None:
    table = DifferenceTable(LIGHT)
    qtbot.addWidget(table)
    why = "B was not measured up to step 3."
    scores = (
        Difference("train loss", "0.5", "0.75", "+0.25", "step 3"),
        Difference("test loss", "0.5", "–", "", "A 9", why=why),
        Difference("test accuracy", "90.00 %", "–", "", "A 9", why=why),
    )
    table.show_differences(Differences(scores=scores))
    rows = table.texts()
    assert [row[0].splitlines()[1:] for row in rows[1:4]] == [["step 3"], ["A 9"], ["A 9"]]
    assert rows[4:] == [(why,)]
    table.show_differences(Differences(scores=scores[1:]))
    assert [row[0] for row in table.texts()] == [
        *("Scores · A 9", "test loss", "test accuracy", why)
    ]
