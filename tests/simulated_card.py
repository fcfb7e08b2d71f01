"""A CUDA card that is simulated on a CPU: real numbers, and the faults of a real card.

Within `simulated_card()` torch finds a card. Its tensors lie on the CPU and are tagged as those of
cuda:0; whatever a card refuses (a mix of devices, `.numpy()`, a generator of the CPU) raises a
`CardError` that names the line. What makes the host wait for the card is counted in
`SimulatedCard.host_reads`, and is a fault within a training step and within `no_host_reads`.

The tag is an attribute of the storage: views share it, it goes when the memory goes, and memory
that is used again does not have it.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.steps import graphs
from dgn_engine.training.steps.graphs import GraphSteps
from dgn_engine.training.steps.network_step import NetworkStep
from dgn_engine.training.trainer import Trainer
from tests.engine.training.cuda import fake_card
from tests.engine.training.cuda.fake_card import (
    ASKS,
    BRINGS,
    MASKED,
    FakeGraph,
    has_mask,
    is_sized_by_data,
    recording,
    tensors_in,
)

ROOT = str(Path(__file__).parents[1]) + os.sep
SEEN = tuple(ROOT + folder + os.sep for folder in ("dgn_engine", "tests"))
UNSEEN = (__file__, fake_card.__file__)
CARD = torch.device("cuda", 0)
MEMORY = 1 << 34
FaultKind = Literal["mix", "numpy", "generator", "pin", "host read"]

# Operations that take a number of the CPU beside tensors of a card, and are not pointwise.
TAKES_NUMBERS = {"fill", "masked_fill", "_fused_adam", "_fused_sgd", "lerp", "addcmul", "addcdiv"}


class CardError(RuntimeError):
    """What a card refuses, or a wait for the card where there must be none.

    Attributes:
        kind: What is wrong.
        name: The operation.
        file, line: The innermost line of the engine or of a test, the file from the root of the
            repository.
    """

    def __init__(self, kind: FaultKind, name: str, file: str, line: int) -> None:
        super().__init__(f"{kind}: {name} at {file}:{line}")
        self.kind = kind
        self.name = name
        self.file = file
        self.line = line


@dataclass(frozen=True)
class HostRead:
    """A line at which the host waits for the card."""

    name: str
    file: str
    line: int


class _Thread(threading.local):
    """What holds in one thread."""

    def __init__(self) -> None:
        self.makes_card_tensors = False  # operations without tensors belong to a call of the card
        self.may_read = True
        self.stream: _Stream | None = None


class SimulatedCard:
    """What happened on the card so far.

    Attributes:
        faults: Also those that were caught on their way: the engine outlives a faulty probe.
        host_reads: How often the host waited for the card, by line.
        graphs: Captured so far.
    """

    def __init__(self) -> None:
        self.faults: list[CardError] = []
        self.host_reads: Counter[HostRead] = Counter()
        self.graphs: list[FakeGraph] = []
        self._thread = _Thread()

    @contextmanager
    def no_host_reads(self) -> Iterator[None]:
        """Within this, a wait for the card is a fault."""
        with self._reading(False):
            yield

    @contextmanager
    def host_reads_allowed(self) -> Iterator[None]:
        """Within this, a wait for the card is counted only, also inside of a step."""
        with self._reading(True):
            yield

    @contextmanager
    def modes(self) -> Iterator[None]:
        """Watch the calls and the operations of this thread."""
        with _Operations(self), _Calls(self):
            yield

    def fail(self, kind: FaultKind, name: str) -> None:
        """Raise a fault at the line that called."""
        fault = CardError(kind, name, *_calling_line())
        self.faults.append(fault)
        raise fault

    def count_read(self, name: str) -> None:
        """Count a wait for the card; raise a fault where there must be none."""
        self.host_reads[HostRead(name, *_calling_line())] += 1
        if not self._thread.may_read:
            self.fail("host read", name)

    @contextmanager
    def making_card_tensors(self, value: bool) -> Iterator[None]:
        """Whether tensors that are made from no other one lie on the card."""
        before, self._thread.makes_card_tensors = self._thread.makes_card_tensors, value
        try:
            yield
        finally:
            self._thread.makes_card_tensors = before

    @property
    def makes_card_tensors(self) -> bool:
        return self._thread.makes_card_tensors

    @contextmanager
    def on_stream(self, stream: _Stream | None) -> Iterator[None]:
        before, self._thread.stream = self._thread.stream, stream or self._thread.stream
        try:
            yield
        finally:
            self._thread.stream = before

    def current_stream(self, _: object = None) -> _Stream:
        if self._thread.stream is None:
            self._thread.stream = _Stream()
        return self._thread.stream

    @contextmanager
    def _reading(self, value: bool) -> Iterator[None]:
        before, self._thread.may_read = self._thread.may_read, value
        try:
            yield
        finally:
            self._thread.may_read = before


@contextmanager
def simulated_card() -> Iterator[SimulatedCard]:
    """Within this torch has one card, in this thread and in those that are started meanwhile."""
    card = SimulatedCard()
    precisions = torch.backends.cuda.matmul, torch.backends.cudnn.conv  # type: ignore[attr-defined]
    before = [each.fp32_precision for each in precisions]
    with ExitStack() as stack:
        for owner, name, value in _replacements(card):
            stack.enter_context(mock.patch.object(owner, name, value, create=True))
        stack.enter_context(card.modes())
        try:
            yield card
        finally:
            for each, precision in zip(precisions, before, strict=True):
                each.fp32_precision = precision


def is_on_card(tensor: Tensor) -> bool:
    storage = _storage(tensor)
    return storage is not None and getattr(storage, "on_simulated_card", False)


def _storage(tensor: Tensor) -> Any:
    """The memory of a tensor; None where it has none of its own."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor.untyped_storage() if tensor.layout is torch.strided else None


