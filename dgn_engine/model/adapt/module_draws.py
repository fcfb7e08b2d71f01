"""Refuses what a module's pass may not do beside another's training: draws and messages.

States of random generators are never put back for torch and Python: another thread, a loader that
prefetches say, may draw meanwhile, and would draw the same numbers again. A draw is refused before
it happens instead, in the thread that runs the module alone. Other threads of the module's own
cannot be followed, and messages to other processes cannot be taken back: both are refused too.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dgn_engine.errors import UserError

_RESEEDING = frozenset(["manual_seed", "seed", "set_state", "graphsafe_set_state", "set_offset"])
_COLLECTIVE = {"c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional"}
_STARTS = {  # functions written in C that start a thread or a process
    ("_thread", "start_new_thread"),
    ("_thread", "start_joinable_thread"),
    ("_posixsubprocess", "fork_exec"),
    ("_winapi", "CreateProcess"),
    ("posix", "fork"),
    ("posix", "forkpty"),
    ("posix", "posix_spawn"),
    ("posix", "posix_spawnp"),
    ("posix", "system"),
    ("nt", "system"),
}
_GAUSS = random.Random.gauss.__code__  # returns a number that it kept, at times


class PassRefusedError(UserError):
    """A module does something in its pass that it may not do beside its training."""


class ModuleDrawsError(PassRefusedError):
    """A module draws from, or sets, a random generator that belongs to the process."""

    def __init__(self) -> None:
        super().__init__(
            "The module draws random numbers while it runs: what it does next time may be "
            "something else. Call eval(), or leave that out."
        )


class ModuleCommunicatesError(PassRefusedError):
    """A module exchanges messages with other processes, or work with other threads."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The module {what} while it runs, which is not done apart from your training."
        )


@contextmanager
def refuse_draws(draws_of_numpy: bool = False) -> Iterator[None]:
    """Raise `ModuleDrawsError` where what runs in it, in this thread, draws from torch's default
    generators, from Python's `random` or from numpy's global generator, or seeds one of them.

    Draws of torch and Python are stopped before they happen, and so are collective operations of
    `torch.distributed`, and threads and processes that are started. Generators that the module
    itself owns may be drawn from.

    numpy's compiled methods cannot be seen: the state of its global generator is compared. Where
    it changed and no other thread of Python's runs, the draw was the module's, and is taken back.
    While others run one of them may have drawn, and taking it back would repeat their numbers.
    So where the module is known to draw from numpy (`draws_of_numpy`) it is not run beside them.
    Nothing is locked: the module may wait for a thread that draws.

    Raises:
        ModuleDrawsError: the module draws.
        ModuleCommunicatesError: it needs other threads or processes.
        UserError: a profiler that Python cannot set aside runs in this thread.
    """
    alone = _is_alone()
    if draws_of_numpy and not alone:
        raise ModuleDrawsError
    guard = _DrawGuard()  # type: ignore[no-untyped-call] # torch leaves it so
    before = np.random.get_state(legacy=False)
    try:
        with guard, guard.calls_seen():
            yield
    finally:
        if alone and _is_alone() and not is_same_state(before, np.random.get_state(legacy=False)):
            np.random.set_state(before)
            guard.refused = guard.refused or ModuleDrawsError()
    if guard.refused is not None:  # in numpy, or the module's own code caught the error
        raise guard.refused


def _is_alone() -> bool:
    """Whether no other thread of Python's runs but those of this package, which do not draw.

    Their names say nothing, and not all threads are known to `threading`.
    """
    own = threading.get_ident()
    return all(
        thread == own or _runs_ours(frame) for thread, frame in sys._current_frames().items()
    )


def _runs_ours(frame: FrameType | None) -> bool:
    """Whether a thread was started with a function of this package."""
    function = ""
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        function, frame = name if name != "threading" else function, frame.f_back
    return function.startswith("dgn_engine.")


class _DrawGuard(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Sees the operations of torch in one thread, and while `calls_seen` its calls of C functions.

    `refused`: with what something was refused.
    """

    refused: PassRefusedError | None = None

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs or {}):
            self.refuse(ModuleDrawsError())
        if func.namespace in _COLLECTIVE:
            self.refuse(ModuleCommunicatesError("exchanges messages with other processes"))
        return func(*args, **(kwargs or {}))

    def refuse(self, error: PassRefusedError) -> None:
        self.refused = error
        raise error

    @contextmanager
    def calls_seen(self) -> Iterator[None]:
        """See calls of `random` and seeds of torch's generators: a profile function of Python
        belongs to one thread, and an exception that it raises stops the call."""
        previous = sys.getprofile()
        pausable = hasattr(previous, "disable") and hasattr(previous, "enable")  # cProfile
        if previous is not None and not callable(previous) and not pausable:
            raise UserError(
                "A profiler runs in this thread that cannot be set aside (of torch, with_stack): "
                "a module is not run under it.",
                kind="not-supported",
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
            owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
            if owner is _PYTHON:
                if name != "getstate":
                    self.refuse(ModuleDrawsError())
            elif type(owner) is torch.Generator and name in _RESEEDING and _is_default(owner):
                self.refuse(ModuleDrawsError())
            elif (getattr(called, "__module__", ""), name) in _STARTS:
                self.refuse(ModuleCommunicatesError("starts threads or processes"))
        elif event == "call":
            code = frame.f_code
            if code is _GAUSS and frame.f_locals.get("self") is _PYTHON:
                self.refuse(ModuleDrawsError())


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


def is_same_state(one: Any, two: Any) -> bool:
    """Return whether two states of a random generator are equal, arrays in them included."""
    if isinstance(one, tuple):
        pairs = zip(one, two, strict=False)
        return len(one) == len(two) and all(is_same_state(*pair) for pair in pairs)
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(is_same_state(one[key], two[key]) for key in one)
    return np.array_equal(one, two)
