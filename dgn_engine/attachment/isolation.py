"""Keep the computation of a reading apart from the user's training loop.

Only state of the calling thread is switched, or it is switched for this thread alone: meanwhile the
user's other threads may train, draw random numbers and call modules. Process-wide settings are
switched by one watcher at a time.
"""

from __future__ import annotations

import ctypes
import dis
import functools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any

import torch
from torch.nn.modules import module as torch_module
from torch.utils import _python_dispatch
from torch.utils._device import DeviceContext

_RAISE = dis.opmap["RAISE_VARARGS"]
PATIENCE = 30.0  # seconds that a watcher's start and close wait for a watcher in another thread
_TURN = threading.RLock()  # held by the watcher that computes, one at a time in this process
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_TURN._at_fork_reinit)  # type: ignore[attr-defined]


class OtherThreadReadsError(Exception):
    """Raised when a watcher in another thread does not finish its reading in time."""


@contextmanager
def isolate_computation(patience: float = PATIENCE) -> Iterator[None]:
    """Compute with gradients in full precision, without the user's hooks and torch modes.

    Disabled for the duration: autocast, inference mode, saved-tensor hooks, torch function and
    dispatch modes, and global module hooks (these for the calling thread only). What a signal
    handler raises inside is raised at the end, even if code inside caught it.

    Args:
        patience: Seconds to wait for a watcher in another thread. It is limited because the
            module's own code may itself wait for that thread.

    Returns:
        A context manager.

    Raises:
        OtherThreadReadsError: The other watcher is still reading.
    """
    if not _TURN.acquire(timeout=patience):
        raise OtherThreadReadsError("a watcher in another thread is still reading")
    with ExitStack() as stack:
        stack.callback(_TURN.release)
        stack.enter_context(_reraise_handler_errors())
        switched = ExitStack()
        try:
            with defer_signals():
                switched.enter_context(_restore_torch_settings())
                switched.enter_context(disable_torch_modes())
                switched.enter_context(_disable_saved_tensor_hooks())
                switched.enter_context(_disable_module_hooks())
                switched.enter_context(_disable_autocast())
                switched.enter_context(torch.inference_mode(False))
                switched.enter_context(torch.enable_grad())
            yield
        finally:
            with defer_signals():
                switched.close()


@contextmanager
def defer_signals() -> Iterator[None]:
    """Delay the user's signal handlers, within `isolate_computation`, until the end of this block.

    An exception from a handler would otherwise leave settings half switched or half restored.

    Returns:
        A context manager.
    """
    global _deferring
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # handlers only run in the main thread
        yield
        return
    _deferring += 1
    try:
        yield
    finally:
        _deferring -= 1
        while _pending and not _deferring:
            _pending.pop(0)()


_deferring = 0
_pending: list[Callable[[], object]] = []


@contextmanager
def _restore_torch_settings() -> Iterator[None]:
    """Restore settings that an interrupted reading left switched, and the environment variables
    that importing parts of torch adds."""
    functorch = torch._C._functorch
    modes, depth = _dispatch_modes(), functorch.get_dynamic_layer_stack_depth()
    dispatch = vars(_python_dispatch)
    entered = {name: value for name, value in dispatch.items() if name.startswith("_is_in_")}
    settings = [(write, read()) for read, write in _SETTINGS]
    variables: dict[bytes, bytes] = vars(os.environ)["_data"]
    filters, environment = warnings.filters, dict(variables)
    try:
        yield
    finally:
        functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if list(map(id, _dispatch_modes())) != list(map(id, modes)):
            for _ in _dispatch_modes():
                _python_dispatch._pop_mode()
            for mode in modes:
                _python_dispatch._push_mode(mode)
        if any(dispatch[name] != value for name, value in entered.items()):
            dispatch.update(entered)
            last = entered.get("_is_in_any_mode_without_ignore_compile_internals", False)
            dispatch.get("set_is_in_mode_without_ignore_compile_internals", bool)(last)
        for (read, _), (write, before) in zip(_SETTINGS, settings, strict=True):
            if read() != before:
                write(before)
        if warnings.filters is not filters:
            warnings.filters = filters
            warnings._filters_mutated()  # type: ignore[attr-defined]
        if variables != environment:
            for name in variables.keys() - environment.keys():
                del os.environ[os.fsdecode(name)]
            for name, value in environment.items():
                if variables.get(name) != value:
                    os.environ[os.fsdecode(name)] = os.fsdecode(value)


def _dispatch_modes() -> list[Any]:
    return [
        torch._C._get_dispatch_stack_at(index)
        for index in range(torch._C._len_torch_dispatch_stack())
    ]


def _attribute_accessors(
    owner: Any, name: str
) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    return functools.partial(getattr, owner, name), functools.partial(setattr, owner, name)


_CUDA, _CUDNN = torch.backends.cuda, torch.backends.cudnn
_SETTINGS: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
    (_CUDA.flash_sdp_enabled, _CUDA.enable_flash_sdp),
    (_CUDA.mem_efficient_sdp_enabled, _CUDA.enable_mem_efficient_sdp),
    (_CUDA.math_sdp_enabled, _CUDA.enable_math_sdp),
    (_CUDA.cudnn_sdp_enabled, _CUDA.enable_cudnn_sdp),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    _attribute_accessors(_CUDNN, "enabled"),
    _attribute_accessors(_CUDNN, "benchmark"),
    _attribute_accessors(_CUDNN, "deterministic"),
]


