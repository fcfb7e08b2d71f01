"""Launch training steps eagerly or as CUDA graphs.

At width 128 and batch 32 a card runs the hundred kernels of a step faster than Python can queue
them; a graph is captured once and then launched with one call. Every graph is verified before use:
the same two steps are taken eagerly and by the graph from the same weights, and the results are
compared. If anything fails, all later steps are eager and the reason is reported once.

What torch requires of a captured step:

- Random numbers are drawn before it (gates of FRG, views of augmented images); another seed is
  another graph.
- Optimisers are `capturable`, with rates and counts of steps in tensors on the card.
- Gradients of autograd are made and dropped within the capture, so that its private pool holds
  them.
- Copies to the host use another stream and pinned memory (`host_copies.py`).
- `PYTORCH_ALLOC_CONF` is the user's; nothing here sets it.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from dgn_engine.text.written_numbers import format_percent
from dgn_engine.training.out_of_memory import free_memory


class Graph(Protocol):
    """A captured step."""

    def replay(self) -> None:
        """Queue the captured work again, on the same memory."""


class Card(Protocol):
    """A device that captures steps: CUDA, or a stand-in for tests."""

    def side_stream(self) -> AbstractContextManager[None]:
        """Run the work of the block on a side stream.

        It starts after everything queued before the block and finishes before what follows.

        Returns:
            A context manager.
        """

    def capture_graph(self, work: Callable[[], None]) -> Graph:
        """Capture work as a graph, without running it.

        Args:
            work: Queues the kernels of one step.

        Returns:
            The graph, not replayed yet.

        Raises:
            RuntimeError: CUDA refuses the capture.
        """

    def wait(self) -> None:
        """Wait until all queued work is done; only needed when graphs are created or destroyed."""


class CudaCard:
    """A CUDA device. Only the training thread captures graphs."""

    def __init__(self, device: torch.device) -> None:
        """Bind a device; the side stream is created on first use.

        Args:
            device: A CUDA device.
        """
        self._device = device

    @cached_property
    def _side(self) -> torch.cuda.Stream:
        """Create the side stream on first use.

        torch hands out its 32 streams in turns, and stack members, which take no steps themselves,
        would exhaust them. The high-priority pool is separate from that of probe readings, whose
        work must not be captured.
        """
        return torch.cuda.Stream(self._device, priority=-1)  # type: ignore[no-untyped-call]  # torch's stub

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        """Run the work of the block on the side stream, in order with the current stream.

        Yields:
            Nothing.
        """
        here = torch.cuda.current_stream(self._device)
        self._side.wait_stream(here)
        try:
            with torch.cuda.stream(self._side):
                yield
        finally:
            here.wait_stream(self._side)

    def capture_graph(self, work: Callable[[], None]) -> Graph:
        """Capture work as a graph, with garbage collection off.

        Args:
            work: Queues the kernels of one step; must not allocate outside the graph's pool.

        Returns:
            The graph, not replayed yet.

        Raises:
            RuntimeError: CUDA refuses the capture.
        """
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        collects = gc.isenabled()
        self.wait()
        free_memory()  # cached by other streams; a capture cannot reclaim it
        gc.disable()  # freeing CUDA objects during a capture is an error
        try:
            with self.side_stream():
                # Other threads, such as the one that reads probes, may keep using CUDA.
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    work()
                except BaseException:
                    with contextlib.suppress(
                        RuntimeError
                    ):  # would only repeat that the capture failed
                        self._end_capture(graph, pool)
                    raise
                self._end_capture(graph, pool)
        finally:
            if collects:
                gc.enable()
        return graph

    def _end_capture(self, graph: torch.cuda.CUDAGraph, pool: tuple[int, int]) -> None:
        """End the capture.

        After an invalid capture, torch before 2.12 keeps allocating from the pool and never frees
        it (pytorch#180395), so the pool is closed here.
        """
        try:
            graph.capture_end()
        except RuntimeError:
            index = self._device.index
            device = torch.cuda.current_device() if index is None else index
            with contextlib.suppress(RuntimeError):  # newer versions have done this already
                torch._C._cuda_endAllocateToPool(device, pool)
            raise

    def wait(self) -> None:
        """Synchronise with the device."""
        torch.cuda.synchronize(self._device)


WARM_UP = 3  # eager steps before a capture, in which libraries allocate their workspaces
# Relative to the distance the weights move. Summation order alone gives about 1e-6; a graph that
# reads freed memory is off by the length of the step itself.
TOLERANCE = 0.05
# Where two steps amplify rounding beyond that (TF32, a large rate), a graph may deviate by
# ROUNDINGS times what eager steps do from weights rounded once, but never by AT_MOST.
ROUNDINGS, AT_MOST = 5.0, 0.5


class Steppable(Protocol):
    """The network or stack that a `StepRunner` steps.

    Runners hold it weakly, so that it is freed as soon as it is dropped. All methods run in the
    training thread.
    """

    @property
    def on_eager(self) -> Callable[[str], None]:
        """Return the callback for the reason why steps cannot be captured.

        Returns:
            Called at most once, with a sentence part.
        """

    def take_step(self, rows: Tensor) -> None:
        """Take one step without waiting for the device.

        Args:
            rows: Indices of the training examples, (m,), or (B, m) of a stack.
        """

    def capture_key(self) -> Hashable:
        """Return everything a captured step would not notice changing.

        Returns:
            A hashable key; a new value requires a new graph.
        """

    def changed_tensors(self) -> Sequence[Tensor]:
        """Return every tensor that a step changes.

        Returns:
            Weights, optimiser state and running sums, not copied.
        """

    def drop_gradients(self) -> None:
        """Drop the gradients of a step that did not finish."""

    @property
    def examples(self) -> int:
        """Return the number of training examples.

        Returns:
            Upper bound of `rows`, exclusive.
        """

    @property
    def rounding(self) -> float:
        """Return the relative rounding error of the factors of a matrix product.

        Returns:
            For example 2⁻²⁴ for float32.
        """


class StepRunner(Protocol):
    """Launcher of steps, eager or as graphs; the caller need not know which."""

    def step(self, rows: Tensor) -> None:
        """Take one step.

        Args:
            rows: Indices of the training examples, (m,), or (B, m) of a stack.
        """

    def drop_graphs(self) -> None:
        """Free the memory kept for later steps."""


class EagerSteps:
    """Eager launches: one operation after another."""

    def __init__(self, stepped: Steppable) -> None:
        """Hold the network or stack weakly.

        Args:
            stepped: What to step.
        """
        self._stepped: Steppable = weakref.proxy(stepped)

    def step(self, rows: Tensor) -> None:
        """Take one step eagerly.

        Args:
            rows: Indices of the training examples, (m,) or (B, m).
        """
        self._stepped.take_step(rows)

    def drop_graphs(self) -> None:
        """Do nothing: no memory is kept."""


_Moved = tuple[Tensor, Tensor]
"""A tensor before and after two steps."""


@dataclass
class _Size:
    """Graph state for one batch shape; the last batch of an epoch may be smaller."""

    warmed: int = 0
    rows: Tensor | None = None  # what the graph reads
    graph: Graph | None = None


class GraphSteps:
    """Launches as CUDA graphs, one per batch size.

    A new capture key (regime, wiring, or a setting compiled into the kernels) is warmed up with
    real steps, then captured again.

    Attributes:
        trouble: Why steps are eager for good; '' while graphs are in use.
        captures: Number of graphs captured so far.
        exact: Whether every graph so far matched eager steps bit for bit.
    """

    def __init__(self, stepped: Steppable, card: Card) -> None:
        """Hold the network or stack weakly; nothing is captured yet.

        Args:
            stepped: What to step.
            card: Captures the graphs.
        """
        self._stepped: Steppable = weakref.proxy(stepped)
        self._card = card
        self._structure: Hashable = None
        self._sizes: dict[torch.Size, _Size] = {}
        self.trouble = ""
        self.captures = 0
        self.exact = True

    def step(self, rows: Tensor) -> None:
        """Take one step: warm up, capture, or replay.

        Args:
            rows: Indices of the training examples, (m,) or (B, m).
        """
        if self.trouble:
            return self._stepped.take_step(rows)
        structure = self._stepped.capture_key()
        if structure != self._structure:
            self.drop_graphs()
            self._structure = structure
        size = self._sizes.setdefault(rows.shape, _Size())
        if size.graph is None and size.warmed < WARM_UP:
            with self._card.side_stream():
                self._stepped.take_step(rows)
            size.warmed += 1
            return None
        if size.graph is None:
            try:
                self._capture_size(size, rows)
            except Exception as error:
                reason = str(error).strip().split("\n")[0].rstrip(".")
                self._fall_back(f"{type(error).__name__}: {reason}")
        if self.trouble or size.rows is None or size.graph is None:
            return self._stepped.take_step(rows)
        size.rows.copy_(rows)
        return size.graph.replay()

    def drop_graphs(self) -> None:
        """Free the memory of all graphs."""
        if any(size.graph is not None for size in self._sizes.values()):
            self._card.wait()  # a graph must not be freed while it runs
        self._sizes.clear()
        self._structure = None

    def _capture_size(self, size: _Size, rows: Tensor) -> None:
        """Capture a step and verify it; fall back to eager steps if the graph is wrong."""
        read = rows.clone()
        graph = self._card.capture_graph(lambda: self._stepped.take_step(read))
        size.rows, size.graph = read, graph
        self.captures += 1
        if trouble := self._check_graph(size, rows):
            self._fall_back(trouble)

    def _check_graph(self, size: _Size, rows: Tensor) -> str:
        """Return how a graph differs from eager steps, '' if it does not. Weights are unchanged."""
        assert size.rows is not None
        assert size.graph is not None
        read, graph = size.rows, size.graph

        def replay_batch(batch: Tensor) -> None:
            read.copy_(batch)
            graph.replay()

        eager = self._two_steps(rows, self._stepped.take_step)
        captured = self._two_steps(rows, replay_batch)
        shares = [_relative_deviation(*pair) for pair in zip(eager, captured, strict=True)]
        self.exact = self.exact and not any(shares)
        off = max(shares, default=0.0)
        if off <= TOLERANCE:
            return ""
        rounded = self._two_steps(rows, self._stepped.take_step, self._stepped.rounding)
        for share, *pair in zip(shares, eager, rounded, strict=True):
            if share > max(TOLERANCE, min(AT_MOST, ROUNDINGS * _relative_deviation(*pair))):
                deviation = format_percent(off, 0)
                return (
                    f"two captured steps deviate from eager steps by {deviation} of the distance "
                    "that the weights move"
                )
        return ""

    def _two_steps(
        self, rows: Tensor, take: Callable[[Tensor], None], rounding: float = 0.0
    ) -> list[_Moved]:
        """Take two steps and restore the weights; return each tensor before and after.

        Args:
            rows: Indices of the first batch; the second is shifted by one.
            take: Takes a step.
            rounding: Perturb the weights by this relative amount first; 0 for the exact weights.
        """
        tensors = self._stepped.changed_tensors()
        originals = [tensor.detach().clone() for tensor in tensors]
        try:
            if rounding:
                _perturb_tensors(tensors, rounding)
            before = [tensor.detach().clone() for tensor in tensors] if rounding else originals
            for batch in (rows, (rows + 1) % self._stepped.examples):
                take(batch)
            after = [tensor.detach().clone() for tensor in tensors]
        finally:
            _copy_back(tensors, originals)
        return list(zip(before, after, strict=True))

    def _fall_back(self, reason: str) -> None:
        self.drop_graphs()
        self._stepped.drop_gradients()
        self.trouble = reason
        self._stepped.on_eager(reason)


@torch.no_grad()
def _copy_back(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)


@torch.no_grad()
def _perturb_tensors(tensors: Sequence[Tensor], rounding: float) -> None:
    for tensor in tensors:
        if tensor.is_floating_point():
            own = torch.Generator(tensor.device).manual_seed(0)  # leaves the run's streams alone
            noise = torch.empty_like(tensor).normal_(generator=own)
            tensor.mul_(noise.mul_(rounding).add_(1.0))


def _relative_deviation(eager: _Moved, other: _Moved) -> float:
    """Return how far the movements of a tensor differ, relative to the eager one.

    0 for equal bits, and if the eager result is not finite: the run detects that itself.
    """
    before, after = eager
    if torch.equal(after, other[1]) or not bool(torch.isfinite(after).all()):
        return 0.0
    moved = after.double() - before.double()
    off = float((other[1].double() - other[0].double() - moved).norm())
    length = float(moved.norm())
    return off / length if length and off == off else float("inf")
