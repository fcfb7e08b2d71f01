"""A card that is none: it captures on the CPU what a CUDA graph would, and refuses what that would.

While it captures it writes down every operation with the very tensors that it reads and writes, and
puts back what was changed: as on a card nothing has happened yet. A replay does the same operations
on the same memory with the same Python numbers, so that what a graph would not notice (a number
that was changed, a tensor that was replaced) is not noticed here either.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

# What leaves the card, or brings numbers of Python to it, whatever the device of the test is.
LEAVES = {
    Tensor.cpu,
    Tensor.tolist,
    Tensor.numpy,
    Tensor.item,
    Tensor.pin_memory,
    Tensor.cuda,
    Tensor.__array__,
    Tensor.__repr__,
    Tensor.__format__,
}
BRINGS = {torch.tensor, torch.as_tensor, torch.from_numpy, torch.asarray}
SIZED_BY_DATA = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
MASKED = (torch.ops.aten.index_put_, torch.ops.aten.index_put, torch.ops.aten._index_put_impl_)
# Linear algebra that asks the card whether it succeeded.
ASKS = ("_linalg_check_errors", "_linalg_eigh", "_linalg_svd", "linalg_eig")


class CaptureError(RuntimeError):
    """What cudaErrorStreamCaptureUnsupported is on a card."""


def refuse(what: str) -> None:
    raise CaptureError(f"operation not permitted when stream is capturing: {what}")


def _refuse_in_this_thread(waiting: Callable[..., Any]) -> Callable[..., Any]:
    capturing = threading.get_ident()

    def wait(*args: Any) -> Any:
        if threading.get_ident() == capturing:
            refuse("synchronize")
        return waiting(*args)

    return wait


@contextmanager
def _no_waiting() -> Iterator[None]:
    """What waits for a card, or takes memory from it, without a tensor.

    Other threads may go on waiting: graphs are captured with the mode 'thread_local'.
    """
    owners = {
        torch.cuda: ("synchronize", "empty_cache", "mem_get_info"),
        torch.cuda.Stream: ("synchronize", "query"),
        torch.cuda.Event: ("synchronize", "query"),
    }
    with contextlib.ExitStack() as stack:
        for owner, names in owners.items():
            for name in names:
                refusing = _refuse_in_this_thread(getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, refusing))
        yield


class _Words(TorchFunctionMode):
    """What is asked in Python and leaves no trace among the operations of a CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in LEAVES or func in BRINGS:
            refuse(getattr(func, "__name__", str(func)))
        if func is Tensor.to and any(_is_device(a) for a in (*args[1:], kwargs.get("device"))):
            # Without waiting, too: a graph would read that memory of the host at every replay.
            refuse("a copy between devices")
        if kwargs.get("pin_memory"):
            refuse("pinned memory")
        if func in (Tensor.__getitem__, Tensor.__setitem__) and _has_list(args[1]):
            refuse("an index that is a list of Python")
        return func(*args, **kwargs)


def _is_device(argument: object) -> bool:
    return isinstance(argument, (torch.device, str))


def _has_list(index: object) -> bool:
    if isinstance(index, tuple):
        return any(_has_list(each) for each in index)
    return isinstance(index, (list, np.ndarray))


@dataclass
class FakeGraph:
    """The operations of one captured piece of work."""

    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = field(default_factory=list)
    replays: int = 0

    @torch.no_grad()
    def replay(self) -> None:
        self.replays += 1
        for operation, args, kwargs, results in self.calls:
            again = operation(*args, **kwargs)
            for result, new in zip(tensors_in(results), tensors_in(again), strict=True):
                if new is not result and new.data_ptr() != result.data_ptr():
                    result.detach().copy_(new)


class _Recorder(TorchDispatchMode):
    """Writes operations down; remembers what the memory was that they changed."""

    def __init__(self, graph: FakeGraph) -> None:
        super().__init__()
        self._graph = graph
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._own: set[int] = set()  # memory that came with the capture
        self._kept: list[Any] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch's compiler is loaded, to be told that nothing is compiled here

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_sized_by_data(func, args):
            refuse(f"{func} waits for data")
        if func.overloadpacket in MASKED and has_mask(args[1]):
            refuse(f"{func} counts a mask")
        if func is torch.ops.aten.lift_fresh.default:
            refuse("numbers of Python become a tensor")
        if func.overloadpacket.__name__ in ASKS:
            refuse(f"{func} asks whether it succeeded")
        if torch.Tag.nondeterministic_seeded in func.tags:
            refuse(f"{func} draws random numbers")
        for declared, given in zip(func._schema.arguments, args, strict=False):
            if declared.alias_info is not None and declared.alias_info.is_write:
                self._remember(given)
        if func is torch.ops.aten.native_batch_norm.default:
            self._remember(args[3:5])  # running mean and variance, which the schema does not name
        for declared in func._schema.arguments:
            if declared.name in kwargs and declared.alias_info is not None:
                self._remember(kwargs[declared.name])
        results = func(*args, **kwargs)
        self._graph.calls.append((func, args, kwargs, results))
        known = {t.untyped_storage().data_ptr() for t in tensors_in((args, tuple(kwargs.values())))}
        for result in tensors_in(results):
            if (address := result.untyped_storage().data_ptr()) not in known:
                self._own.add(address)
        return results

    def _remember(self, given: object) -> None:
        for tensor in tensors_in(given):
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
            if address not in self._own and address not in self._before:
                with _disable_current_modes():
                    self._before[address] = (storage, storage.clone())

    def put_back(self) -> None:
        with _disable_current_modes():
            for storage, before in self._before.values():
                storage.copy_(before)


@contextmanager
def recording(graph: FakeGraph) -> Iterator[None]:
    """Write the operations in here into the graph; at its end nothing has happened yet."""
    recorder = _Recorder(graph)
    try:
        with _no_waiting(), _Words(), recorder:
            yield
    finally:
        with contextlib.suppress(RuntimeError):
            recorder.put_back()


def is_sized_by_data(func: Any, args: Any) -> bool:
    """Return whether an operation waits for numbers: for its result, or for the size of it."""
    if not any(tag in func.tags for tag in SIZED_BY_DATA):
        return False
    # An index of whole numbers has the size of the index, a mask has not.
    return func is not torch.ops.aten.index.Tensor or has_mask(args[1])


def has_mask(index: Any) -> bool:
    return any(one is not None and one.dtype in (torch.bool, torch.uint8) for one in index)


def tensors_in(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    tensors: list[Tensor] = []
    for value in values if isinstance(values, (tuple, list)) else ():
        if isinstance(value, (Tensor, tuple, list)):
            tensors += tensors_in(value)
    return tensors


class FakeCard:
    """A `Card`; `graphs`: all that were captured, `aside_count`: pieces of work on the side."""

    def __init__(self) -> None:
        self.graphs: list[FakeGraph] = []
        self.aside_count = 0
        self.waits = 0

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        self.aside_count += 1
        yield

    def capture_graph(self, work: Callable[[], None]) -> FakeGraph:
        graph = FakeGraph()
        with recording(graph):
            work()
        self.graphs.append(graph)
        return graph

    def wait(self) -> None:
        self.waits += 1
