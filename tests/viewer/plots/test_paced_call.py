"""Calls that are asked for more often than a frame is drawn."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtTest import QSignalSpy
from PySide6.QtWidgets import QApplication

from dgn_viewer.plots.scene_pointer import PacedCall


def test_the_first_call_is_made_at_once_and_the_last_with_the_next_frame(
    qapp: QApplication,
) -> None:
    owner, made = QObject(), list[int]()
    count = 0
    paced = PacedCall(lambda: made.append(count), owner, every=1)
    frame_over = QSignalSpy(paced._timer.timeout)
    for count in range(1, 6):  # noqa: B007  # read by the call
        paced.ask()
    assert made == [1]
    assert frame_over.wait(2000)
    assert made == [1, 5]
    assert frame_over.wait(2000)
    assert made == [1, 5], "nothing was asked for since"


def test_what_was_asked_for_is_made_before_its_time_where_somebody_looks(
    qapp: QApplication,
) -> None:
    owner, made = QObject(), list[str]()
    paced = PacedCall(lambda: made.append("made"), owner, every=60_000)
    paced.catch_up()
    assert made == []
    paced.ask()
    paced.ask()
    paced.catch_up()
    assert len(made) == 2
    paced.catch_up()
    assert len(made) == 2
    paced.now()
    assert len(made) == 3
