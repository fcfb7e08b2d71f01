"""Full float32 products for kernels, whatever precision a training step uses.

By default cuDNN rounds the operands of convolutions to TF32 (ten bits), and a training step may
request that for all products (`training.precision`). Both are switches of the whole process, so
threads must agree: any number may compute in full float32 at once, but only one in TF32.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Products = Literal["ieee", "tf32"]


class _Switches:
    """The process-wide precision of float32 products, and the threads that rely on it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._kinds: dict[int, list[Products]] = {}  # by thread, innermost last
        self._outside = ("none", "none")  # restored when no thread relies on a kind any more

    def acquire_kind(self, kind: Products) -> None:
        """Wait until no other thread relies on another kind, then switch to this one.

        Args:
            kind: 'ieee' or 'tf32'.
        """
        thread = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._is_compatible(thread, kind))
            if not self._kinds:
                self._outside = _read_switches()
            self._kinds.setdefault(thread, []).append(kind)
            _set_switches(kind, kind)

    def release_kind(self) -> None:
        """Return to the thread's previous kind, or to the outside setting after the last thread."""
        thread = threading.get_ident()
        with self._changed:
            kinds = self._kinds[thread]
            kinds.pop()
            if kinds:
                _set_switches(kinds[-1], kinds[-1])
                return
            del self._kinds[thread]
            if not self._kinds:
                _set_switches(*self._outside)
            self._changed.notify_all()

    def set_outside(self, kind: Products) -> None:
        """Set the kind that applies when no thread has requested one.

        Args:
            kind: 'ieee' or 'tf32'.
        """
        with self._changed:
            self._outside = kind, kind
            if not self._kinds:
                _set_switches(kind, kind)

    def _is_compatible(self, thread: int, kind: Products) -> bool:
        """Check that no other thread relies on another kind."""
        others = {of for other, kinds in self._kinds.items() if other != thread for of in kinds}
        return not others or (kind == "ieee" and others == {"ieee"})


_SWITCHES = _Switches()


@contextmanager
def float32_products(kind: Products) -> Iterator[None]:
    """Set the kind of float32 products on a GPU, as a context manager or decorator.

    The previous setting is restored on exit. Without a GPU nothing is changed.

    Args:
        kind: 'ieee' for full float32, 'tf32' for TF32.

    Yields:
        Nothing.
    """
    if not _has_card():
        yield
        return
    _SWITCHES.acquire_kind(kind)
    try:
        yield
    finally:
        _SWITCHES.release_kind()


full_precision = float32_products("ieee")  # used as a decorator; each call enters it again


def use_full_products() -> None:
    """Make full float32 products the default of this process.

    Code that uses `float32_products` may still request another kind.
    """
    _SWITCHES.set_outside("ieee")


def _read_switches() -> tuple[str, str]:
    maps = torch.backends.cudnn.conv  # type: ignore[attr-defined]  # set when it is imported
    return torch.backends.cuda.matmul.fp32_precision, maps.fp32_precision


def _set_switches(dense: str, maps: str) -> None:
    torch.backends.cuda.matmul.fp32_precision = dense
    torch.backends.cudnn.conv.fp32_precision = maps  # type: ignore[attr-defined]  # as above


def _has_card() -> bool:
    return torch.cuda.is_available()
