"""One training step as a CUDA graph: captured once, then launched whole.

A dense network of width 128 at batch 32 keeps a card busy for less time than Python needs to
name its hundred kernels; a graph is launched by one call.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Protocol

import torch

from dgn_engine.training.out_of_memory import free_memory


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

    @cached_property
    def _side(self) -> torch.cuda.Stream:
        """Made when it is used: torch hands out 32 streams in turns, and networks of a stack,
        which take no steps themselves, would use them up. Those of a higher priority are others
        than that of readings, whose work must not be captured."""
        return torch.cuda.Stream(self._device, priority=-1)  # type: ignore[no-untyped-call]  # torch's stub

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
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        collects = gc.isenabled()
        self.wait()
        free_memory()  # of other streams: a capture cannot ask for it
        gc.disable()  # what it takes away may be CUDA's own, which a capture forbids
        try:
            with self.aside():
                # Other threads, such as one that reads probes, may go on using CUDA meanwhile.
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    work()
                except BaseException:
                    with contextlib.suppress(RuntimeError):  # it only says that the capture failed
                        self._end(graph, pool)
                    raise
                self._end(graph, pool)
        finally:
            if collects:
                gc.enable()
        return graph

    def _end(self, graph: torch.cuda.CUDAGraph, pool: tuple[int, int]) -> None:
        """End the capture. Where CUDA calls it invalid, torch before 2.12 goes on allocating for it
        and frees nothing from then on (pytorch#180395): that is ended here."""
        try:
            graph.capture_end()
        except RuntimeError:
            index = self._device.index
            device = torch.cuda.current_device() if index is None else index
            with contextlib.suppress(RuntimeError):  # newer ones have done it themselves
                torch._C._cuda_endAllocateToPool(device, pool)
            raise

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)
