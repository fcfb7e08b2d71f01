"""Callbacks for chosen events of other objects, in place of a class that overrides eventFilter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from PySide6.QtCore import QEvent, QObject
from shiboken6 import isValid


class EventFilter(QObject):
    """Call a function on each event of certain types, before the watched object receives it.

    Args:
        owner: Whose methods the callbacks are; the filter ends with it.
        callbacks: By the type of the event. A callback gets the event, and returns True where the
            watched object is not to receive it.
        watched: What is watched from the beginning on.
    """

    def __init__(
        self,
        owner: QObject,
        callbacks: Mapping[QEvent.Type, Callable[[Any], bool | None]],
        *watched: QObject,
    ) -> None:
        super().__init__(owner)
        self._owner = owner
        self._callbacks = dict(callbacks)
        self._watched: list[QObject] = []
        self.watch(*watched)

    def watch(self, *objects: QObject) -> None:
        for watched in objects:
            watched.installEventFilter(self)
            self._watched.append(watched)

    def stop(self) -> None:
        for watched in self._watched:
            if isValid(watched):
                watched.removeEventFilter(self)
        self._watched.clear()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        callback = self._callbacks.get(event.type())
        # A widget that is being destroyed still sends events to the filters among its children.
        return callback is not None and isValid(self._owner) and callback(event) is True
