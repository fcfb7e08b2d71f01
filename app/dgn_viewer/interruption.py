"""Ctrl-C while the program starts: `KeyboardInterrupt` inside a call from Qt would be lost, or
crash."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_by(action: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C does this, as soon as the interpreter is in Python again."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: action() and None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def held_back() -> Iterator[list[bool]]:
    """Ctrl-C is noted in the list; whoever holds it back obeys it afterwards.

    `KeyboardInterrupt` in a method that Qt has called is a segmentation fault, and PySide6 drops
    it while it is imported.
    """
    asked: list[bool] = []
    with interrupted_by(lambda: asked.append(True)):
        yield asked