def _tag(result: Any) -> Any:
    for tensor in tensors_in(result):
        if (storage := _storage(tensor)) is not None:
            storage.on_simulated_card = True
    return result


def _pin(tensor: Tensor) -> Tensor:
    _storage(tensor).pinned_for_simulated_card = True
    return tensor


def _is_pinned(tensor: Tensor) -> bool:
    return getattr(_storage(tensor), "pinned_for_simulated_card", False)


def _is_cuda(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


def _calling_line() -> tuple[str, int]:
    """File and line of the innermost frame of the engine, or of a test."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(SEEN) and path not in UNSEEN:
            return path.removeprefix(ROOT).replace(os.sep, "/"), frame.f_lineno
        frame = frame.f_back
    return "", 0


class _Calls(TorchFunctionMode):
    """What is asked in Python: devices, copies between them, numbers that are read."""

    def __init__(self, card: SimulatedCard) -> None:
        super().__init__()
        self._card = card
        self._handlers: dict[Any, Callable[..., Any]] = {
            Tensor.device.__get__: lambda f, x: CARD if is_on_card(x) else f(x),
            Tensor.is_cuda.__get__: lambda _, x: is_on_card(x),  # type: ignore[attr-defined]
            Tensor.is_cpu.__get__: lambda f, x: f(x) and not is_on_card(x),  # type: ignore[attr-defined]
            Tensor.get_device: lambda _, x: 0 if is_on_card(x) else -1,
            Tensor.is_pinned: lambda _, x, *__: _is_pinned(x),
            Tensor.pin_memory: self._pin_memory,
            Tensor.to: self._to,
            Tensor.cpu: lambda _, x, **more: self._to(Tensor.to, x, "cpu", **more),
            Tensor.cuda: lambda _, x, *__, **more: self._to(Tensor.to, x, CARD, **more),
            Tensor.numpy: self._numpy,
            Tensor.__array__: self._numpy,
            Tensor.__deepcopy__: self._deepcopy,
            Tensor.new_tensor: self._new_tensor,
        }
        reads = (Tensor.tolist, Tensor.__repr__, Tensor.__format__, Tensor.__reduce_ex__)
        self._handlers |= dict.fromkeys(reads, self._read)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if (handler := self._handlers.get(func)) is not None:
            return handler(func, *args, **kwargs)
        if isinstance(func, torch._ops.OpOverload):  # a graph that is replayed
            return func(*args, **kwargs)
        device, pinned = kwargs.get("device"), kwargs.pop("pin_memory", False)
        if _is_cuda(device):
            del kwargs["device"]
            if func in BRINGS:
                return self._bring(func, *args, **kwargs)
            with self._card.making_card_tensors(True):
                return _tag(func(*args, **kwargs))
        on_card = any(map(is_on_card, tensors_in(args)))
        if on_card and device is not None:  # `new_zeros(…, device="cpu")`
            with _disable_current_modes():
                return func(*args, **kwargs)
        with self._card.making_card_tensors(on_card):
            result = func(*args, **kwargs)
        return _pin(result) if pinned else result

    def _to(self, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        copy = kwargs.pop("copy", False)
        others = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        device, dtype, quick, layout = torch._C._nn._parse_to(*args, **kwargs)
        if others:
            device = CARD if is_on_card(others[0]) else others[0].device
        more = {"memory_format": layout} if layout is not None else {}
        dtype = dtype or tensor.dtype
        if device is None or _is_cuda(device) == is_on_card(tensor):
            return func(tensor, dtype, copy=copy, **more)  # type: ignore[no-any-return]
        if device.type not in ("cpu", "cuda"):
            return func(tensor, device, dtype, copy=copy, **more)  # type: ignore[no-any-return]
        # Memory that is not pinned is copied by the host itself, whatever it is asked.
        if not quick or (_is_cuda(device) and not _is_pinned(tensor)):
            self._card.count_read(f"to {device.type}")
        with _disable_current_modes():
            moved: Tensor = func(tensor, dtype, copy=True, **more)
        return _tag(moved) if _is_cuda(device) else moved

    def _bring(self, func: Any, source: Any, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(source, Tensor) and is_on_card(source):
            return func(source, *args, **kwargs)  # type: ignore[no-any-return]
        self._card.count_read(func.__name__)
        with _disable_current_modes():
            made: Tensor = func(source, *args, **kwargs)
            shares = isinstance(source, (Tensor, np.ndarray))
            return _tag(made.clone() if shares else made)  # type: ignore[no-any-return]

    def _new_tensor(self, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        device = kwargs.pop("device", None)
        if _is_cuda(device) if device is not None else is_on_card(tensor):
            self._card.count_read("new_tensor")
            with _disable_current_modes():
                return _tag(func(tensor, *args, **kwargs))  # type: ignore[no-any-return]
        with _disable_current_modes():
            return func(tensor, *args, **kwargs)  # type: ignore[no-any-return]

    def _numpy(self, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        if is_on_card(tensor):
            self._card.fail("numpy", func.__name__)
        return func(tensor, *args, **kwargs)

    def _pin_memory(self, _: Any, tensor: Tensor, *__: Any) -> Tensor:
        if is_on_card(tensor):
            self._card.fail("pin", "pin_memory")
        return _pin(tensor.clone())

    def _deepcopy(self, func: Any, tensor: Tensor, memo: Any) -> Tensor:
        copied = func(tensor, memo)
        return _tag(copied) if is_on_card(tensor) else copied  # type: ignore[no-any-return]

    def _read(self, func: Any, tensor: Tensor, *args: Any) -> Any:
        if is_on_card(tensor):
            self._card.count_read(func.__name__)
        with _disable_current_modes():
            return func(tensor, *args)


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's stub
    """What is computed, also by autograd: on which memory, and whether numbers are waited for."""

    def __init__(self, card: SimulatedCard) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's stub
        self._card = card

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled; the compiler need not be loaded to be told so."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            tensors = tensors_in((args, tuple(kwargs.values())))
            on_card = [is_on_card(tensor) for tensor in tensors]
            lies = any(on_card) if tensors else self._card.makes_card_tensors
            if lies:
                self._check(func, args, kwargs, tensors, on_card)
            result = func(*args, **kwargs)
            return _tag(result) if lies and func.overloadpacket.__name__ != "copy_" else result

    def _check(
        self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor], on_card: list[bool]
    ) -> None:
        card, name = self._card, func.overloadpacket.__name__
        generators = (value for value in (*args, *kwargs.values()))
        if any(isinstance(value, torch.Generator) for value in generators):
            card.fail("generator", name)
        host = [tensor for tensor, on in zip(tensors, on_card, strict=True) if not on]
        if name == "copy_":
            pinned = all(_is_pinned(tensor) for tensor in host)
            if host and not (pinned and kwargs.get("non_blocking", len(args) > 2 and args[2])):
                card.count_read(name)
        elif name in ("index", "index_put", "index_put_", "_index_put_impl_") and on_card[0]:
            if any(value.dim() and not is_on_card(value) for value in tensors_in(args[2:3])):
                card.fail("mix", name)
            if any(not is_on_card(index) for index in tensors_in(args[1])):
                card.count_read(f"{name} by an index of the host")
        elif host:
            target = args[0] if name.endswith("_") else kwargs.get("out")
            written = any(tensor is target for tensor in host)
            is_number = all(tensor.dim() == 0 for tensor in host) and not written
            if not (is_number and _takes_numbers(func)):
                card.fail("mix", name)
        counts_mask = func.overloadpacket in MASKED and has_mask(args[1]) and args[2].numel() != 1
        if counts_mask or is_sized_by_data(func, args) or name in ASKS:
            card.count_read(name)


@functools.cache
def _takes_numbers(func: Any) -> bool:
    """Whether tensors of no dimension may lie on the CPU where the others lie on a card."""
    name = func.overloadpacket.__name__.removesuffix("_")
    packet = getattr(torch.ops.aten, name, func.overloadpacket)
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    pointwise = any(torch.Tag.pointwise in overload.tags for overload in overloads)
    return pointwise or name in TAKES_NUMBERS or name.startswith("_foreach_")


class _Stream:
    """Work is done where it is queued, so that there is nothing to wait for."""

    def __init__(self, device: object = None, priority: int = 0) -> None:
        self.device = CARD

    def wait_stream(self, stream: _Stream) -> None: ...

    def wait_event(self, event: _Event) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, event: _Event | None = None) -> _Event:
        return event or _Event()


class _Event:
    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None: ...

    def record(self, stream: _Stream | None = None) -> None: ...

    def wait(self, stream: _Stream | None = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True


def _replacements(card: SimulatedCard) -> Iterator[tuple[Any, str, Any]]:
    """Owner, name and value of everything that is another one while there is a card."""

    class Graph(FakeGraph):
        """A CUDA graph as it is captured and replayed by `fake_card`."""

        def capture_begin(self, **_: object) -> None:
            card.graphs.append(self)
            self._capturing = ExitStack()
            self._capturing.enter_context(recording(self))

        def capture_end(self) -> None:
            self._capturing.close()

        def replay(self) -> None:
            with card.making_card_tensors(True):
                super().replay()

    values: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *_: True,
        "is_current_stream_capturing": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: "a simulated card",
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "mem_get_info": lambda *_: (MEMORY // 2, MEMORY),
        "memory_allocated": lambda *_: 0,
        "memory_reserved": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "reset_peak_memory_stats": lambda *_: None,
        # The random numbers of the simulated card are those of the CPU.
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "manual_seed": lambda _: None,
        "manual_seed_all": lambda _: None,
        "Stream": _Stream,
        "Event": _Event,
        "CUDAGraph": Graph,
        "current_stream": card.current_stream,
        "default_stream": card.current_stream,
        "stream": card.on_stream,
        "graph_pool_handle": lambda: (0, 1),
    }
    for name, value in values.items():
        yield torch.cuda, name, value
    yield torch._C, "_cuda_endAllocateToPool", lambda *_: None
    yield Tensor, "record_stream", lambda *_: None  # torch's own takes no other kind of stream
    yield torch.backends.cuda, "is_built", lambda: True
    yield torch, "autocast", _autocast
    grouped = torch._C._group_tensors_by_device_and_dtype
    yield torch._C, "_group_tensors_by_device_and_dtype", lambda *a: _grouped(grouped(*a))
    yield threading.Thread, "start", _watched(card, threading.Thread.start)
    for owner, names in (
        (Trainer, "step"),
        (NetworkStep, "take_step"),
        (TrainerStack, "step take_step"),
    ):
        for name in names.split():
            yield owner, name, _within(card.no_host_reads, getattr(owner, name))
    # A new graph is compared with eager steps, which reads how far they are apart.
    yield GraphSteps, "_capture_size", _within(card.host_reads_allowed, GraphSteps._capture_size)
    yield graphs, "free_memory", lambda: None  # there is none to free, and looking for it is slow


_Autocast = torch.autocast


def _autocast(device_type: str, *args: Any, **kwargs: Any) -> torch.autocast:
    """Return the context of the CPU, where the numbers of the card are computed."""
    return _Autocast("cpu" if device_type == "cuda" else device_type, *args, **kwargs)


def _grouped(groups: dict[Any, Any]) -> dict[Any, Any]:
    """Groups of tensors by device and type, as an optimiser asks for them."""

    def device(lists: list[list[Tensor | None]], there: torch.device) -> torch.device:
        first = next(tensor for tensors in lists for tensor in tensors if tensor is not None)
        return CARD if is_on_card(first) else there

    return {
        (device(lists, there), dtype): (lists, indices)
        for (there, dtype), (lists, indices) in groups.items()
    }


def _watched(card: SimulatedCard, start: Callable[..., None]) -> Callable[..., None]:
    """Modes hold for a thread; those that start later need their own."""

    def start_with_modes(thread: threading.Thread) -> None:
        run = thread.run

        def run_with_modes() -> None:
            with card.modes():
                run()

        thread.run = run_with_modes  # type: ignore[method-assign]
        start(thread)

    return start_with_modes


def _within(context: Callable[[], Any], method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with context():
            return method(*args, **kwargs)

    return call
