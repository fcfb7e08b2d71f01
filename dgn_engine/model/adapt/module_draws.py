"""Guards a module's forward pass that runs alongside training: no random draws, no messages.

States of torch's and Python's generators are not saved and restored, because another thread, such
as a prefetching loader, may draw meanwhile and would then draw the same numbers again. Instead a
draw is refused before it happens, in the thread that runs the module. Threads of the module cannot
be followed and messages to other processes cannot be undone, so both are refused, too.
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
_GAUSS = random.Random.gauss.__code__  # may return a cached number without drawing


class PassRefusedError(UserError):
    """A module's forward pass does something that is not allowed outside training."""


class ModuleDrawsError(PassRefusedError):
    """A module draws from, or seeds, a global random generator."""

    def __init__(self) -> None:
        super().__init__(
            "The module draws random numbers in its forward pass, so its outputs may change from "
            "call to call; call eval(), or remove the random layers."
        )


class ModuleCommunicatesError(PassRefusedError):
    """A module exchanges messages with other processes, or starts threads."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The module {what} in its forward pass, which is not allowed outside your training."
        )


@contextmanager
def refuse_draws(draws_of_numpy: bool = False) -> Iterator[None]:
    """Refuse random draws and communication in this thread.

    The default generators of torch, Python's `random` and numpy's global generator are guarded;
    generators that a module owns may be used. Draws of torch and Python, collective operations of
    `torch.distributed` and starts of threads or processes are stopped before they happen.

    Compiled methods of numpy cannot be intercepted, so the state of its global generator is
    compared. If it changed and no other Python thread is running, the draw was the module's and is
    undone. With other threads running, one of them may have drawn, and undoing it would repeat
    their numbers; a module that is known to draw from numpy is therefore not run then. Nothing is
    locked, since the module may wait for a thread that draws.

    Args:
        draws_of_numpy: Whether the module is known to draw from numpy.

    Yields:
        Nothing.

    Raises:
        ModuleDrawsError: The module draws.
        ModuleCommunicatesError: It needs other threads or processes.
        UserError: A profiler that cannot be paused is active in this thread.
    """
    alone = _is_alone()
    if draws_of_numpy and not alone:
        raise ModuleDrawsError
    guard = _DrawGuard()  # type: ignore[no-untyped-call] # torch leaves it so
    before = np.random.get_state(legacy=False)
    try:
        with guard, guard.watch_calls():
            yield
    finally:
        if alone and _is_alone() and not is_same_state(before, np.random.get_state(legacy=False)):
            np.random.set_state(before)
            guard.refused = guard.refused or ModuleDrawsError()
    if guard.refused is not None:  # numpy drew, or the module caught the error
        raise guard.refused


def _is_alone() -> bool:
    """Check that only this thread and threads of this package, which do not draw, are running.

    Thread names say nothing, and not all threads are known to `threading`.
    """
    own = threading.get_ident()
    return all(
        thread == own or _runs_ours(frame) for thread, frame in sys._current_frames().items()
    )


def _runs_ours(frame: FrameType | None) -> bool:
    """Check whether a thread was started with a function of this package."""
    function = ""
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        function, frame = name if name != "threading" else function, frame.f_back
    return function.startswith("dgn_engine.")


class _DrawGuard(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Watches the torch operations of a thread and, within `watch_calls`, its calls of C functions.

    Attributes:
        refused: The error that was raised, if any.
    """

    refused: PassRefusedError | None = None

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags and _is_process_draw(
            func, args, kwargs or {}
        ):
            self.refuse(ModuleDrawsError())
        if func.namespace in _COLLECTIVE:
            self.refuse(ModuleCommunicatesError("exchanges messages with other processes"))
        return func(*args, **(kwargs or {}))

    def refuse(self, error: PassRefusedError) -> None:
        """Record and raise an error."""
        self.refused = error
        raise error

    @contextmanager
    def watch_calls(self) -> Iterator[None]:
        """Watch calls of `random` and seeding of torch's generators.

        A Python profile function belongs to one thread, and an exception it raises stops the call.
        """
        previous = sys.getprofile()
        pausable = hasattr(previous, "disable") and hasattr(previous, "enable")  # cProfile
        if previous is not None and not callable(previous) and not pausable:
            raise UserError(
                "A profiler that cannot be paused (torch.profiler with with_stack=True) is active "
                "in this thread; stop it first.",
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


_PYTHON: random.Random = random._inst  # behind random.random() and others


def _is_process_draw(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Check whether an operation that may draw does so, from a global generator."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    generator = given.get("generator")
    if generator is not None and not _is_default(generator):
        return False
    if given.get("train", given.get("training", True)) is False:
        return False
    rates = [given.get(name) for name in ("p", "dropout", "dropout_p") if name in names]
    if "generator" not in names and rates:  # dropout, which attention and RNNs have at rate 0
        return bool(rates[0])
    return func.overloadpacket not in _CHOICES


_CHOICES = {  # tagged as random, but are not
    getattr(torch.ops.aten, name)
    for name in ("_fused_sdp_choice", "_nested_tensor_softmax_with_shape")
    if hasattr(torch.ops.aten, name)
}


def _is_default(generator: torch.Generator) -> bool:
    cards = torch.cuda.default_generators if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    return generator is torch.default_generator or any(generator is card for card in cards)


def is_same_state(one: Any, two: Any) -> bool:
    """Compare two states of a random generator, including arrays in them.

    Args:
        one: First state.
        two: Second state.

    Returns:
        Whether they are equal.
    """
    if isinstance(one, tuple):
        pairs = zip(one, two, strict=False)
        return len(one) == len(two) and all(is_same_state(*pair) for pair in pairs)
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(is_same_state(one[key], two[key]) for key in one)
    return np.array_equal(one, two)
