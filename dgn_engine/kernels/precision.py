"""Kernels are computed in full float32 or float64, whatever a training step may do.

cuDNN rounds what convolutions multiply to TF32 (ten bits) unless it is told not to, and a step may
ask for that everywhere (`training.precision`). Both are switches of the whole process, so that
threads have to agree: any number may compute in full float32 at a time, one alone in TF32.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Products = Literal["ieee", "tf32"]


class _Switches:
    """What products of float32 are on a card, and the threads that rely on it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._kinds: dict[int, list[Products]] = {}  # of each thread, the innermost last
        self._outside = ("none", "none")  # put back when no thread relies on it any more

    def enter(self, kind: Products) -> None:
        """Wait until no other thread relies on another kind, then switch to this one."""
        thread = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._agrees(thread, kind))
            if not self._kinds:
                self._outside = _read_switches()
            self._kinds.setdefault(thread, []).append(kind)
            _set_switches(kind, kind)

    def leave(self) -> None:
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
        """Switch to this kind wherever no thread has asked for one."""
        with self._changed:
            self._outside = kind, kind
            if not self._kinds:
                _set_switches(kind, kind)

    def _agrees(self, thread: int, kind: Products) -> bool:
        others = {of for other, kinds in self._kinds.items() if other != thread for of in kinds}
        return not others or (kind == "ieee" and others == {"ieee"})


_SWITCHES = _Switches()


@contextmanager
def products(kind: Products) -> Iterator[None]:
    """Products of float32 on a card are of this kind in here, or in what this decorates; what was
    there before is put back. Without a card there is nothing to switch."""
    if not _has_card():
        yield
        return
    _SWITCHES.enter(kind)
    try:
        yield
    finally:
        _SWITCHES.leave()


full_precision = products("ieee")  # a decorator, which begins anew with every call


def use_full_products() -> None:
    """From now on products of float32 on cards are full ones, unless somebody asks otherwise."""
    _SWITCHES.set_outside("ieee")


def _read_switches() -> tuple[str, str]:
    maps = torch.backends.cudnn.conv  # type: ignore[attr-defined]  # set when it is imported
    return torch.backends.cuda.matmul.fp32_precision, maps.fp32_precision


def _set_switches(dense: str, maps: str) -> None:
    torch.backends.cuda.matmul.fp32_precision = dense
    torch.backends.cudnn.conv.fp32_precision = maps  # type: ignore[attr-defined]  # as above


def _has_card() -> bool:
    return torch.cuda.is_available()
