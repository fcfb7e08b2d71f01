"""One training step as a CUDA graph: captured once, then launched whole.

A dense network of width 128 at batch 32 keeps a card busy for less time than Python needs to
name its hundred kernels; a graph is launched by one call.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch


class Graph(Protocol):
    """Work that was captured."""

    def replay(self) -> None:
        """Queue all of it again, on the same memory."""


class Card(Protocol):
    """Where steps are captured: a CUDA device, or what stands for one in tests."""

    def aside(self) -> AbstractContextManager[None]:
        """Work in here goes to a side stream, after what came before and before what follows."""

    def captured(self, work: Callable[[], None]) -> Graph:
        """The work as a graph; it is not done yet. Raises what CUDA says where that fails."""

    def wait(self) -> None:
        """Until all that was queued is done; only where graphs come and go."""


class CudaCard:
    """A CUDA device. Graphs are captured on the thread that trains, and by no other."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's stub

    @contextmanager
    def aside(self) -> Iterator[None]:
        here = torch.cuda.current_stream(self._device)
        self._side.wait_stream(here)
        try:
            with torch.cuda.stream(self._side):
                yield
        finally:
            here.wait_stream(self._side)

    def captured(self, work: Callable[[], None]) -> Graph:
        graph = torch.cuda.CUDAGraph()
        collects = gc.isenabled()
        self.wait()
        gc.disable()  # what it takes away may be CUDA's own, which a capture forbids
        try:
            with self.aside():
                # Other threads, such as one that reads probes, may go on using CUDA meanwhile.
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    work()
                except BaseException:
                    with contextlib.suppress(RuntimeError):  # it only says that the capture failed
                        graph.capture_end()
                    raise
                graph.capture_end()
        finally:
            if collects:
                gc.enable()
        return graph

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)
