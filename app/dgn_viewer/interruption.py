"""Ctrl-C during startup, when `KeyboardInterrupt` inside a call from Qt would be lost or crash."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_by(action: Callable[[], object]) -> Iterator[None]:
    """Call `action` on Ctrl-C, as soon as the interpreter runs Python again."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: action() and None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def held_back() -> Iterator[list[bool]]:
    """Record Ctrl-C in a list instead of raising; the caller acts on it afterwards.

    `KeyboardInterrupt` in a method called by Qt is a segmentation fault, and PySide6 drops it
    during import.
    """
    interrupts: list[bool] = []
    with interrupted_by(lambda: interrupts.append(True)):
        yield interrupts