@contextmanager
def disable_torch_modes() -> Iterator[None]:
    """Disable the user's `TorchFunctionMode`s and `TorchDispatchMode`s, which see each call.

    The default device is such a mode too; it is kept.

    Returns:
        A context manager.
    """
    own = torch._C
    modes = [own._pop_torch_function_stack() for _ in range(own._len_torch_function_stack())]
    modes.reverse()
    try:
        for mode in modes:
            if isinstance(mode, DeviceContext):
                own._push_on_torch_function_stack(mode)
        with _disable_dispatch_modes():
            yield
    finally:
        for _ in range(own._len_torch_function_stack()):
            own._pop_torch_function_stack()
        for mode in modes:
            own._push_on_torch_function_stack(mode)


@contextmanager
def _disable_dispatch_modes() -> Iterator[None]:
    if not torch._C._len_torch_dispatch_stack():
        yield
        return
    from torch.utils._python_dispatch import _disable_current_modes  # imports much of torch

    with _disable_current_modes():
        yield


@contextmanager
def _disable_saved_tensor_hooks() -> Iterator[None]:
    own = torch._C._autograd
    hooks: list[Any] = []
    while (top := own._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        own._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        while own._top_saved_tensors_default_hooks(True) is not None:  # left by an interruption
            own._pop_saved_tensors_default_hooks()
        for pack, unpack in reversed(hooks):
            own._push_saved_tensors_default_hooks(pack, unpack)


@contextmanager
def _disable_autocast() -> Iterator[None]:
    """Disable `torch.autocast`. Leaving it instead would clear a cache that all threads share."""
    enabled = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    for kind in enabled:
        torch.set_autocast_enabled(kind, False)
    try:
        yield
    finally:
        for kind in enabled:
            torch.set_autocast_enabled(kind, True)


@contextmanager
def _disable_module_hooks() -> Iterator[None]:
    """Skip global module hooks in this thread.

    torch keeps them in process-wide dictionaries. Each hook is replaced by a function that calls it
    in every other thread, under the same key, so that the user can still remove it.
    """
    thread = threading.get_ident()
    replaced = []
    for name, hooks in list(vars(torch_module).items()):
        if not name.startswith("_global_") or not isinstance(hooks, dict):
            continue
        for key, hook in list(hooks.items()):
            if callable(hook):  # the others are flags
                elsewhere = _skip_in_thread(hook, thread)
                hooks[key] = elsewhere
                replaced.append((hooks, key, hook, elsewhere))
    try:
        yield
    finally:
        for hooks, key, hook, elsewhere in reversed(replaced):
            if hooks.get(key) is elsewhere:
                hooks[key] = hook


def _skip_in_thread(hook: Callable[..., Any], thread: int) -> Callable[..., Any]:
    def hook_in_other_threads(*args: Any, **kwargs: Any) -> Any:
        return None if threading.get_ident() == thread else hook(*args, **kwargs)

    return hook_in_other_threads


@contextmanager
def _reraise_handler_errors() -> Iterator[None]:
    """Reraise at the end what a signal handler raised, unless it is propagating already.

    Code that computes readings catches what a module raises, and cannot tell the two apart.
    """
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # handlers only run in the main thread
        yield
        return
    raised: list[BaseException] = []
    replaced = []
    try:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                _HANDLERS.add(_code_of(handler))
                heeded = _record_handler_errors(handler, raised)
                replaced.append((number, handler, heeded))
                _set_handler(number, heeded)
        yield
    except BaseException:
        if not raised:
            raise
    finally:
        for number, handler, heeded in replaced:
            if signal.getsignal(number) is heeded:  # the user's handler may have set another
                _set_handler(number, handler)
    if raised:
        raise raised[0]


def _set_handler(number: int, handler: Callable[..., Any]) -> None:
    """Set a handler as `signal.signal` does, but keep what `signal.siginterrupt` has set."""
    restarts = _restarts_calls(number)
    signal.signal(number, handler)
    if restarts:
        signal.siginterrupt(number, False)


class _SignalAction(ctypes.Structure):
    """`struct sigaction` of Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * (1024 // (8 * ctypes.sizeof(ctypes.c_ulong)))),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


@functools.cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _restarts_calls(number: int) -> bool:
    """Return whether a signal restarts system calls: Python can set that, but not read it."""
    if sys.platform != "linux":
        return False
    action = _SignalAction()
    failed = _c_library().sigaction(int(number), None, ctypes.byref(action))
    return not failed and bool(action.flags & 0x10000000)  # SA_RESTART


def _record_handler_errors(
    handler: Callable[..., Any], raised: list[BaseException]
) -> Callable[..., Any]:
    def recording_handler(*args: Any) -> Any:
        if _deferring:
            _pending.append(functools.partial(recording_handler, *args))
            return None
        try:
            return handler(*args)
        except BaseException as error:
            raised.append(error)
            raise

    _HANDLERS.add(recording_handler.__code__)
    return recording_handler


# The code of all handlers seen during readings: one may install another before it raises.
_HANDLERS: set[CodeType | None] = set()


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception reached this thread from outside of the code that it ran.

    That is Ctrl+C, or anything that the user's signal handlers raise; not a `KeyboardInterrupt` or
    `SystemExit` that the code itself raises.

    Args:
        error: A caught exception, with its traceback.

    Returns:
        True if the user is stopping the program.
    """
    now = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    handlers = (now | _HANDLERS) - {None}
    trace, last = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace, last = trace.tb_next, trace
    if not isinstance(error, KeyboardInterrupt):
        return False
    return last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    for candidate in (handler, vars(type(handler)).get("__call__")):  # a callable object
        code = getattr(getattr(candidate, "__func__", candidate), "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None
