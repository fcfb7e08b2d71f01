"""Event filters from callbacks, instead of classes that override eventFilter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from PySide6.QtCore import QEvent, QObject
from shiboken6 import isValid


class EventFilter(QObject):
    """Calls a function for chosen types of events before the watched object receives them.

    Args:
        owner: Owner of the callbacks; the filter is destroyed with it.
        callbacks: Callback per event type. It takes the event, and returns True to keep it from the
            watched object.
        watched: Objects to watch from the start.
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
        self.watch_objects(*watched)

    def watch_objects(self, *objects: QObject) -> None:
        for target in objects:
            target.installEventFilter(self)
            self._watched.append(target)

    def stop_watching(self) -> None:
        for watched in self._watched:
            if isValid(watched):
                watched.removeEventFilter(self)
        self._watched.clear()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        callback = self._callbacks.get(event.type())
        # While a widget is destroyed, it still sends events to filters among its children.
        return callback is not None and isValid(self._owner) and callback(event) is True
