"""Descriptions of charts for screen readers, computed only while one is active."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QWidget

from dgn_engine.scene.chart_words import describe_charts
from dgn_engine.scene.elements import Chart

OFTEN = 1.0  # seconds between two updates; a screen reader cannot keep up with more


class SpokenCharts:
    """The accessible names of `widgets`, updated at most once a second."""

    def __init__(
        self,
        *widgets: QWidget,
        clock: Callable[[], float] = time.monotonic,
        is_heard: Callable[[], bool] = QAccessible.isActive,
    ) -> None:
        """`is_heard()` returns whether a screen reader is active."""
        self._widgets = widgets
        self._clock, self._is_heard = clock, is_heard
        self._when = -OFTEN
        for widget in widgets:
            widget.setAccessibleName("Charts")

    def update_names(self, charts: tuple[Chart, ...]) -> None:
        """Describe these charts, if a screen reader is active and the interval has elapsed."""
        if self._is_heard() and self._clock() - self._when >= OFTEN:
            self.name_widgets(charts)

    def describe_cursor(self, words: str) -> None:
        """Set the description of what is under the cursor, immediately."""
        for widget in self._widgets:
            if widget.accessibleDescription() != words:
                widget.setAccessibleDescription(words)

    def name_widgets(self, charts: tuple[Chart, ...]) -> None:
        self._when = self._clock()
        description = describe_charts(charts) or "Charts"
        for widget in self._widgets:
            if widget.accessibleName() != description:
                widget.setAccessibleName(description)
