"""Ctrl-C during startup, when `KeyboardInterrupt` inside a call from Qt would be lost or crash."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def call_on_interrupt(action: Callable[[], object]) -> Iterator[None]:
    """Call `action` on Ctrl-C, as soon as the interpreter runs Python again."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: action() and None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def delay_interrupts() -> Iterator[list[bool]]:
    """Record Ctrl-C in a list instead of raising; the caller acts on it afterwards.

    `KeyboardInterrupt` in a method called by Qt is a segmentation fault, and PySide6 drops it
    during import.
    """
    interrupts: list[bool] = []
    with call_on_interrupt(lambda: interrupts.append(True)):
        yield interrupts
