"""Ctrl-C, and a polite request to end, as something that can be asked for between two steps."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupt:
    """The first signal is remembered, a second one ends the program."""

    def __init__(self) -> None:
        self._asked = False

    def asked(self) -> bool:
        """Whether a signal came."""
        return self._asked

    def __enter__(self) -> Interrupt:
        self._before = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
