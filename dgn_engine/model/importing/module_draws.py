"""Refuses the random numbers that a module draws from generators of the whole process.

States of these generators are never put back for torch and Python: another thread, a loader that
prefetches say, may draw meanwhile, and would draw the same numbers again. A draw is refused before
it happens instead, in the thread that runs the module alone.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dgn_engine.errors import UserError

_RESEEDING = frozenset(["manual_seed", "seed", "set_state", "graphsafe_set_state", "set_offset"])
_GAUSS: CodeType = random.Random.gauss.__code__  # returns a number that it kept, at times


class ModuleDrawsError(UserError):
    """A module draws from, or sets, a random generator that belongs to the process."""

    def __init__(self) -> None:
        super().__init__(
            "The module draws random numbers while it runs: what it does next time may be "
            "something else. Call eval(), or leave that out."
        )


@contextmanager
def refuse_draws() -> Iterator[None]:
    """Raise `ModuleDrawsError` where what runs in it, in this thread, draws from torch's default
    generators, from Python's `random` or from numpy's global generator, or seeds one of them.

    Draws of torch and Python are stopped before they happen. numpy's compiled methods cannot be
    stopped: its global generator is locked against other threads meanwhile, so that a draw is
    known to be this thread's, and is taken back before another thread can draw. Generators that
    the module itself owns may be drawn from.

    Raises `UserError` where a profiler that Python cannot set aside runs in this thread.
    """
    guard = _DrawGuard()
    with _locked(np.random.mtrand.get_bit_generator().lock):
        before = np.random.get_state(legacy=False)
        try:
            with guard, guard.calls_seen():
                yield
        finally:
            if not _is_same(before, np.random.get_state(legacy=False)):
                np.random.set_state(before)
                guard.drew = True
    if guard.drew:  # in numpy, or the module's own code caught the error
        raise ModuleDrawsError


# Locks of numpy that passes hold. Another thread may fork meanwhile, for workers of a DataLoader:
# in the child nobody would ever unlock them.
_LOCKED: list[Any] = []


@contextmanager
def _locked(lock: Any) -> Iterator[None]:
    with lock:
        _LOCKED.append(lock)
        try:
            yield
        finally:
            _LOCKED.pop()


def _unlock_in_child() -> None:
    while _LOCKED:
        _LOCKED.pop()._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


class _DrawGuard(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Sees the operations of torch in one thread, and while `calls_seen` its calls of C functions.

    `drew`: whether a draw was refused.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it so
        self.drew = False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs or {}):
            self.refuse()
        return func(*args, **(kwargs or {}))

    def refuse(self) -> None:
        self.drew = True
        raise ModuleDrawsError

    @contextmanager
    def calls_seen(self) -> Iterator[None]:
        """See calls of `random` and seeds of torch's generators: a profile function of Python
        belongs to one thread, and an exception that it raises stops the call."""
        previous = sys.getprofile()
        pausable = hasattr(previous, "disable") and hasattr(previous, "enable")  # cProfile
        if previous is not None and not callable(previous) and not pausable:
            raise UserError(
                "A profiler runs in this thread that cannot be set aside (of torch, with_stack): "
                "a module is not run under it."
            )
        if pausable:
            previous.disable()  # type: ignore[union-attr]
        sys.setprofile(self._see_call)
        try:
            yield
        finally:
            sys.setprofile(None if pausable else previous)
            if pausable:
                previous.enable()  # type: ignore[union-attr]

    def _see_call(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            owner = getattr(called, "__self__", None)
            if owner is _PYTHON:
                if called.__name__ != "getstate":
                    self.refuse()
            elif (
                type(owner) is torch.Generator
                and called.__name__ in _RESEEDING
                and _is_default(owner)
            ):
                self.refuse()
        elif event == "call" and frame.f_code is _GAUSS and frame.f_locals.get("self") is _PYTHON:
            self.refuse()


_PYTHON: random.Random = random._inst  # of random.random() and others


def _draws(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation that may draw does, from a generator of the process."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    generator = given.get("generator")
    if generator is not None and not _is_default(generator):
        return False
    if given.get("train", given.get("training", True)) is False:
        return False
    rates = [given.get(name) for name in ("p", "dropout", "dropout_p") if name in names]
    if "generator" not in names and rates:  # dropout: attention and recurrent layers have it at 0
        return bool(rates[0])
    return func.overloadpacket not in _CHOICES


_CHOICES = {  # tagged as random, and are not
    getattr(torch.ops.aten, name)
    for name in ("_fused_sdp_choice", "_nested_tensor_softmax_with_shape")
    if hasattr(torch.ops.aten, name)
}


def _is_default(generator: torch.Generator) -> bool:
    cards = torch.cuda.default_generators if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    return generator is torch.default_generator or any(generator is each for each in cards)


def _is_same(one: Any, two: Any) -> bool:
    """Whether two states of numpy are equal."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_is_same(one[key], two[key]) for key in one)
    return np.array_equal(one, two)
