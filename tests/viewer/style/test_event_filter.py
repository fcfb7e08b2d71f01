"""Facts of the event filter: which events its callbacks get, and when it ends."""

from __future__ import annotations

import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from pytestqt.qtbot import QtBot

from dgn_viewer.event_filter import EventFilter


class _Receiver(QObject):
    """Keeps the types of the events that reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[QEvent.Type] = []

    def event(self, event: QEvent) -> bool:
        self.received.append(event.type())
        return super().event(event)


def _send(receiver: QObject, kind: QEvent.Type) -> None:
    QCoreApplication.sendEvent(receiver, QEvent(kind))


def test_only_the_chosen_types_reach_the_callback(qtbot: QtBot) -> None:
    owner, watched = QObject(), _Receiver()
    seen: list[QEvent.Type] = []
    EventFilter(owner, {QEvent.Type.Show: lambda event: seen.append(event.type())}, watched)
    _send(watched, QEvent.Type.Hide)
    _send(watched, QEvent.Type.Show)
    assert seen == [QEvent.Type.Show]
    assert watched.received == [QEvent.Type.Hide, QEvent.Type.Show]


def test_an_event_is_kept_from_the_watched_object_where_the_callback_says_so(
    qtbot: QtBot,
) -> None:
    owner, watched = QObject(), _Receiver()
    EventFilter(owner, {QEvent.Type.Show: lambda _event: True}, watched)
    _send(watched, QEvent.Type.Show)
    assert watched.received == []


def test_several_objects_are_watched_until_it_is_stopped(qtbot: QtBot) -> None:
    owner, first, second = QObject(), QObject(), QObject()
    seen: list[QEvent.Type] = []
    watching = EventFilter(owner, {QEvent.Type.Show: lambda event: seen.append(event.type())})
    watching.watch(first, second)
    _send(first, QEvent.Type.Show)
    _send(second, QEvent.Type.Show)
    assert len(seen) == 2
    shiboken6.delete(second)
    watching.stop()
    _send(first, QEvent.Type.Show)
    assert len(seen) == 2
    watching.watch(first)
    _send(first, QEvent.Type.Show)
    assert len(seen) == 3


def test_it_ends_with_its_owner(qtbot: QtBot) -> None:
    owner, watched = QObject(), QObject()
    seen: list[QEvent.Type] = []
    EventFilter(owner, {QEvent.Type.Show: lambda event: seen.append(event.type())}, watched)
    shiboken6.delete(owner)
    _send(watched, QEvent.Type.Show)
    assert seen == []
