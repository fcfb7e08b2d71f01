"""The label of a colour bar is whole, or the part of it that has room."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from dgn_viewer.plots.chart_frame import bar_label
from dgn_viewer.plots.rich_text import TextStyle


@pytest.mark.parametrize(
    ("whole", "head"),
    [
        ("overlap, normalised", "overlap"),
        ("mean gate over places", "mean gate"),
        ("share of the whole", "share"),
    ],
)
def test_a_colour_bar_without_room_leaves_the_details_out(
    qapp: QApplication, whole: str, head: str
) -> None:
    type_ = TextStyle(qapp.font().family(), 11)
    assert bar_label(type_, whole, type_.width(whole)) == whole
    assert bar_label(type_, whole, type_.width(head) - 8) == head
    assert bar_label(type_, whole, 4.0) == ""
