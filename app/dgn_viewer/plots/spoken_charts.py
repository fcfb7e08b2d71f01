"""The accessible name of a widget that shows charts, made only where somebody listens."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QWidget

from dgn_engine.scene.chart_words import charts_in_words
from dgn_engine.scene.elements import Chart

OFTEN = 1.0  # seconds between two names: nobody can listen faster


class SpokenCharts:
    """Names `widgets` by what the charts show, at most once a second."""

    def __init__(
        self,
        *widgets: QWidget,
        clock: Callable[[], float] = time.monotonic,
        is_heard: Callable[[], bool] = QAccessible.isActive,
    ) -> None:
        """`is_heard()`: whether a screen reader is there."""
        self._widgets = widgets
        self._clock, self._is_heard = clock, is_heard
        self._when = -OFTEN
        for widget in widgets:
            widget.setAccessibleName("Charts")

    def show(self, charts: tuple[Chart, ...]) -> None:
        """Say these, where a screen reader is there and has had its second."""
        if self._is_heard() and self._clock() - self._when >= OFTEN:
            self.say(charts)

    def tell(self, words: str) -> None:
        """Describe what the cursor is on, at once."""
        for widget in self._widgets:
            if widget.accessibleDescription() != words:
                widget.setAccessibleDescription(words)

    def say(self, charts: tuple[Chart, ...]) -> None:
        self._when = self._clock()
        words = charts_in_words(charts) or "Charts"
        for widget in self._widgets:
            if widget.accessibleName() != words:
                widget.setAccessibleName(words)
